"""Costs of the pixels of a Mandelbrot image (Eleliemy 2021, Alg. 4.2)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import inlined, kernel
from mlsim._runtime.arrays import Floats, Ints
from mlsim.application.profiles.cost_files import recalled
from mlsim.application.profiles.profile_requests import Request

VERSION = 1


class MandelbrotImage(NamedTuple):
    """An image: width and height in pixels, exponent e, and its window of c."""

    size: int
    exponent: int = 4
    x_min: float = -2.0
    x_max: float = 2.0
    y_min: float = -2.0
    y_max: float = 2.0


def costs(request: Request) -> Floats:
    """Compute the costs of all pixels, float64[size²] in s; ``request.n`` is the number of pixels."""
    config = request.config.parameters
    window = config.window
    image = MandelbrotImage(
        round(request.n**0.5), config.exponent, window.x_min, window.x_max, window.y_min, window.y_max
    )
    return request.counted(escape_counts(image, config.limit).astype(np.float64))


def escape_counts(image: MandelbrotImage, limit: int) -> Ints:
    """Count the steps of each pixel (int64[size²], 1 to ``limit``), or load them from the cache.

    A pixel with ``limit`` steps counts as one of the set. The counts for a lower limit L are min(counts, L):
    one image serves jobs whose limits differ.
    """
    return recalled("mandelbrot", VERSION, {**image._asdict(), "limit": limit}, lambda: _count(image, limit))


def _count(image: MandelbrotImage, limit: int) -> Ints:
    size, exponent, x_min, x_max, y_min, y_max = image
    counts = np.empty((size, size), np.int64)
    imaginary = y_min + np.arange(size) * (y_max - y_min) / size
    # One call per real part, between which a long computation can be interrupted.
    for x in range(size):
        count_steps(x_min + x * (x_max - x_min) / size, imaginary, exponent, limit, counts[x])
    return counts.reshape(-1)


@kernel
def count_steps(
    real: float, imaginary: NDArray[np.float64], exponent: int, limit: int, counts: NDArray[np.int64]
) -> None:
    """Count the steps z ← z^e + c while they are fewer than ``limit`` and |z| < 2, into ``counts``.

    The points c share their real part. The power, e >= 2, is computed from its binary digits, from the left.
    A point of the set reaches a cycle sooner or later, as there are finitely many floating-point numbers.
    Once z repeats a value exactly it never escapes, so the count is the limit. One stored value, replaced at
    every power of two, detects that (Brent 1980) and saves most of the work.
    """
    leading = _leading_digit(exponent)
    for place in range(len(imaginary)):
        re, im, old_re, old_im = 0.0, 0.0, 0.0, 0.0
        step, keep = 0, 1
        while step < limit and re * re + im * im < 4.0:
            re, im = _step(re, im, real, imaginary[place], exponent, leading)
            step += 1
            if re == old_re and im == old_im:
                step = limit
            elif step == keep:
                old_re, old_im = re, im
                keep *= 2
        counts[place] = step


@kernel
def count_every_step(
    real: float, imaginary: NDArray[np.float64], exponent: int, limit: int, counts: NDArray[np.int64]
) -> None:
    """Count as :func:`count_steps` without its shortcut: time is proportional to the count.

    This is the printed algorithm (Eleliemy 2021, Alg. 4.2), on which simulated costs are based.
    """
    leading = _leading_digit(exponent)
    for place in range(len(imaginary)):
        re, im, step = 0.0, 0.0, 0
        while step < limit and re * re + im * im < 4.0:
            re, im = _step(re, im, real, imaginary[place], exponent, leading)
            step += 1
        counts[place] = step


@inlined
def _leading_digit(exponent: int) -> int:
    """Return the value of the first binary digit."""
    leading = 1
    while 2 * leading <= exponent:
        leading *= 2
    return leading


@inlined
def _step(
    re: float, im: float, real: float, imaginary: float, exponent: int, leading: int
) -> tuple[float, float]:
    """Return z^e + c."""
    power_re, power_im = re, im
    digit = leading >> 1
    while digit > 0:
        power_re, power_im = power_re * power_re - power_im * power_im, 2.0 * power_re * power_im
        if exponent & digit:
            power_re, power_im = power_re * re - power_im * im, power_re * im + power_im * re
        digit >>= 1
    return power_re + real, power_im + imaginary
