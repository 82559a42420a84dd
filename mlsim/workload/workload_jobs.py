"""Jobs as columns, of logs, simulations and by names, and their requests for units and resources."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

from mlsim._runtime.arrays import Floats, Ints, Mask, NDArray
from mlsim.scenario.field_types import SIZE, parse_value
from mlsim.scenario.resources_section import DEVICE_PARTS
from mlsim.workload import log_fields
from mlsim.workload.workload_dependencies import DEPENDENCIES, LogDependencies, join_dependencies

NODE_COUNT = "node_count"  # Column of the number of nodes of a job
RECORDED_START = "recorded_start"  # Column of the start of a job in the log
WORKFLOW = "workflow"  # Column of the name of the workflow that a job is a task of
WORKFLOW_KEY = "Workflow"  # Key of the header of a log that is a workflow: its name
RECORDED_NODES = "recorded_nodes"  # Column of the names of its nodes there, as Slurm writes them
REQUEST = "request_"  # Prefix of the columns of resources


def is_request(name: str) -> bool:
    """Whether a column of this name is a request for units or a resource."""
    return name == "units" or (name.startswith(REQUEST) and name != REQUEST)


@dataclass(frozen=True, slots=True)
class ResourceRequests:
    """Units and totals of jobs, row by row."""

    names: tuple[str, ...]  # The resources of the columns of `totals`
    units: Ints  # int64[n]: identical units of each job; -1 where the scenario decides
    totals: Ints  # (n, names): what all units together ask for (memory in MB, rounded up), -1 likewise
    exact: Ints | None = None  # bytes of memory that the log gives in another unit than MB, else -1
    # By name: the thousandths of a device of jobs that ask for a share, of which the total is 1; 0 of others.
    parts: Mapping[str, Ints] = field(default_factory=dict)

    @property
    def has_share(self) -> Mask:
        """Whether each job asks for a share of a device."""
        found = np.zeros(len(self.units), np.bool_)
        for parts in self.parts.values():
            found |= parts > 0
        return found

    def totals_of(self, name: str) -> Ints:
        """Return the totals of a resource, -1 where they are unknown."""
        if name not in self.names:
            return np.full(len(self.units), -1, np.int64)
        return self.totals[:, self.names.index(name)]

    def in_parts(self, name: str, each: Ints) -> Ints:
        """Return what a unit asks for of devices in parts; ``each``: in devices."""
        parts = self.parts.get(name)
        return each * DEVICE_PARTS if parts is None else np.where(parts > 0, parts, each * DEVICE_PARTS)

    def select(self, rows: NDArray[Any] | slice) -> ResourceRequests:
        """Return the jobs of a mask, an index array or a slice."""
        exact = None if self.exact is None else np.ascontiguousarray(self.exact[rows])
        units, totals = np.ascontiguousarray(self.units[rows]), np.ascontiguousarray(self.totals[rows])
        parts = {name: np.ascontiguousarray(each[rows]) for name, each in self.parts.items()}
        return ResourceRequests(self.names, units, totals, exact, parts)

    def ordered(self, names: tuple[str, ...]) -> ResourceRequests:
        """Return the same with columns for ``names``, -1 in new ones."""
        totals = np.full((len(self.units), len(names)), -1, np.int64)
        for column, name in enumerate(self.names):
            totals[:, names.index(name)] = self.totals[:, column]
        return ResourceRequests(names, self.units, totals, self.exact, self.parts)

    def without(self, names: Sequence[str]) -> ResourceRequests:
        """Return the same without columns for ``names``."""
        kept = [column for column, name in enumerate(self.names) if name not in names]
        exact = None if "memory" in names else self.exact
        totals = np.ascontiguousarray(self.totals[:, kept])
        parts = {name: each for name, each in self.parts.items() if name not in names}
        return ResourceRequests(tuple(self.names[k] for k in kept), self.units, totals, exact, parts)

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the requests as columns of a workload file."""
        totals: dict[str, NDArray[Any]] = {
            f"{REQUEST}{name}": self.totals[:, column] for column, name in enumerate(self.names)
        }
        for name, parts in self.parts.items():
            totals[f"{REQUEST}{name}"] = np.where(
                parts > 0, parts / DEVICE_PARTS, totals[f"{REQUEST}{name}"].astype(np.float64)
            )
        return {"units": self.units, **totals}

    @staticmethod
    def unspecified(n: int, names: tuple[str, ...] = ()) -> ResourceRequests:
        """Return the requests of ``n`` jobs that leave everything to the scenario."""
        return ResourceRequests(names, np.full(n, -1, np.int64), np.full((n, len(names)), -1, np.int64))


def join_requests(parts: Sequence[ResourceRequests | None], sizes: Sequence[int]) -> ResourceRequests | None:
    """Join the requests of blocks of jobs end to end; -1 for blocks without requests."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    names = known[0].names
    filled = [
        ResourceRequests.unspecified(size, names) if part is None else part
        for part, size in zip(parts, sizes, strict=True)
    ]
    units, totals = (np.concatenate([getattr(part, name) for part in filled]) for name in ("units", "totals"))
    exact = None
    if any(part.exact is not None for part in filled):
        columns = [np.full(len(p.units), -1, np.int64) if p.exact is None else p.exact for p in filled]
        exact = np.concatenate(columns)
    each = {
        name: np.concatenate([p.parts.get(name, np.zeros(len(p.units), np.int64)) for p in filled])
        for name in dict.fromkeys(name for part in filled for name in part.parts)
    }
    return ResourceRequests(names, units, totals, exact, each)


@dataclass(frozen=True, slots=True)
class NodeSets:
    """The nodes that jobs may use, as far as these are not all."""

    masks: Mask  # (sets, nodes): which nodes are in each set
    of_job: Ints  # 0 for a job that may use all nodes, else 1 + the row of its set in `masks`

    @staticmethod
    def of(masks: Mask) -> NodeSets:
        """Return the sets of jobs, given the nodes of each job, shape (n, nodes)."""
        distinct, of_job = np.unique(masks, axis=0, return_inverse=True)
        return NodeSets(distinct, of_job.reshape(-1).astype(np.int64) + 1)

    def select(self, rows: NDArray[Any] | slice) -> NodeSets:
        """Return the sets of the jobs of a mask, an index array or a slice."""
        return NodeSets(self.masks, np.ascontiguousarray(self.of_job[rows]))


def join_node_sets(parts: Sequence[NodeSets | None], sizes: Sequence[int]) -> NodeSets | None:
    """Join the sets of blocks of jobs end to end; jobs of blocks without sets may use all nodes."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    of_job, n_sets = [], 0
    for part, size in zip(parts, sizes, strict=True):
        of_job.append(np.zeros(size, np.int64))
        if part is not None:
            of_job[-1][:] = np.where(part.of_job > 0, part.of_job + n_sets, 0)
            n_sets += len(part.masks)
    return NodeSets(np.concatenate([part.masks for part in known]), np.concatenate(of_job))


MB = 1_000_000  # Bytes in the MB of columns `request_memory`
SWF_KB = 1024.0  # Bytes in the KB of SWF logs
_SLURM = {"K": 1024, "": 1024**2, "M": 1024**2, "G": 1024**3, "T": 1024**4, "P": 1024**5}
_PBS_SIZE = re.compile(r"(\d{1,15})([kmgtp]?)[bw]?", re.IGNORECASE)
_SLURM_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)([KMGTP]?)")


def slurm_size(text: str) -> int:
    """Return the bytes of an amount of memory of Slurm, such as 1.5G; a ValueError if it is none."""
    found = _SLURM_SIZE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no amount of memory of Slurm")
    return int(Decimal(found[1]) * _SLURM[found[2]])


def pbs_size(text: str) -> int:
    """Return the bytes of an amount of memory of PBS, such as 4gb or 1kw; a ValueError if it is none."""
    found = _PBS_SIZE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no amount of memory of PBS")
    factor: int = 1024 ** ("kmgtp".find(found[2].lower()) + 1 if found[2] else 0)
    return int(found[1]) * factor * (8 if text.lower().endswith("w") else 1)


def sized(text: str) -> int:
    """Return the bytes of a text with a unit, such as 3174 MiB, rounded down; -1 where it is none."""
    try:
        value, _ = parse_value(text, SIZE)
    except ValueError:
        return -1
    return int(value) if 0 <= value <= SIZE.most else -1


@dataclass(frozen=True, slots=True)
class OwnColumns:
    """Further columns of jobs, row by row."""

    # int64 where every job has a whole number; float64 for other numbers or NaN; else texts or None
    of: dict[str, NDArray[Any]]

    def select(self, rows: NDArray[Any] | slice) -> OwnColumns:
        """Return the jobs of a mask, an index array or a slice."""
        return OwnColumns({name: np.ascontiguousarray(values[rows]) for name, values in self.of.items()})


def joined_own(parts: Sequence[OwnColumns | None], sizes: Sequence[int] | None = None) -> OwnColumns | None:
    """Join the columns of blocks of jobs end to end; ``sizes``: of blocks that may lack some columns."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    kinds = {name: values.dtype for part in known for name, values in part.of.items()}
    if sizes is None:
        return OwnColumns({name: np.concatenate([part.of[name] for part in known]) for name in kinds})
    filled = [
        {name: np.full(size, _UNKNOWN[kind.kind], kind) for name, kind in kinds.items()}
        | ({} if part is None else part.of)
        for part, size in zip(parts, sizes, strict=True)
    ]
    return OwnColumns({name: np.concatenate([part[name] for part in filled]) for name in kinds})


_UNKNOWN: dict[str, Any] = {"i": -1, "f": np.nan, "O": None}
LOG_WITHDRAWAL = "log_withdraw_time"  # Column of a run's jobs: when they leave unless they have started


def columns_of_input(block: JobBlock) -> dict[str, NDArray[Any]]:
    """Return columns of the workload that make the jobs of a run a workload again."""
    found: dict[str, NDArray[Any]] = {
        name: getattr(block, name)
        for name in ("loop_iterations", "loop_limit", NODE_COUNT)
        if np.any(getattr(block, name) != -1)
    }
    if np.any(block.patience >= 0.0):
        leaves = block.withdrawals()
        found[LOG_WITHDRAWAL] = np.where(np.isfinite(leaves), leaves, np.nan)
    if np.any(block.recorded_start >= 0):
        found[RECORDED_START] = np.where(block.recorded_start >= 0, block.recorded_start, np.nan)
    if block.after is not None and len(block.after.row):
        cells = np.empty(len(block), object)
        cells[:] = [cell or None for cell in block.after.cells()]
        found[DEPENDENCIES] = cells
    return found


APART = ("asked", "after", "own")  # Parts of a block that are no plain columns


def joined_columns(blocks: Sequence[JobBlock] | Sequence[LogBlock], names: Sequence[str]) -> dict[str, Any]:
    """Return the columns of these names end to end, and ``asked``, ``after`` and ``own`` of all blocks."""
    sizes = list(map(len, blocks))
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(block, name) for block in blocks]) for name in names
    }
    return columns | {
        "asked": join_requests([block.asked for block in blocks], sizes),
        "after": join_dependencies([block.after for block in blocks], sizes),
        "own": joined_own([block.own for block in blocks]),
    }


def _parts_of(block: JobBlock | LogBlock, rows: NDArray[Any] | slice) -> dict[str, Any]:
    parts = {name: getattr(block, name) for name in APART}
    return {name: None if part is None else part.select(rows) for name, part in parts.items()}


_TYPES: dict[str, type[np.generic]] = dict.fromkeys(
    ("submit_time", "run_time", "walltime", "log_wait", "patience", RECORDED_START), np.float64
)


def _no_codes() -> Ints:
    return np.empty(0, np.int64)


def _no_times() -> Floats:
    return np.empty(0)


@dataclass(frozen=True, slots=True)
class JobBlock:
    """Some jobs in arrival order, that is by (submit_time, job_id); row i of every column is job i.

    Columns are C-contiguous. In a workload, run times are at least 0, walltimes above 0 and processors at
    least 1. Columns after ``processors`` that are not given are not known: -1, and no rule is ``met``.
    """

    job_id: Ints
    submit_time: Floats  # arrival [s from the scenario's start]
    run_time: Floats  # in the log [s]
    walltime: Floats  # requested run time [s]; its substitute where the log has none (log_source)
    processors: Ints  # requested
    user: Ints = field(default_factory=_no_codes)
    group: Ints = field(default_factory=_no_codes)
    executable: Ints = field(default_factory=_no_codes)
    queue: Ints = field(default_factory=_no_codes)
    partition: Ints = field(default_factory=_no_codes)
    status: Ints = field(default_factory=_no_codes)  # end in the log: 1 completed, 0 failed, 5 cancelled
    met: Ints = field(default_factory=_no_codes)  # rules that the job met: bit k is log_source.MARKS[k]
    loop_iterations: Ints = field(default_factory=_no_codes)  # of its loop, -1 if the scenario decides
    loop_limit: Ints = field(default_factory=_no_codes)  # most steps of a pixel of its image, likewise
    log_wait: Floats = field(default_factory=_no_times)  # s
    qos: Ints = field(default_factory=_no_codes)
    node_count: Ints = field(default_factory=_no_codes)  # requested nodes
    patience: Floats = field(default_factory=_no_times)  # wait until it is withdrawn [s], -1 without limit
    recorded_start: Floats = field(default_factory=_no_times)  # in the log [s], as submit_time; -1: unknown
    asked: ResourceRequests | None = None  # None where the scenario alone decides units and resources
    after: LogDependencies | None = None  # None for `workload.dependencies: off`
    own: OwnColumns | None = None  # further columns of the log (`workload.columns`)
    node_sets: NodeSets | None = None  # the nodes that each job may use; None: all
    number: Ints | None = None  # place of each job in the log; None: that of its row

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
        """Return the jobs of a mask, an index array or a slice, as a block of its own."""
        columns: dict[str, Any] = {name: np.ascontiguousarray(getattr(self, name)[rows]) for name in _NAMES}
        sets = None if self.node_sets is None else self.node_sets.select(rows)
        number = None if self.number is None else self.number[rows]
        return JobBlock(**columns, **_parts_of(self, rows), node_sets=sets, number=number)

    def shifted(self, seconds: float) -> JobBlock:
        """Return the same jobs with `seconds` added to the submit times and recorded starts."""
        start = self.recorded_start
        start = np.where(start >= 0, start + seconds, start)
        return replace(self, submit_time=self.submit_time + seconds, recorded_start=start)

    def with_load(self, factor: float) -> JobBlock:
        """Return the same jobs with submit times divided by a factor, without recorded starts."""
        return self if factor == 1.0 else replace(self.unrecorded(), submit_time=self.submit_time / factor)

    def unrecorded(self) -> JobBlock:
        """Return the same jobs without starts and nodes in the log."""
        own = {} if self.own is None else {k: v for k, v in self.own.of.items() if k != RECORDED_NODES}
        return replace(self, recorded_start=np.full(len(self), -1.0), own=OwnColumns(own) if own else None)

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
        sets = join_node_sets([block.node_sets for block in blocks], list(map(len, blocks)))
        numbers = [block.number for block in blocks if block.number is not None]
        number = np.concatenate(numbers) if len(numbers) == len(blocks) else None
        return JobBlock(**joined_columns(blocks, _NAMES), node_sets=sets, number=number)

    @staticmethod
    def empty() -> JobBlock:
        """Return a block of no jobs."""
        columns: dict[str, Any] = {name: np.empty(0, _TYPES.get(name, np.int64)) for name in _NAMES}
        return JobBlock(**columns)


class NamedJobs(NamedTuple):
    """Jobs in arrival order, and a header with the names behind their codes."""

    jobs: JobBlock
    header: log_fields.Header


_NAMES = tuple(
    column.name for column in fields(JobBlock) if column.name not in (*APART, "node_sets", "number")
)


@dataclass(frozen=True, slots=True)
class LogBlock:
    """Some jobs in the order of the log: the columns of :class:`Field` and :class:`ExtraField`.

    All are float64 but for identifiers, -1 for unknown; ``after`` lacks the dependencies on preceding jobs.
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
    recorded_start: Floats
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
        identifiers: Mapping[log_fields.Field, Ints] | None = None,
    ) -> LogBlock:
        """Make a block from columns of shape (24, jobs), or (18, jobs) with those of SWF alone."""
        unknown = np.full(columns.shape[1], -1.0)
        places = (_PLACES[name] for name in _LOG_NAMES)
        found = [columns[place] if place < len(columns) else unknown for place in places]
        named = dict[str, Any](zip(_LOG_NAMES, found, strict=True))
        for identifier in log_fields.IDENTIFIERS:
            exact = (identifiers or {}).get(identifier)
            named[identifier.label] = named[identifier.label].astype(np.int64) if exact is None else exact
        return LogBlock(**named, asked=asked, after=after, own=own)

    def starts(self) -> Floats:
        """Return the recorded start of each job [s, log time]; -1: unknown."""
        by_wait = np.where(self.wait_time >= 0, self.submit_time + self.wait_time, -1.0)
        return np.where(self.recorded_start >= 0, self.recorded_start, by_wait)

    def numbered(self) -> dict[log_fields.Field, Floats | Ints]:
        """Return the columns of SWF by their fields."""
        return {field: getattr(self, field.label) for field in log_fields.Field}

    @staticmethod
    def concatenate(blocks: Sequence[LogBlock]) -> LogBlock:
        """Join blocks end to end."""
        if not blocks:
            return LogBlock.from_columns(np.empty((len(_LOG_NAMES), 0)))
        return LogBlock(**joined_columns(blocks, _LOG_NAMES))

    def rows(self, rows: slice | NDArray[np.bool_]) -> LogBlock:
        """Return the jobs of a slice or a mask."""
        columns: dict[str, Any] = {name: getattr(self, name)[rows] for name in _LOG_NAMES}
        return LogBlock(**columns, **_parts_of(self, rows))


_LOG_NAMES = tuple(field.name for field in fields(LogBlock) if field.name not in APART)
_PLACES = {field.name.lower(): field.value for field in (*log_fields.Field, *log_fields.ExtraField)}


def numbered_by_appearance(codes: Ints) -> tuple[Ints, Ints]:
    """Return codes numbered from 1 in the order of appearance, as readers do, and that order."""
    present, first = np.unique(codes, return_index=True)
    order = present[np.argsort(first)]
    numbers = np.zeros(int(codes.max()) + 1, np.int64)
    numbers[order] = np.arange(1, order.size + 1)
    return numbers[codes], order


# Columns by name

NamedColumns = dict[str, Floats | NDArray[np.int64] | list[str]]
"""Columns by name; a list of texts where the codes of a column have names, empty for unknown."""

IF_KNOWN = (
    *("status", "user", "group", "executable", "queue", "partition"),
    *("qos", "loop_iterations", "loop_limit", "node_count"),
)
_MADE_BY_READING = ("ignored_columns", "request_columns", "nb_res")


def named_columns(
    jobs: JobBlock | LogBlock, header: log_fields.Header | None = None, *, all_names: bool = False
) -> NamedColumns:
    """Return jobs as columns under the names of CSV; columns of which nothing is known are left out.

    The header's ``<column>_names`` take the place of codes; if ``all_names``, so do names in its lines
    (``Queue: 3 night``), where every code of the column has one of its own.
    """
    if isinstance(jobs, LogBlock):
        requested = jobs.requested_processors
        processors: Floats | Ints = np.where(requested > 0, requested, jobs.allocated_processors)
        walltime = jobs.requested_time
    else:
        processors, walltime = jobs.processors, jobs.walltime
    called = log_fields.job_names(header or {})
    columns: NamedColumns = {
        "job_id": jobs.job_id if called is None else [called[k - 1] for k in jobs.job_id.tolist()],
        "submit_time": jobs.submit_time,
        "run_time": jobs.run_time,
        "estimate": walltime,
        "processors": processors.astype(np.int64, copy=False),
    }
    names = (log_fields.names_of if all_names else log_fields.listed_names)(header or {})
    for name in IF_KNOWN:
        codes = getattr(jobs, name)
        if np.any(codes != -1):
            words = _words_of_codes(codes, names.get(name, {}))
            columns[name] = codes.astype(np.int64, copy=False) if words is None else words
    leaves = jobs.withdraw_time if isinstance(jobs, LogBlock) else jobs.withdrawals()
    leaves = np.where(np.isfinite(leaves), leaves, -1.0)
    if np.any(leaves >= 0):
        columns["withdraw_time"] = leaves
    starts = jobs.starts() if isinstance(jobs, LogBlock) else jobs.recorded_start
    if np.any(starts >= 0):
        columns[RECORDED_START] = starts
    if isinstance(jobs, LogBlock) and np.any(jobs.preceding_job > 0):
        before = jobs.preceding_job
        named = [called[k - 1] if k > 0 else "" for k in before.tolist()] if called else before
        columns |= {"preceding_job": named, "think_time": jobs.think_time}
    if jobs.after is not None and len(jobs.after.row):
        columns[DEPENDENCIES] = jobs.after.cells(called)
    if jobs.asked is not None:
        columns.update(jobs.asked.columns())
    return columns


def named_own(own: OwnColumns | None, *, as_numbers: bool) -> NamedColumns:
    """Return further columns by name; numbers that a job may lack are texts unless ``as_numbers``."""
    found: NamedColumns = {}
    for name, values in ({} if own is None else own.of).items():
        if values.dtype == np.int64 or (as_numbers and values.dtype != object):
            found[name] = values
        elif values.dtype == object:
            found[name] = ["" if value is None else str(value) for value in values]
        else:
            words = log_fields.number_words(np.nan_to_num(values, nan=-1.0))
            found[name] = ["" if empty else word for word, empty in zip(words, np.isnan(values), strict=True)]
    return found


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
    columns: dict[str, Any] = {field.name: unknown for field in fields(LogBlock) if field.name not in APART}
    columns["job_id"], columns["preceding_job"] = jobs.job_id, np.full(len(jobs), -1)
    columns["asked"], columns["own"] = jobs.asked, jobs.own
    as_in_swf = None if jobs.after is None else jobs.after.preceding()
    if as_in_swf is None:
        columns["after"] = jobs.after
    else:
        columns["preceding_job"], columns["think_time"] = as_in_swf
    for name in ("submit_time", "run_time", *IF_KNOWN):
        columns[name] = getattr(jobs, name).astype(np.float64)
    columns["withdraw_time"] = np.where(jobs.patience >= 0, jobs.withdrawals(), -1.0)
    columns[RECORDED_START] = jobs.recorded_start
    columns["wait_time"] = np.maximum(jobs.recorded_start - jobs.submit_time, -1.0)
    columns["requested_processors"] = jobs.processors.astype(np.float64)
    columns["requested_time"] = jobs.walltime
    return LogBlock(**columns)


def other_directives(header: log_fields.Header) -> log_fields.Header:
    """Return the part of a header that columns by name do not hold and that reading does not make."""
    return {
        key: value
        for key, value in header.items()
        if key not in (*_MADE_BY_READING, log_fields.JOB_NAMES) and key.removesuffix("_names") not in IF_KNOWN
    }
