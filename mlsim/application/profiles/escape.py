"""Kernel of the Mandelbrot image: how long the points of one line take to escape."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import inlined, kernel

__all__ = ["count_every_step", "count_steps"]


@kernel
def count_steps(
    real: float, imaginary: NDArray[np.float64], exponent: int, limit: int, counts: NDArray[np.int64]
) -> None:
    """Count the steps z ← z^e + c while they are fewer than ``limit`` and |z| < 2.

    A point of the set comes to a cycle sooner or later, as there are finitely many floating-point numbers.
    Once z has exactly a value it had before it never escapes, so the count is the limit; that is found
    with one value kept in mind, replaced at every power of two (Brent 1980), and saves most of the work.

    Parameters
    ----------
    real, imaginary
        c, whose real part all points share; float64[n].
    exponent
        e, at least 2; the power is computed from its binary digits, from the left.
    limit
        Most steps.
    counts
        int64[n], filled.
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
    """Count as :func:`count_steps`, and do every step: what a point takes is then proportional to its count.

    So the printed algorithm does (Eleliemy 2021, Alg. 4.2), and so its costs are simulated.
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
