"""A generated cloud of oriented points, in place of a scanned object."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mlsim._arrays import Floats

__all__ = ["Cloud", "generate_cloud"]


_BUMPS = 12
_HIGHEST = 0.8


class Cloud(NamedTuple):
    """Points of a surface, float64[3, n] each: position, and outward normal of length 1."""

    position: Floats
    normal: Floats


def generate_cloud(points: int, seed: int) -> Cloud:
    """Sample the surface of a ball with bumps, scaled to a largest extent of 1.

    In direction d the surface is at r(d) = 1 + Σ a_j·((1 + d·u_j)/2)^8 from the centre, with twelve bumps
    in random directions u_j and heights a_j from 0 to 0.8. Points have random directions, in no order: where
    the surface is far from the centre, or steep, they are sparse, so that spin images count differently
    many. Only sums, products, quotients and roots are used, which are the same on every machine.

    Parameters
    ----------
    points
        How many.
    seed
        The same seed gives the same surface; and with as many points the same points.
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
