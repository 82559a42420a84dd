"""Columns of a log that mlsim has no use for itself, and the user's own code has: ``workload.columns``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["OwnColumns", "joined_own"]


@dataclass(frozen=True, slots=True)
class OwnColumns:
    """Further columns of jobs, row by row."""

    of: dict[str, NDArray[Any]]
    """Name -> values: int64 where every job has a whole number; float64 for other numbers, NaN where there is
    none; else objects, texts or None.
    """

    def select(self, rows: NDArray[Any] | slice) -> OwnColumns:
        """Return the jobs that a mask, an index array or a slice names."""
        return OwnColumns({name: np.ascontiguousarray(values[rows]) for name, values in self.of.items()})


def joined_own(parts: Sequence[OwnColumns | None]) -> OwnColumns | None:
    """Join the columns of blocks of jobs of one log end to end."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    return OwnColumns({name: np.concatenate([part.of[name] for part in known]) for name in known[0].of})
