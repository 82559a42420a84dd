"""How often each value occurs, of more values than are held."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Floats, Ints

__all__ = ["Tally"]

_WAITING = 1 << 18
QUANTILES = {"median": 0.5, "p90": 0.9, "p99": 0.99}


class Tally:
    """Counts values, optionally with weights; memory grows with the different values alone."""

    def __init__(self) -> None:
        self._values: Floats = np.empty(0)
        self._counts: Floats = np.empty(0)
        self._waiting: list[tuple[Floats, Floats]] = []
        self._size = 0

    def add(self, values: NDArray[Any], weights: Floats | None = None) -> None:
        """Count values, each once or by its weight."""
        each = np.ones(values.size) if weights is None else weights
        self._waiting.append((values.astype(np.float64), each))
        self._size += values.size
        if self._size >= _WAITING:
            self._merge()

    def _merge(self) -> None:
        values = np.concatenate([self._values, *(some for some, _ in self._waiting)])
        counts = np.concatenate([self._counts, *(some for _, some in self._waiting)])
        self._waiting, self._size = [], 0
        self._values, place = np.unique(values, return_inverse=True)
        self._counts = np.bincount(place, counts, self._values.size).astype(np.float64)

    def counted(self) -> tuple[Floats, Floats]:
        """Return the different values, ascending, and how often each occurs."""
        self._merge()
        return self._values, self._counts

    @property
    def whole(self) -> Ints:
        """The counts as whole numbers."""
        return self.counted()[1].astype(np.int64)

    def summary(self) -> dict[str, float] | None:
        """Return least, mean, standard deviation, quantiles and largest; None of no values.

        A quantile is the least value that so large a part of the values does not exceed.
        """
        values, counts = self.counted()
        total = float(counts.sum())
        if not total:
            return None
        mean = float((values * counts).sum() / total)
        below = np.cumsum(counts)
        found = {
            name: float(values[np.searchsorted(below, share * total * (1 - 1e-12))])
            for name, share in QUANTILES.items()
        }
        std = float(np.sqrt((counts * (values - mean) ** 2).sum() / total))
        return {"min": float(values[0]), "mean": mean, "std": std, **found, "max": float(values[-1])}
