"""Rectangles painted into an array of pixels, at a cost per rectangle that a patch each would not allow."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Floats
from mlsim._jit import kernel

__all__ = ["FAINTEST", "GAP", "SEPARATED", "Raster", "blended"]


FAINTEST = 0.25
"""A pixel that any rectangle touches has at least this share of its colour, so that nothing vanishes."""

GAP = 0.5
"""Pixels that are kept clear at the right and below."""
SEPARATED = 4.0
"""So many pixels rectangles have, both ways, that are separated by it."""


class Raster:
    """Rectangles painted on white.

    A pixel takes the colour of the rectangle that covers most of it, fainter the less of it is covered by
    all of them together. Rectangles of at least 4 by 4 pixels keep half a pixel clear at the right and below,
    so that neighbours of one colour can be told apart.

    Parameters
    ----------
    shape
        Height and width in pixels.
    """

    def __init__(self, shape: tuple[int, int]) -> None:
        self._covered = np.zeros(shape, np.float32)
        self._most = np.zeros(shape, np.float32)
        self._winner = np.zeros(shape, np.uint8)

    def paint(
        self,
        left: Floats,
        right: Floats,
        top: Floats,
        bottom: Floats,
        weight: Floats,
        colour: NDArray[np.int64],
    ) -> None:
        """Add rectangles.

        Parameters
        ----------
        left, right, top, bottom
            Edges in pixels from the upper left corner; what lies outside is cut off.
        weight
            Share of its area that a rectangle covers, in (0, 1].
        colour
            Row of the palette.
        """
        _paint(left, right, top, bottom, weight, colour, self._covered, self._most, self._winner)

    def image(self, palette: Floats) -> NDArray[np.uint8]:
        """Return RGB bytes, (height, width, 3), from colours in [0, 1], (colours, 3)."""
        return blended(self._covered, self._winner, palette)


def blended(covered: NDArray[np.float32], winner: NDArray[np.uint8], palette: Floats) -> NDArray[np.uint8]:
    """Return RGB bytes of pixels: how much of each is covered, and in which colour of a palette."""
    image = np.empty((*covered.shape, 3), np.uint8)
    _blend(covered, winner, palette, image)
    return image


@kernel
def _overlap(pixel: int, low: float, high: float) -> float:
    """Return the length of [low, high] that lies in [pixel, pixel + 1]."""
    return min(pixel + 1.0, high) - max(float(pixel), low)


@kernel
def _paint(
    left: Floats,
    right: Floats,
    top: Floats,
    bottom: Floats,
    weight: Floats,
    colour: NDArray[np.int64],
    covered: NDArray[np.float32],
    most: NDArray[np.float32],
    winner: NDArray[np.uint8],
) -> None:
    """Add every rectangle's share of every pixel, and keep which one has the largest."""
    height, width = covered.shape
    for row in range(len(left)):
        x0, x1 = max(left[row], 0.0), min(right[row], float(width))
        y0, y1 = max(top[row], 0.0), min(bottom[row], float(height))
        if x1 - x0 >= SEPARATED and y1 - y0 >= SEPARATED:
            x1 -= GAP
            y1 -= GAP
        for y in range(int(y0), min(int(np.ceil(y1)), height)):
            part = weight[row] * _overlap(y, y0, y1)
            for x in range(int(x0), min(int(np.ceil(x1)), width)):
                share = part * _overlap(x, x0, x1)
                covered[y, x] += share
                if share > most[y, x]:
                    most[y, x] = share
                    winner[y, x] = colour[row]


@kernel
def _blend(
    covered: NDArray[np.float32], winner: NDArray[np.uint8], palette: Floats, image: NDArray[np.uint8]
) -> None:
    """Mix each pixel's colour with white by how much of it is covered."""
    height, width = covered.shape
    for y in range(height):
        for x in range(width):
            strength = 0.0
            if covered[y, x] > 0:
                strength = min(max(float(covered[y, x]), FAINTEST), 1.0)
            for channel in range(3):
                part = 1.0 - strength * (1.0 - palette[winner[y, x], channel])
                image[y, x, channel] = np.uint8(part * 255.0 + 0.5)
