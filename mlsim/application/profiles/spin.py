"""Kernel of the spin images: a grid over the cloud, and counting the points in an image's support."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim._jit import kernel

__all__ = ["Grid", "Support", "count_points", "make_grid"]


_CELLS_PER_REACH = 3
_MOST_ACROSS = 128


class Support(NamedTuple):
    """Which points belong to an image: α ≤ radius, low ≤ β < high, cosine of the normals' angle ≥ cosine."""

    radius: float
    low: float
    high: float
    cosine: float


class Grid(NamedTuple):
    """The points of a cloud by cells of a cubic grid."""

    shape: Ints
    """int64[3], cells along each axis."""
    cell: Ints
    """int64[n], number of the cell that each point is in."""
    start: Ints
    """int64[cells + 1], where the points of each cell begin in ``points``."""
    points: Floats
    """float64[6, n], positions and normals in the order of the cells."""
    reach: int
    """So many cells in each direction from a point's own hold all points of its image."""


def make_grid(position: Floats, normal: Floats, distance: float) -> Grid:
    """Sort points into cells.

    Parameters
    ----------
    position, normal
        float64[3, n].
    distance
        Points of one image are at most so far apart.
    """
    low, high = position.min(axis=1), position.max(axis=1)
    # A little wider than asked for, so that rounding puts no point one cell too far.
    width = max(distance / _CELLS_PER_REACH, float((high - low).max()) / _MOST_ACROSS) * (1.0 + 1e-9)
    place = ((position - low[:, None]) / width).astype(np.int64)
    shape = place.max(axis=1) + 1
    cell = (place[0] * shape[1] + place[1]) * shape[2] + place[2]
    order = np.argsort(cell, kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(cell, minlength=int(shape.prod())))])
    points = np.concatenate([position, normal])[:, order]
    return Grid(shape, cell, start, np.ascontiguousarray(points), int(np.ceil(distance / width)))


def count_points(grid: Grid, position: Floats, normal: Floats, of: Ints, support: Support) -> Ints:
    """Count the points in the images of the points ``of``, int64[m]."""
    counts = np.empty(len(of), np.int64)
    # One call for so many images: a long computation can be interrupted between them.
    for first in range(0, len(of), _TOGETHER):
        part = slice(first, first + _TOGETHER)
        _count_images(
            counts[part],
            np.ascontiguousarray(position[:, of[part]]),
            np.ascontiguousarray(normal[:, of[part]]),
            grid.cell[of[part]],
            grid.shape,
            grid.start,
            grid.points,
            grid.reach,
            (support.radius**2, support.low, support.high, support.cosine),
        )
    return counts


_TOGETHER = 4096


@kernel
def _count_images(
    counts: Ints,
    position: Floats,
    normal: Floats,
    cell: Ints,
    shape: Ints,
    start: Ints,
    points: Floats,
    reach: int,
    limits: tuple[float, float, float, float],
) -> None:
    """Count for each image the points in the cells around its own."""
    across, down = shape[1], shape[2]
    for image in range(len(counts)):
        z = cell[image] % down
        y = cell[image] // down % across
        x = cell[image] // (down * across)
        front, back = max(z - reach, 0), min(z + reach, down - 1)
        total = 0
        for row in range(max(x - reach, 0), min(x + reach, shape[0] - 1) + 1):
            for column in range(max(y - reach, 0), min(y + reach, across - 1) + 1):
                # Cells that follow each other on the last axis are one stretch of points.
                line = (row * across + column) * down
                total += _count_stretch(
                    points, start[line + front], start[line + back + 1], position, normal, image, limits
                )
        counts[image] = total


@kernel
def _count_stretch(
    points: Floats,
    first: int,
    last: int,
    position: Floats,
    normal: Floats,
    image: int,
    limits: tuple[float, float, float, float],
) -> int:
    """Count the points of one stretch that belong to an image.

    Without a branch and with indices that cannot be negative, the loop runs on the processor's vector units,
    five times as fast.
    """
    radius2, low, high, cosine = limits
    px, py, pz = position[0, image], position[1, image], position[2, image]
    u, v, w = normal[0, image], normal[1, image], normal[2, image]
    count = 0
    for k in range(np.uint64(first), np.uint64(last)):
        dx, dy, dz = points[0, k] - px, points[1, k] - py, points[2, k] - pz
        height = u * dx + v * dy + w * dz
        distance2 = dx * dx + dy * dy + dz * dz - height * height
        likeness = u * points[3, k] + v * points[4, k] + w * points[5, k]
        count += (distance2 <= radius2) & (height >= low) & (height < high) & (likeness >= cosine)
    return count
