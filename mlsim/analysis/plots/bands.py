"""Bars of PEs painted into bands of pixels: one after the other, a look-up of the colour each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Floats, Ints
from mlsim._jit import kernel
from mlsim.analysis.plots.raster import GAP, SEPARATED, blended

__all__ = ["Bands"]


class Bands:
    """Bands of equal height that are painted as by :class:`~mlsim.analysis.plots.raster.Raster`.

    All rows of pixels of a band are alike, but for the last one, which separates bars: so two are painted,
    whatever the height.

    Parameters
    ----------
    shape
        Height and width in pixels.
    bands
        How many; they divide the height.
    """

    def __init__(self, shape: tuple[int, int], bands: int) -> None:
        self._height = shape[0] // bands
        self._separated = self._height >= SEPARATED
        painted = (2 if self._separated else 1, bands, shape[1])
        self._covered = np.zeros(painted, np.float32)
        self._most = np.zeros(painted, np.float32)
        self._winner = np.zeros(painted, np.uint8)

    def paint(
        self,
        band: NDArray[np.int32],
        start: Floats,
        end: Floats,
        across: float,
        value: Ints,
        least: int,
        colours: NDArray[np.uint8],
    ) -> None:
        """Add bars.

        Parameters
        ----------
        band, start, end
            Where each is, and from when to when; what lies outside of the picture is cut off.
        across
            Pixels for a unit of time.
        value, least, colours
            A bar has the colour, a row of the palette, in place ``value - least``.
        """
        image = self._covered, self._most, self._winner
        _paint(band, start, end, across, value, least, colours, self._separated, *image)

    def image(self, palette: Floats) -> NDArray[np.uint8]:
        """Return RGB bytes, (height, width, 3), from colours in [0, 1], (colours, 3)."""
        painted = [blended(*pixels, palette) for pixels in zip(self._covered, self._winner, strict=True)]
        rows = [painted[0]] * (self._height - 1) + [painted[-1]]
        return np.stack(rows, axis=1).reshape(-1, *painted[0].shape[1:])


@kernel
def _paint(
    band: NDArray[np.int32],
    start: Floats,
    end: Floats,
    across: float,
    value: Ints,
    least: int,
    colours: NDArray[np.uint8],
    separated: bool,
    covered: NDArray[np.float32],
    most: NDArray[np.float32],
    winner: NDArray[np.uint8],
) -> None:
    width = covered.shape[2]
    for row in range(len(start)):
        left, right = max(start[row] * across, 0.0), min(end[row] * across, float(width))
        colour, height = colours[value[row] - least], 1.0
        if separated and right - left >= SEPARATED:
            right -= GAP
            height -= GAP
        for layer in range(len(covered)):
            part = height if layer == 1 else 1.0
            for x in range(int(left), min(int(np.ceil(right)), width)):
                share = part * (min(x + 1.0, right) - max(float(x), left))
                covered[layer, band[row], x] += share
                if share > most[layer, band[row], x]:
                    most[layer, band[row], x] = share
                    winner[layer, band[row], x] = colour
