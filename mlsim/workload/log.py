"""Jobs as a log has them, before cleaning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from mlsim.workload.fields import Field, LoopField

__all__ = ["LogBlock"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LogBlock:
    """Some jobs in the order of the log; all columns float64, -1 where the log does not know.

    The attributes are the columns of :class:`Field` and those of :class:`LoopField`, under the same names.
    """

    job_id: Floats
    submit_time: Floats
    wait_time: Floats
    run_time: Floats
    allocated_processors: Floats
    average_cpu_time: Floats
    used_memory: Floats
    requested_processors: Floats
    requested_time: Floats
    requested_memory: Floats
    status: Floats
    user: Floats
    group: Floats
    executable: Floats
    queue: Floats
    partition: Floats
    preceding_job: Floats
    think_time: Floats
    loop_iterations: Floats
    loop_limit: Floats

    def __len__(self) -> int:
        return self.job_id.size

    @staticmethod
    def from_columns(columns: Floats) -> LogBlock:
        """Take the columns from an array of shape (20, jobs), or (18, jobs) without those of the loop."""
        unknown = np.full(columns.shape[1], -1.0)
        places = (_PLACES[name] for name in _NAMES)
        return LogBlock(*(columns[place] if place < len(columns) else unknown for place in places))

    @staticmethod
    def concatenate(blocks: Sequence[LogBlock]) -> LogBlock:
        """Join blocks end to end."""
        if not blocks:
            return LogBlock.from_columns(np.empty((len(_NAMES), 0)))
        return LogBlock(*(np.concatenate([getattr(block, name) for block in blocks]) for name in _NAMES))

    def rows(self, rows: slice | NDArray[np.bool_]) -> LogBlock:
        """Return the jobs that a slice or a mask names."""
        return LogBlock(*(getattr(self, name)[rows] for name in _NAMES))


_NAMES = tuple(field.name for field in fields(LogBlock))
_PLACES = {field.name.lower(): field.value for field in (*Field, *LoopField)}
