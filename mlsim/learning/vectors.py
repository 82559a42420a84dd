"""Weight vectors of mixed policies: names of their features, and grids of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from mlsim._arrays import Floats
from mlsim.errors import InputError

__all__ = ["FEATURES", "check_grid", "normalised", "places_of", "simplex_grid", "widened"]

FEATURES: Final = ("q", "p", "wait", "ratio", "exp", "area")
"""In the order of the weights of policy linear (``batch.weights``)."""


_MOST: Final = 10_000_000
"""Combinations of values that a grid is made of: some GB of memory."""


def places_of(features: Sequence[str]) -> list[int]:
    """Return the places of features among the weights.

    Raises
    ------
    InputError
        If there are less than two, one is not known, or named twice.
    """
    for name in features:
        if name not in FEATURES:
            raise InputError(f"features: {name!r} is not known; allowed: {', '.join(FEATURES)}")
    if len(features) < 2 or len(set(features)) < len(features):
        raise InputError(f"features: {', '.join(features)}; allowed: at least two, each once")
    return [FEATURES.index(name) for name in features]


def check_grid(points: int, features: Sequence[str]) -> None:
    """Check that a grid over some features can be made.

    Raises
    ------
    InputError
        If there are too few points or features, or too many.
    """
    dimensions = len(places_of(features)) - 1
    if points < 2:
        raise InputError(f"points: {points}; allowed: 2 or more")
    if points**dimensions > _MOST:
        most = int(_MOST ** (1 / dimensions))
        raise InputError(
            f"points: {points} values of each of {dimensions} features are {points**dimensions:,} vectors to "
            f"make a grid of; allowed: {_MOST:,}, thus up to {most} points. Or search by xnes or cma-es"
        )


def normalised(vectors: Floats) -> Floats:
    """Return vectors divided by the sums of their absolute values, which is what policy linear reads."""
    found: Floats = vectors / np.abs(vectors).sum(axis=1, keepdims=True)
    return found


def widened(vectors: Floats, features: Sequence[str]) -> Floats:
    """Return vectors over all six features, 0 for those that are not among ``features``."""
    wide = np.zeros((len(vectors), len(FEATURES)))
    wide[:, places_of(features)] = vectors
    return wide


def simplex_grid(points: int, features: Sequence[str]) -> Floats:
    """Return a uniform grid of all mixed policies over some features.

    Only the direction of a vector matters, so that the vectors with a sum of absolute values of 1 are all
    policies (Zrigui 2021, §5.4). All features but the first have ``points`` values from -1 to 1; the first
    has what is left of 1, with both signs. 200 points and three features are 39,600 vectors.

    Parameters
    ----------
    points
        Values of a dimension; at least 2.
    features
        Names of :data:`FEATURES`.

    Returns
    -------
    ndarray of float64, shape (vectors, 6)
        In an order that depends on the arguments alone.

    Raises
    ------
    InputError
        As of :func:`check_grid`.
    """
    check_grid(points, features)
    axes = [np.linspace(-1.0, 1.0, points)] * (len(features) - 1)
    others = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    rest = 1.0 - np.abs(others).sum(axis=1)
    inside, edge = others[rest > 1e-12], others[np.abs(rest) <= 1e-12]
    left = rest[rest > 1e-12, np.newaxis]
    parts = [
        np.hstack([left, inside]),
        np.hstack([-left, inside]),
        np.hstack([np.zeros((len(edge), 1)), edge]),
    ]
    return widened(np.vstack(parts), features)
