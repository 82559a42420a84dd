"""Weight vectors of mixed policies, and searches by evolution."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from mlsim._runtime.arrays import Floats
from mlsim.errors import InputError

FEATURES: Final = ("q", "p", "wait", "ratio", "exp", "area")
"""In the order of the weights of policy linear (``batch.weights``)."""


_MOST: Final = 10_000_000
"""Combinations of values that a grid is made of: some GB of memory."""


def places_of(features: Sequence[str]) -> list[int]:
    """Return the places of features among the weights.

    Raises InputError if there are less than two, one is unknown, or named twice.
    """
    for name in features:
        if name not in FEATURES:
            raise InputError(f"features: {name!r} is not known; allowed: {', '.join(FEATURES)}")
    if len(features) < 2 or len(set(features)) < len(features):
        raise InputError(f"features: {', '.join(features)}; allowed: at least two, each once")
    return [FEATURES.index(name) for name in features]


def check_grid(points: int, features: Sequence[str]) -> None:
    """Check that a grid over some features can be made.

    Raises InputError if there are too few points or features, or too many.
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
    """Return vectors divided by the sums of their absolute values, as policy linear reads them."""
    found: Floats = vectors / np.abs(vectors).sum(axis=1, keepdims=True)
    return found


def widened(vectors: Floats, features: Sequence[str]) -> Floats:
    """Return vectors over all six features, 0 for those that are not among ``features``."""
    wide = np.zeros((len(vectors), len(FEATURES)))
    wide[:, places_of(features)] = vectors
    return wide


def simplex_grid(points: int, features: Sequence[str]) -> Floats:
    """Return a uniform grid of all mixed policies over some features, shape (vectors, 6).

    Only the direction of a vector matters, so that the vectors with a sum of absolute values of 1 are all
    policies (Zrigui 2021, §5.4). All features but the first have ``points`` values from -1 to 1; the first
    has the remainder to 1, with both signs. 200 points and three features are 39,600 vectors. The order
    depends on the arguments alone. Raises InputError as :func:`check_grid`.
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


METHODS = ("xnes", "cma-es")

Loss = Callable[[Floats], Floats]
"""From vectors, one per row, to their losses."""


def penalty(vectors: Floats, factor: float) -> Floats:
    """Return factor x (‖w‖₁ + 1 / ‖w‖₁), which is least where ‖w‖₁ = 1 (Zrigui 2021, Eq. 5.4)."""
    norms = np.abs(vectors).sum(axis=1)
    found: Floats = factor * (norms + 1.0 / norms)
    return found


def minimise(
    loss: Loss, dimensions: int, *, method: str, evaluations: int, factor: float, seed: int
) -> tuple[Floats, float]:
    """Return the best vector found for loss plus penalty, and its loss without the penalty.

    ``method`` is ``xnes`` (Glasmachers et al. 2010) or ``cma-es`` (Hansen and Ostermeier 2001, by the package
    cmaes). Up to ``evaluations`` vectors are tried, in whole generations; ``factor`` is λ of the penalty.
    Raises InputError if the method is unknown, or its package is not installed.
    """
    search = _search_of(method, dimensions, seed)
    best, least, tried = np.ones(dimensions), math.inf, 0
    while tried == 0 or tried + search.population <= evaluations:
        vectors = search.ask()
        found = loss(vectors)
        place = int(np.argmin(found))
        if found[place] < least:
            best, least = vectors[place].copy(), float(found[place])
        search.tell(vectors, found + penalty(vectors, factor))
        tried += len(vectors)
    return best, least


def tried_by(method: str, dimensions: int, evaluations: int) -> int:
    """Return the number of vectors that a search tries: whole generations, at least one."""
    population = _search_of(method, dimensions, 0).population
    return max(evaluations // population, 1) * population


def check_method(method: str) -> None:
    """Raise InputError unless a method is known and its package installed."""
    _search_of(method, 2, 0)


def _search_of(method: str, dimensions: int, seed: int) -> _Xnes | _CmaEs:
    if method == "xnes":
        return _Xnes(dimensions, seed)
    if method == "cma-es":
        return _CmaEs(dimensions, seed)
    raise InputError(f"method: {method!r} is not known; allowed: grid, {', '.join(METHODS)}")


class _Xnes:
    """Exponential natural evolution strategies with the authors' default rates (Glasmachers et al. 2010)."""

    def __init__(self, dimensions: int, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self.population = 4 + int(3 * math.log(dimensions))
        self._mean = np.zeros(dimensions)
        self._sigma, self._shape = 0.5, np.eye(dimensions)
        self._rate = 0.6 * (3 + math.log(dimensions)) / (dimensions * math.sqrt(dimensions))
        ranks = np.arange(1, self.population + 1)
        raw = np.maximum(0.0, math.log(self.population / 2 + 1) - np.log(ranks))
        self._utilities = raw / raw.sum() - 1.0 / self.population
        self._drawn = np.empty(0)

    def ask(self) -> Floats:
        """Draw a generation."""
        self._drawn = self._random.standard_normal((self.population, len(self._mean)))
        found: Floats = self._mean + self._sigma * self._drawn @ self._shape
        return found

    def tell(self, _vectors: Floats, losses: Floats) -> None:
        """Follow the natural gradient."""
        drawn = self._drawn[np.argsort(losses, kind="stable")]
        n = len(self._mean)
        mean = self._utilities @ drawn
        shape = (drawn.T * self._utilities) @ drawn - self._utilities.sum() * np.eye(n)
        sigma = np.trace(shape) / n
        self._mean = self._mean + self._sigma * mean @ self._shape
        self._sigma *= math.exp(self._rate / 2 * sigma)
        self._shape = self._shape @ _exponential(self._rate / 2 * (shape - sigma * np.eye(n)))


def _exponential(matrix: Floats) -> Floats:
    """Return the exponential of a symmetric matrix."""
    values, vectors = np.linalg.eigh(matrix)
    found: Floats = (vectors * np.exp(values)) @ vectors.T
    return found


class _CmaEs:
    """CMA-ES of the package cmaes, which draws by a generator of its own."""

    def __init__(self, dimensions: int, seed: int) -> None:
        try:
            from cmaes import CMA
        except ImportError as error:
            raise InputError(
                "method: cma-es: needs the package cmaes, which is not installed; "
                "pip install 'mlsim[search]', or use xnes"
            ) from error
        self._own: Any = CMA(mean=np.zeros(dimensions), sigma=0.5, seed=seed)
        self.population = int(self._own.population_size)

    def ask(self) -> Floats:
        """Draw a generation."""
        return np.array([self._own.ask() for _ in range(self.population)])

    def tell(self, vectors: Floats, losses: Floats) -> None:
        """Move the distribution."""
        self._own.tell([(vector, float(loss)) for vector, loss in zip(vectors, losses, strict=True)])
