"""Costs of spin images: the parallel spin-image algorithm, PSIA (Eleliemy 2021, Alg. 4.1).

Iteration i makes the spin image (Johnson 1997) of oriented point P_i of a cloud, with W × W bins of
width B. A point X, with normals n_P and n_X, and

    β = n_P·(X − P), its height above the plane of P, and α = √(‖X − P‖² − β²), its distance from the axis,

belongs to it if the angle between the normals is at most S, and the bin k = ⌈W/2 − β/B⌉, l = ⌈α/B⌉ exists:
0 ≤ k < W and 0 ≤ l < W. The cost of the iteration is the number of such points. (The printed algorithm
has k = ⌈(W/2 − β)/B⌉, in which W/2 is in bins and β in the cloud's unit.)
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim.application.profiles.cloud import Cloud, generate_cloud
from mlsim.application.profiles.request import Request
from mlsim.application.profiles.stored import recalled

__all__ = ["ImageCounter", "SpinImage", "costs", "image_counts"]


VERSION = 1
_BLOCK = 1 << 16
"""Images that are computed and kept together."""


class SpinImage(NamedTuple):
    """Shape of a spin image: W in bins, B in the cloud's unit, S in rad."""

    width: int = 5
    bin_size: float = 0.01
    angle: float = 2.0


def costs(request: Request) -> Floats:
    """Compute the costs of the first n images, float64[n] in s."""
    config = request.config
    image = SpinImage(config.image_width, config.bin_size, config.support_angle)
    counts = image_counts(request.n, image, config.points, config.cloud_seed).astype(np.float64)
    return request.counted(counts + config.scan_cost * config.points)


def image_counts(n: int, image: SpinImage, points: int, seed: int) -> Ints:
    """Count the points in each of n images of a generated cloud, or recall them from the user's cache.

    Parameters
    ----------
    n
        Images; image i is that of point i mod ``points``.
    image
        Shape of the images.
    points, seed
        Of the cloud.

    Returns
    -------
    int64[n]
        At least 1: a point belongs to its own image. Fewer images are the first ones of more.
    """
    counter = cache(lambda: ImageCounter(generate_cloud(points, seed), image))
    parameters = {**image._asdict(), "points": points, "seed": seed}

    def block(first: int) -> Ints:
        images = np.arange(first, min(first + _BLOCK, points))
        return recalled("psia", VERSION, {**parameters, "first": first}, lambda: counter().count(images))

    blocks = [block(first) for first in range(0, min(n, points), _BLOCK)]
    return np.resize(np.concatenate(blocks)[:n], n)


class ImageCounter:
    """Counts the points in spin images of a cloud.

    Parameters
    ----------
    cloud
        Any oriented points.
    image
        Shape of the images.
    """

    def __init__(self, cloud: Cloud, image: SpinImage) -> None:
        from mlsim.application.profiles.spin import Support, make_grid

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
        from mlsim.application.profiles.spin import count_points

        # Neighbours one after the other find each other's points in the processor's cache.
        order = np.argsort(self._grid.cell[of], kind="stable")
        counts = np.empty(len(of), np.int64)
        counts[order] = count_points(
            self._grid, self._cloud.position, self._cloud.normal, of[order], self._support
        )
        return counts
