"""Costs that are counted: steps of Mandelbrot pixels and points of spin images, cached on disk.

Eleliemy 2021, Alg. 4.2 and Alg. 4.1 (PSIA, the parallel spin-image algorithm).
"""

import contextlib
import hashlib
import io
import json
import math
import os
import secrets
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlsim._files import expanded, read_bytes
from mlsim._jit import inlined, kernel
from mlsim._runtime.arrays import Floats, Ints
from mlsim._runtime.places import user_cache
from mlsim._runtime.work_progress import Stage, followed, stage
from mlsim.application.profiles.profile_costs import Request
from mlsim.errors import InputError

VARIABLE = "MLSIM_CACHE"
_DIGEST = 32


def cache_directory() -> Path | None:
    """Return the directory of cached counts: in $MLSIM_CACHE, else in the user's cache, if any."""
    place = os.environ.get(VARIABLE)
    found = expanded(place) if place else user_cache()
    return None if found is None else found / "profiles"


def recalled(name: str, version: int, parameters: Mapping[str, float], compute: Callable[[], Ints]) -> Ints:
    """Return counts from the cache, or compute and cache them.

    ``name``, ``version`` (raise it when the counts change) and ``parameters`` are the key.
    """
    key = json.dumps({"counts": name, "version": version, **parameters}, sort_keys=True).encode()
    directory = cache_directory()
    if directory is None:
        return compute()
    path = directory / f"{name}-{hashlib.blake2b(key, digest_size=16).hexdigest()}.counts"
    counts = _read(path, key)
    if counts is None:
        counts = compute()
        _write(path, key, counts)
    return counts


def _fingerprint(key: bytes, content: bytes | memoryview) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST, key=hashlib.blake2b(key).digest()).digest()


def _read(path: Path, key: bytes) -> Ints | None:
    """Return the counts of a cached file; None if it is missing, truncated, or has another key."""
    try:
        data = read_bytes(path, "count")
    except InputError:
        return None  # missing or unreadable: counted again
    content = memoryview(data)[_DIGEST:]
    if data[:_DIGEST] != _fingerprint(key, content):
        return None
    counts: Ints = np.load(io.BytesIO(content), allow_pickle=False).astype(np.int64)
    return counts


def _write(path: Path, key: bytes, counts: Ints) -> None:
    """Cache counts; a disk that is full or read-only is not an error."""
    buffer = io.BytesIO()
    np.save(buffer, counts.astype(np.min_scalar_type(counts.max(initial=0))))
    content = buffer.getbuffer()
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        # Not by tempfile: other users of a shared cache could not read its files.
        partial = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
        try:
            with partial.open("xb") as file:
                file.write(_fingerprint(key, content))
                file.write(content)
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


_PIXEL_VERSION = 1


class MandelbrotImage(NamedTuple):
    """An image: width and height in pixels, exponent e, and its window of c."""

    size: int
    exponent: int = 4
    x_min: float = -2.0
    x_max: float = 2.0
    y_min: float = -2.0
    y_max: float = 2.0


def mandelbrot_costs(request: Request) -> Floats:
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
    parameters = {**image._asdict(), "limit": limit}
    return recalled("mandelbrot", _PIXEL_VERSION, parameters, lambda: _count(image, limit))


def _count(image: MandelbrotImage, limit: int) -> Ints:
    size, exponent, x_min, x_max, y_min, y_max = image
    counts = np.empty((size, size), np.int64)
    imaginary = y_min + np.arange(size) * (y_max - y_min) / size
    # One call per real part, between which a long computation can be interrupted.
    with stage("iteration costs of mandelbrot", size, apart=True) as work:
        for x in followed(range(size), work):
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


_IMAGE_VERSION = 1
_BLOCK = 1 << 16  # images per block, which is computed and cached as a whole


class SpinImage(NamedTuple):
    """Shape of a spin image: W in bins, B in the cloud's unit, S in rad."""

    width: int = 5
    bin_size: float = 0.01
    angle: float = 2.0


def psia_costs(request: Request) -> Floats:
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

    def block(first: int, work: Stage) -> Ints:
        images = np.arange(first, min(first + _BLOCK, points))
        key = {**parameters, "first": first}
        return recalled("psia", _IMAGE_VERSION, key, lambda: counter().count(images, work))

    with stage("iteration costs of psia", min(n, points), apart=True) as work:
        blocks = []
        for first in range(0, min(n, points), _BLOCK):
            blocks.append(block(first, work))
            work.done = float(first + len(blocks[-1]))  # also where it was cached
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

    def count(self, of: Ints, work: Stage | None = None) -> Ints:
        """Count the points in the images of the points ``of``; int64[m]. ``work`` advances with them."""
        grid, cloud, support = self._grid, self._cloud, self._support
        limits = support.radius**2, support.low, support.high, support.cosine
        # In the order of cells, consecutive images share points in the processor's cache.
        order = np.argsort(grid.cell[of], kind="stable")
        counts, found = np.empty(len(of), np.int64), np.empty(len(of), np.int64)
        # Several calls, between which a long computation can be interrupted.
        for first in range(0, len(of), _TOGETHER):
            part = slice(first, first + _TOGETHER)
            some = of[order[part]]
            place = np.ascontiguousarray(cloud.position[:, some]), np.ascontiguousarray(cloud.normal[:, some])
            cells = grid.cell[some]
            _count_images(found[part], *place, cells, grid.shape, grid.start, grid.points, grid.reach, limits)
            if work is not None:
                work.advance(len(some))
        counts[order] = found
        return counts


_TOGETHER = 4096
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

    shape: Ints  # int64[3], cells along each axis
    cell: Ints  # int64[n], cell of each point
    start: Ints  # int64[cells + 1], index in ``points`` of the first point of each cell
    points: Floats  # float64[6, n], positions and normals in the order of the cells
    reach: int  # all points of an image are within this many cells of its point's own, in each direction


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

    Without branches and negative indices, the loop runs on vector units, five times as fast.
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
