"""Kernel of the spin images: bins of the points around oriented points (Eleliemy 2021, Alg. 4.1)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Floats
from mlsim._jit import kernel

__all__ = ["make_images"]


@kernel
def make_images(
    position: Floats,
    normal: Floats,
    first: int,
    width: int,
    bin_size: float,
    cosine: float,
    images: NDArray[np.int32],
) -> None:
    """Fill the images of the points ``first``, ``first + 1`` … of a cloud, modulo its points.

    Parameters
    ----------
    position, normal
        float64[3, points].
    first
        The first iteration.
    width, bin_size
        Bins along an axis, and their width in the cloud's unit.
    cosine
        Of the largest angle between the normals of two points of one image.
    images
        int32[size, width, width], filled: how many points are in each bin.
    """
    points = position.shape[1]
    for row in range(len(images)):
        images[row] = 0
        own = (first + row) % points
        px, py, pz = position[0, own], position[1, own], position[2, own]
        u, v, w = normal[0, own], normal[1, own], normal[2, own]
        for k in range(points):
            if u * normal[0, k] + v * normal[1, k] + w * normal[2, k] < cosine:
                continue
            dx, dy, dz = position[0, k] - px, position[1, k] - py, position[2, k] - pz
            height = u * dx + v * dy + w * dz
            distance2 = max(dx * dx + dy * dy + dz * dz - height * height, 0.0)
            line = math.ceil(0.5 * width - height / bin_size)
            column = math.ceil(math.sqrt(distance2) / bin_size)
            if 0 <= line < width and 0 <= column < width:
                images[row, line, column] += 1
