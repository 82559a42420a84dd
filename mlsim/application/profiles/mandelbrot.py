"""Costs of the pixels of a Mandelbrot image (Eleliemy 2021, Alg. 4.2).

An iteration of the loop is a pixel, and its cost the number of steps z ← z^e + c, from z = 0, that are
done while they are fewer than the limit and |z| < 2. (The printed algorithm has the two tests joined by
"or", which would never end, and divides by the width of the window where it must multiply.)

Pixel k of an image of W × W has x = ⌊k/W⌋ and y = k mod W, and
c = x_min + x·(x_max − x_min)/W + i·(y_min + y·(y_max − y_min)/W): the loop goes through the imaginary
parts of one real part, then of the next.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim.application.profiles.request import Request
from mlsim.application.profiles.stored import recalled

__all__ = ["MandelbrotImage", "costs", "escape_counts"]


VERSION = 1


class MandelbrotImage(NamedTuple):
    """An image: width and height in pixels, exponent e, and the window of c that it shows."""

    size: int
    exponent: int = 4
    x_min: float = -2.0
    x_max: float = 2.0
    y_min: float = -2.0
    y_max: float = 2.0


def costs(request: Request) -> Floats:
    """Compute the costs of all pixels, float64[size²] in s; ``request.n`` is the number of pixels."""
    config = request.config
    window = config.window
    image = MandelbrotImage(
        round(request.n**0.5), config.exponent, window.x_min, window.x_max, window.y_min, window.y_max
    )
    return request.counted(escape_counts(image, config.limit).astype(np.float64))


def escape_counts(image: MandelbrotImage, limit: int) -> Ints:
    """Count the steps of each pixel, or recall them from the user's cache.

    Parameters
    ----------
    image
        What is computed.
    limit
        Steps after which a pixel counts as one of the set. The counts for a lower limit L are
        min(counts, L): one image serves jobs whose limits differ.

    Returns
    -------
    int64[size²]
        From 1 to ``limit``, in the order of the pixels.
    """
    return recalled("mandelbrot", VERSION, {**image._asdict(), "limit": limit}, lambda: _count(image, limit))


def _count(image: MandelbrotImage, limit: int) -> Ints:
    from mlsim.application.profiles.escape import count_steps

    size, exponent, x_min, x_max, y_min, y_max = image
    counts = np.empty((size, size), np.int64)
    imaginary = y_min + np.arange(size) * (y_max - y_min) / size
    # One call for each real part: a long computation can be interrupted between them.
    for x in range(size):
        count_steps(x_min + x * (x_max - x_min) / size, imaginary, exponent, limit, counts[x])
    return counts.reshape(-1)
