"""Jobs as columns: of logs, of simulations, and by the names of CSV, Parquet and Batsim workloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Floats, Ints
from mlsim.workload.resource_requests import ResourceRequests, join_requests
from mlsim.workload.swf_fields import (
    IDENTIFIERS,
    JOB_NAMES,
    LARGEST_WHOLE,
    ExtraField,
    Field,
    Header,
    job_names,
    listed_names,
    names_of,
)
from mlsim.workload.workload_dependencies import DEPENDENCIES, LogDependencies, join_dependencies


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


class _Block(Protocol):
    @property
    def asked(self) -> ResourceRequests | None: ...
    @property
    def after(self) -> LogDependencies | None: ...
    @property
    def own(self) -> OwnColumns | None: ...
    def __len__(self) -> int: ...


def joined_columns(blocks: Sequence[_Block], names: Sequence[str]) -> dict[str, Any]:
    """Return the columns of these names end to end, and ``asked``, ``after`` and ``own`` of all blocks."""
    sizes = list(map(len, blocks))
    asked = join_requests([block.asked for block in blocks], sizes)
    after = join_dependencies([block.after for block in blocks], sizes)
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(block, name) for block in blocks]) for name in names
    }
    return columns | {"asked": asked, "after": after, "own": joined_own([block.own for block in blocks])}


_TYPES: dict[str, type[np.generic]] = dict.fromkeys(
    ("submit_time", "run_time", "walltime", "log_wait", "patience"), np.float64
)


def _not_given() -> Ints:
    return np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class JobBlock:
    """Some jobs in arrival order, that is by (submit_time, job_id); row i of every column is job i.

    Every column is C-contiguous and of the same length. In a block that a workload yields, run
    times are at least 0, walltimes above 0 and processors at least 1. Columns after ``processors`` that are
    not given are not known: -1, and no rule is ``met``.

    Attributes
    ----------
    job_id
        Identifier in the log.
    submit_time
        When the job arrives [s from the scenario's start].
    run_time
        How long it ran in the log [s].
    walltime
        The run time that the user asked for [s]; what stands for it where the log has none
        (:mod:`mlsim.workload.log_cleaning`).
    processors
        How many processors it asks for.
    user, group, executable, queue, partition
        Numbers as in the log, -1 if not known.
    status
        How the job ended in the log (1 completed, 0 failed, 5 cancelled, -1 not known).
    met
        Which cleaning rules and fallbacks the job met: bit k stands for
        :data:`mlsim.workload.log_cleaning.MARKS` ``[k]``.
    loop_iterations
        Iterations of the loop that the job executes, -1 if the scenario decides.
    loop_limit
        Most steps of a pixel in its Mandelbrot image, -1 if the scenario decides.
    log_wait
        How long it waited in the log [s], -1 if not known, as it is where nothing is given.
    qos
        Number of the class of service, -1 if not known, as it is where nothing is given.
    node_count
        How many nodes it asks for, -1 if not known, as it is where nothing is given.
    patience
        How long it waits in the queue before it is withdrawn [s], -1 if it waits until it starts, as it does
        where nothing is given.
    asked
        Units, memory and other resources; None where the scenario alone says what jobs ask for.
    after
        Which jobs they depend on; None where dependencies are off (``workload.dependencies: off``).
    own
        Further columns of the log; None where the scenario names none (``workload.columns``).
    """

    job_id: Ints
    submit_time: Floats
    run_time: Floats
    walltime: Floats
    processors: Ints
    user: Ints = field(default_factory=_not_given)
    group: Ints = field(default_factory=_not_given)
    executable: Ints = field(default_factory=_not_given)
    queue: Ints = field(default_factory=_not_given)
    partition: Ints = field(default_factory=_not_given)
    status: Ints = field(default_factory=_not_given)
    met: Ints = field(default_factory=_not_given)
    loop_iterations: Ints = field(default_factory=_not_given)
    loop_limit: Ints = field(default_factory=_not_given)
    log_wait: Floats = field(default_factory=lambda: np.empty(0))
    qos: Ints = field(default_factory=_not_given)
    node_count: Ints = field(default_factory=_not_given)
    patience: Floats = field(default_factory=lambda: np.empty(0))
    asked: ResourceRequests | None = None
    after: LogDependencies | None = None
    own: OwnColumns | None = None

    def __post_init__(self) -> None:
        for name in _NAMES[_NAMES.index("user") :]:
            column = getattr(self, name)
            if not column.size and self.job_id.size:
                unknown = 0 if name == "met" else -1
                object.__setattr__(self, name, np.full(self.job_id.size, unknown, column.dtype))

    def __len__(self) -> int:
        return self.job_id.size

    @property
    def estimate(self) -> Floats:
        """The walltimes, by the name that this column had in release 0.1."""
        return self.walltime

    def withdrawals(self) -> Floats:
        """Return when each job leaves the queue unless it has started [s]; infinity: never."""
        return np.where(self.patience >= 0.0, self.submit_time + self.patience, np.inf)

    def select(self, rows: NDArray[Any] | slice) -> JobBlock:
        """Return the jobs that a mask, an index array or a slice names, as a block of its own."""
        asked = None if self.asked is None else self.asked.select(rows)
        after = None if self.after is None else self.after.select(rows)
        own = None if self.own is None else self.own.select(rows)
        columns: dict[str, Any] = {name: np.ascontiguousarray(getattr(self, name)[rows]) for name in _NAMES}
        return JobBlock(**columns, asked=asked, after=after, own=own)

    def shifted(self, seconds: float) -> JobBlock:
        """Return the same jobs with `seconds` added to the submit times."""
        return replace(self, submit_time=self.submit_time + seconds)

    def with_load(self, factor: float) -> JobBlock:
        """Return the same jobs with submit times divided by a factor."""
        return self if factor == 1.0 else replace(self, submit_time=self.submit_time / factor)

    def arrival_order(self) -> NDArray[np.intp]:
        """Return row numbers in arrival order; the sort is stable for equal times and identifiers."""
        return np.lexsort((self.job_id, self.submit_time))

    def is_ordered(self) -> bool:
        """Whether the rows already are in arrival order."""
        later = np.diff(self.submit_time) > 0
        tied = np.diff(self.submit_time) == 0
        return bool(np.all(later | (tied & (np.diff(self.job_id) >= 0))))

    @staticmethod
    def concatenate(blocks: Sequence[JobBlock]) -> JobBlock:
        """Join blocks end to end, in the order given (not sorted)."""
        if len(blocks) == 1:
            return blocks[0]
        if not blocks:
            return JobBlock.empty()
        return JobBlock(**joined_columns(blocks, _NAMES))

    @staticmethod
    def empty() -> JobBlock:
        """Return a block of no jobs."""
        columns: dict[str, Any] = {name: np.empty(0, _TYPES.get(name, np.int64)) for name in _NAMES}
        return JobBlock(**columns)


_NAMES = tuple(column.name for column in fields(JobBlock) if column.name not in ("asked", "after", "own"))


@dataclass(frozen=True, slots=True)
class LogBlock:
    """Some jobs in the order of the log; float64 but for identifiers (int64), -1 where the log does not know.

    The attributes are the columns of :class:`Field` and :class:`ExtraField`, under the same names. ``asked`` is what the log says of units
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
        places = (_PLACES[name] for name in _LOG_NAMES)
        found = [columns[place] if place < len(columns) else unknown for place in places]
        named = dict[str, Any](zip(_LOG_NAMES, found, strict=True))
        for identifier in IDENTIFIERS:
            exact = (identifiers or {}).get(identifier)
            named[identifier.label] = named[identifier.label].astype(np.int64) if exact is None else exact
        return LogBlock(**named, asked=asked, after=after, own=own)

    def numbered(self) -> dict[Field, Floats | Ints]:
        """Return the columns of SWF by their fields."""
        return {field: getattr(self, field.label) for field in Field}

    @staticmethod
    def concatenate(blocks: Sequence[LogBlock]) -> LogBlock:
        """Join blocks end to end."""
        if not blocks:
            return LogBlock.from_columns(np.empty((len(_LOG_NAMES), 0)))
        return LogBlock(**joined_columns(blocks, _LOG_NAMES))

    def rows(self, rows: slice | NDArray[np.bool_]) -> LogBlock:
        """Return the jobs that a slice or a mask names."""
        asked = None if self.asked is None else self.asked.select(rows)
        after = None if self.after is None else self.after.select(rows)
        own = None if self.own is None else self.own.select(rows)
        columns: dict[str, Any] = {name: getattr(self, name)[rows] for name in _LOG_NAMES}
        return LogBlock(**columns, asked=asked, after=after, own=own)


_LOG_NAMES = tuple(field.name for field in fields(LogBlock) if field.name not in ("asked", "after", "own"))
_PLACES = {field.name.lower(): field.value for field in (*Field, *ExtraField)}


# Columns by name

NamedColumns = dict[str, Floats | NDArray[np.int64] | list[str]]
"""Columns by name; a list of texts where the codes of a column have names, empty for unknown."""

IF_KNOWN = (
    *("status", "user", "group", "executable", "queue", "partition"),
    *("qos", "loop_iterations", "loop_limit", "node_count"),
)
_APART = ("asked", "after", "own")
_MADE_BY_READING = ("ignored_columns", "request_columns", "nb_res")


def named_columns(
    jobs: JobBlock | LogBlock, header: Header | None = None, *, all_names: bool = False
) -> NamedColumns:
    """Name the columns of jobs.

    Parameters
    ----------
    jobs
        The jobs; columns of which nothing is known are left out. Processors of a log are the requested ones
        where these are known, else the allocated ones.
    header
        Its ``<column>_names`` take the place of a column's codes.
    all_names
        Whether names that the header has in lines (``Queue: 3 night``) do so too, where every code of the
        column has one of its own.

    Returns
    -------
    dict
        ``job_id``, ``submit_time`` (s), ``run_time`` (s), ``estimate`` (s), ``processors``; then those of
        ``status``, ``user``, ``group``, ``executable``, ``queue``, ``partition``, ``qos``,
        ``loop_iterations``, ``loop_limit``, ``node_count`` that are known; ``units`` and
        ``request_<resource>`` where the jobs say what they ask for.
    """
    if isinstance(jobs, LogBlock):
        requested = jobs.requested_processors
        processors: Floats | NDArray[np.int64] = np.where(requested > 0, requested, jobs.allocated_processors)
        walltime = jobs.requested_time
    else:
        processors, walltime = jobs.processors, jobs.walltime
    called = job_names(header or {})
    columns: NamedColumns = {
        "job_id": jobs.job_id if called is None else [called[k - 1] for k in jobs.job_id.tolist()],
        "submit_time": jobs.submit_time,
        "run_time": jobs.run_time,
        "estimate": walltime,
        "processors": _as_int(processors),
    }
    names = (names_of if all_names else listed_names)(header or {})
    for name in IF_KNOWN:
        codes = getattr(jobs, name)
        if np.any(codes != -1):
            words = _words_of_codes(codes, names.get(name, {}))
            columns[name] = _as_int(codes) if words is None else words
    leaves = jobs.withdraw_time if isinstance(jobs, LogBlock) else jobs.withdrawals()
    leaves = np.where(np.isfinite(leaves), leaves, -1.0)
    if np.any(leaves >= 0):
        columns["withdraw_time"] = leaves
    if isinstance(jobs, LogBlock):
        columns.update(_preceding(jobs, called))
    if jobs.after is not None and len(jobs.after.row):
        columns[DEPENDENCIES] = jobs.after.cells(called)
    if jobs.asked is not None:
        columns.update(jobs.asked.columns())
    return columns


def _preceding(log: LogBlock, called: Sequence[str] | None) -> NamedColumns:
    """Return the columns of preceding jobs and think times [s]; none if no job depends on one."""
    if not np.any(log.preceding_job > 0):
        return {}
    jobs: NDArray[np.int64] | list[str] = log.preceding_job
    if called is not None:
        jobs = [called[k - 1] if k > 0 else "" for k in log.preceding_job.tolist()]
    return {"preceding_job": jobs, "think_time": log.think_time}


def _words_of_codes(codes: Floats | NDArray[np.int64], names: Mapping[int, str]) -> list[str] | None:
    """Return the name of each code, an empty one for -1; None unless names are unique."""
    found = [int(code) for code in np.unique(codes) if code != -1]
    used = [names.get(code, "") for code in found]
    if len(set(used) - {""}) < len(found) or all(name.lstrip("+-").isdecimal() for name in used):
        return None
    return [names[int(code)] if code != -1 else "" for code in codes.tolist()]


def log_of(jobs: JobBlock) -> LogBlock:
    """Return the jobs of a workload as a log; cleaning that log leaves them as they are."""
    unknown = np.full(len(jobs), -1.0)
    columns: dict[str, Any] = {field.name: unknown for field in fields(LogBlock) if field.name not in _APART}
    columns["job_id"], columns["preceding_job"] = jobs.job_id, np.full(len(jobs), -1)
    columns["asked"] = jobs.asked
    as_in_swf = None if jobs.after is None else jobs.after.preceding()
    if as_in_swf is None:
        columns["after"] = jobs.after
    else:
        columns["preceding_job"], columns["think_time"] = as_in_swf
    for name in ("submit_time", "run_time", *IF_KNOWN):
        columns[name] = getattr(jobs, name).astype(np.float64)
    columns["withdraw_time"] = np.where(jobs.patience >= 0, jobs.withdrawals(), -1.0)
    columns["requested_processors"] = jobs.processors.astype(np.float64)
    columns["requested_time"] = jobs.walltime
    return LogBlock(**columns)


def other_directives(header: Header) -> Header:
    """Return the part of a header that columns by name do not hold and that reading does not make."""
    return {
        key: value
        for key, value in header.items()
        if key not in (*_MADE_BY_READING, JOB_NAMES) and key.removesuffix("_names") not in IF_KNOWN
    }


def number_words(column: Floats | NDArray[np.int64]) -> list[str]:
    """Return the shortest decimal texts that read back as the same numbers."""
    values = column.tolist()
    return [str(int(v)) if v == int(v) and abs(v) <= LARGEST_WHOLE else repr(v) for v in values]


def _as_int(column: Floats | NDArray[np.int64]) -> NDArray[np.int64]:
    return column.astype(np.int64, copy=False)
