"""Searches of weight vectors by evolution, which need no grid: xNES and CMA-ES."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mlsim._arrays import Floats
from mlsim.errors import InputError

__all__ = ["METHODS", "check_method", "minimise", "penalty", "tried_by"]

METHODS = ("xnes", "cma-es")

Loss = Callable[[Floats], Floats]
"""From vectors, one a row, to their losses."""


def penalty(vectors: Floats, factor: float) -> Floats:
    """Return factor x (‖w‖₁ + 1 / ‖w‖₁), which is least where ‖w‖₁ = 1 (Zrigui 2021, Eq. 5.4)."""
    norms = np.abs(vectors).sum(axis=1)
    found: Floats = factor * (norms + 1.0 / norms)
    return found


def minimise(
    loss: Loss, dimensions: int, *, method: str, evaluations: int, factor: float, seed: int
) -> tuple[Floats, float]:
    """Search for the vector of the least loss plus penalty.

    Parameters
    ----------
    loss
        What is minimised, without the penalty.
    dimensions
        Of the vectors.
    method
        ``xnes`` (Glasmachers et al. 2010) or ``cma-es`` (Hansen and Ostermeier 2001, by the package cmaes).
    evaluations
        How many vectors are tried, up to the last whole generation.
    factor
        λ of the penalty.
    seed
        Of the draws.

    Returns
    -------
    tuple
        The best vector that was tried, and its loss without the penalty.

    Raises
    ------
    InputError
        If the method is not known, or its package is not installed.
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
    """Return how many vectors a search tries: whole generations, at least one."""
    population = _search_of(method, dimensions, 0).population
    return max(evaluations // population, 1) * population


def check_method(method: str) -> None:
    """Check that a method is known, and its package installed.

    Raises
    ------
    InputError
        If it is not.
    """
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
