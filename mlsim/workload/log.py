"""Jobs as a log has them, before cleaning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Floats, Ints
from mlsim.workload.fields import IDENTIFIERS, ClassField, Field, LeaveField, LoopField, NodeField
from mlsim.workload.joining import joined_columns
from mlsim.workload.log_dependencies import LogDependencies
from mlsim.workload.own import OwnColumns
from mlsim.workload.resource_requests import ResourceRequests

__all__ = ["LogBlock"]


@dataclass(frozen=True, slots=True)
class LogBlock:
    """Some jobs in the order of the log; float64 but for identifiers (int64), -1 where the log does not know.

    The attributes are the columns of :class:`Field`, :class:`LoopField`, :class:`ClassField`,
    :class:`NodeField` and :class:`LeaveField`, under the same names. ``asked`` is what the log says of units
    and resources; None where it says nothing; ``after`` is its column of dependencies, without those of
    preceding jobs; ``own`` are further columns that the scenario names.
    """

    job_id: Ints
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
    preceding_job: Ints
    think_time: Floats
    loop_iterations: Floats
    loop_limit: Floats
    qos: Floats
    node_count: Floats
    withdraw_time: Floats
    asked: ResourceRequests | None = None
    after: LogDependencies | None = None
    own: OwnColumns | None = None

    def __len__(self) -> int:
        return self.job_id.size

    @staticmethod
    def from_columns(
        columns: Floats,
        asked: ResourceRequests | None = None,
        after: LogDependencies | None = None,
        own: OwnColumns | None = None,
        identifiers: Mapping[Field, Ints] | None = None,
    ) -> LogBlock:
        """Take the columns from an array of shape (23, jobs), or (18, jobs) with those of SWF alone.

        Those of identifiers may be given apart, as there are some that float64 does not hold.
        """
        unknown = np.full(columns.shape[1], -1.0)
        places = (_PLACES[name] for name in _NAMES)
        found = [columns[place] if place < len(columns) else unknown for place in places]
        named = dict[str, Any](zip(_NAMES, found, strict=True))
        for field in IDENTIFIERS:
            exact = (identifiers or {}).get(field)
            named[field.label] = named[field.label].astype(np.int64) if exact is None else exact
        return LogBlock(**named, asked=asked, after=after, own=own)

    def numbered(self) -> dict[Field, Floats | Ints]:
        """Return the columns of SWF by their fields."""
        return {field: getattr(self, field.label) for field in Field}

    @staticmethod
    def concatenate(blocks: Sequence[LogBlock]) -> LogBlock:
        """Join blocks end to end."""
        if not blocks:
            return LogBlock.from_columns(np.empty((len(_NAMES), 0)))
        return LogBlock(**joined_columns(blocks, _NAMES))

    def rows(self, rows: slice | NDArray[np.bool_]) -> LogBlock:
        """Return the jobs that a slice or a mask names."""
        asked = None if self.asked is None else self.asked.select(rows)
        after = None if self.after is None else self.after.select(rows)
        own = None if self.own is None else self.own.select(rows)
        columns: dict[str, Any] = {name: getattr(self, name)[rows] for name in _NAMES}
        return LogBlock(**columns, asked=asked, after=after, own=own)


_NAMES = tuple(field.name for field in fields(LogBlock) if field.name not in ("asked", "after", "own"))
_PLACES = {
    field.name.lower(): field.value for field in (*Field, *LoopField, *ClassField, *NodeField, *LeaveField)
}
