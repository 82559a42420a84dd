"""Costs of the parallel spin-image algorithm, PSIA (Eleliemy 2021, Alg. 4.1)."""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np

from mlsim._jit import kernel
from mlsim._runtime.arrays import Floats, Ints
from mlsim.application.profiles.cost_files import recalled
from mlsim.application.profiles.profile_requests import Request

_BUMPS = 12
_HIGHEST = 0.8


class Cloud(NamedTuple):
    """Points of a surface, float64[3, n] each: position, and outward normal of length 1."""

    position: Floats
    normal: Floats


def generate_cloud(points: int, seed: int) -> Cloud:
    """Sample the surface of a ball with bumps, scaled to a largest extent of 1.

    In direction d the surface is at r(d) = 1 + Σ a_j·((1 + d·u_j)/2)^8 from the centre, with twelve bumps
    in random directions u_j and heights a_j from 0 to 0.8. Points have random directions, in no order.
    They are sparse where the surface is far from the centre, or steep, so that spin images count different
    numbers. Only sums, products, quotients and roots are used, which are the same on every machine.
    ``seed`` sets the surface, and with ``points`` the points.
    """
    shape, sample = (np.random.default_rng((seed, use)) for use in range(2))
    bumps, heights = _directions(shape, _BUMPS), shape.uniform(0.0, _HIGHEST, _BUMPS)
    direction = _directions(sample, points)
    radius, slope = np.ones(points), np.zeros((3, points))
    for bump, height in zip(bumps.T, heights.tolist(), strict=True):
        along = _dot(direction, bump[:, None])
        half = 0.5 * (1.0 + along)
        square = half * half
        seventh = square * square * square * half
        radius += height * seventh * half
        slope += 4.0 * height * seventh * (bump[:, None] - along * direction)
    normal = direction - slope / radius
    position = direction * radius
    extent = (position.max(axis=1) - position.min(axis=1)).max() if points > 1 else 0.0
    return Cloud(position / (extent or 1.0), normal / np.sqrt(_dot(normal, normal)))


def _directions(generator: np.random.Generator, n: int) -> Floats:
    """Draw directions, uniform on the sphere: float64[3, n]."""
    vectors = np.ascontiguousarray(generator.standard_normal((n, 3)).T)
    return vectors / np.sqrt(_dot(vectors, vectors))


def _dot(one: Floats, other: Floats) -> Floats:
    # Spelled out: a library's sum of products may take them in another order.
    product: Floats = one[0] * other[0] + one[1] * other[1] + one[2] * other[2]
    return product


VERSION = 1
_BLOCK = 1 << 16
"""Images per block, which is computed and cached as a whole."""


class SpinImage(NamedTuple):
    """Shape of a spin image: W in bins, B in the cloud's unit, S in rad."""

    width: int = 5
    bin_size: float = 0.01
    angle: float = 2.0


def costs(request: Request) -> Floats:
    """Compute the costs of the first n images, float64[n] in s."""
    config = request.config.parameters
    image = SpinImage(config.image_width, config.bin_size, config.support_angle)
    counts = image_counts(request.n, image, config.points, config.cloud_seed).astype(np.float64)
    return request.counted(counts + config.scan_cost * config.points)


def image_counts(n: int, image: SpinImage, points: int, seed: int) -> Ints:
    """Count the points in each of n images of a generated cloud, int64[n], or load them from the cache.

    Image i is that of point i mod ``points``. Counts are at least 1, as a point belongs to its own image. The
    first m of n counts are those of m images.
    """
    counter = cache(lambda: ImageCounter(generate_cloud(points, seed), image))
    parameters = {**image._asdict(), "points": points, "seed": seed}

    def block(first: int) -> Ints:
        images = np.arange(first, min(first + _BLOCK, points))
        return recalled("psia", VERSION, {**parameters, "first": first}, lambda: counter().count(images))

    blocks = [block(first) for first in range(0, min(n, points), _BLOCK)]
    return np.resize(np.concatenate(blocks)[:n], n)


class ImageCounter:
    """Counts the points in spin images of a cloud of oriented points."""

    def __init__(self, cloud: Cloud, image: SpinImage) -> None:
        width, bin_size = image.width, image.bin_size
        self._support = Support(
            radius=(width - 1) * bin_size,
            low=(1.0 - 0.5 * width) * bin_size,
            high=(0.5 * width + 1.0) * bin_size,
            cosine=math.cos(image.angle),
        )
        farthest = math.hypot(self._support.radius, self._support.high)
        self._cloud = cloud
        self._grid = make_grid(cloud.position, cloud.normal, farthest)

    def count(self, of: Ints) -> Ints:
        """Count the points in the images of the points ``of``; int64[m]."""
        # In the order of cells, consecutive images share points in the processor's cache.
        order = np.argsort(self._grid.cell[of], kind="stable")
        counts = np.empty(len(of), np.int64)
        counts[order] = count_points(
            self._grid, self._cloud.position, self._cloud.normal, of[order], self._support
        )
        return counts


_CELLS_PER_REACH = 3
_MOST_ACROSS = 128


class Support(NamedTuple):
    """Points of an image: α ≤ radius, low ≤ β < high, cosine of the normals' angle ≥ cosine."""

    radius: float
    low: float
    high: float
    cosine: float


class Grid(NamedTuple):
    """The points of a cloud by cells of a cubic grid."""

    shape: Ints
    """int64[3], cells along each axis."""
    cell: Ints
    """int64[n], cell of each point."""
    start: Ints
    """int64[cells + 1], index in ``points`` of the first point of each cell."""
    points: Floats
    """float64[6, n], positions and normals in the order of the cells."""
    reach: int
    """All points of an image are within this many cells of its point's own, in each direction."""


def make_grid(position: Floats, normal: Floats, distance: float) -> Grid:
    """Sort points (float64[3, n]) into cells; ``distance``: upper bound within one image."""
    low, high = position.min(axis=1), position.max(axis=1)
    # Slightly wider, so that rounding cannot put a point one cell too far.
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
    # Several calls, between which a long computation can be interrupted.
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
