"""The jobs of a simulation: a log, read, cleaned by rules, sorted, selected and shifted."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Final

import numpy as np

from mlsim._runtime import shared_cache
from mlsim._runtime.arrays import Floats, Ints, Mask, NDArray
from mlsim.errors import InputError, NothingLeftError
from mlsim.scenario import WorkloadConfig, field_types
from mlsim.scenario.amount_types import ANY_QUEUE
from mlsim.scenario.resources_section import DEVICE_PARTS, MEMORY
from mlsim.scenario.words import (
    CleaningRule,
    EstimateSource,
    Mapping,
    MemorySource,
    NeverRan,
    RequeueRule,
    WorkloadFormat,
)
from mlsim.scenario.workload_section import CleaningConfig, SelectConfig
from mlsim.workload import job_selection
from mlsim.workload.format_record import Reading
from mlsim.workload.generated_jobs import Made, MadeReader
from mlsim.workload.job_selection import Selection, Span
from mlsim.workload.log_fields import Header, Rates, dates_in_log_time, job_names, names_of
from mlsim.workload.log_formats import LogReader
from mlsim.workload.log_gaps import IGNORED
from mlsim.workload.run_log import jobs_file
from mlsim.workload.workload_dependencies import with_preceding_jobs
from mlsim.workload.workload_jobs import IF_KNOWN, MB, REQUEST, SWF_KB, JobBlock, LogBlock, ResourceRequests

_RULES = tuple(CleaningConfig.model_fields)
MARKS = (
    *(*_RULES, "processors_from_allocated", "estimate_from_run_time", "never_ran"),
    *("walltime_from_scenario", "processors_from_nodes"),
)
"""Rules that a kept job may have met; a rule's bit in ``JobBlock.met`` is its place in this tuple."""

_CODES = tuple(name for name in IF_KNOWN if name != "node_count")
_FAILED, _CANCELLED = 0, 5
_SHORTEST_TIME = 1.0


class Cleaner:
    """Turns jobs of a log into jobs of a workload; ``notes`` counts the jobs that met each rule."""

    def __init__(
        self,
        config: WorkloadConfig,
        machine_processors: int,
        resources: tuple[str, ...] | None = (),
        cores_per_node: int = 1,
    ) -> None:
        self.header: Header = {}  # of the log, for names of partitions and queues
        self._cores_per_node = cores_per_node
        self._walltime = dict(config.estimates) if isinstance(config.estimates, tuple) else {}
        self.notes: Counter[str] = Counter()
        self._rules: dict[str, CleaningRule] = {rule: getattr(config.cleaning, rule) for rule in _RULES}
        self._machine_processors, self._resources = machine_processors, resources  # None: any of the log
        self._memory, self._never_ran = config.request.memory, config.never_ran
        self._dependencies = config.dependencies
        self._by_nodes = config.mapping is Mapping.NODE  # where the log has the nodes, these are the size
        self._actual_estimates = config.estimates is EstimateSource.ACTUAL

    def clean(self, log: LogBlock) -> JobBlock:
        """Apply the rules to some jobs; the rows stay in the log's order."""
        log, run_time = self._with_run_time(self._wanted(log))
        requested = log.requested_processors > 0
        processors = np.where(requested, log.requested_processors, log.allocated_processors)
        by_nodes = (processors <= 0) & (log.node_count > 0)
        processors[by_nodes] = log.node_count[by_nodes] * (1 if self._by_nodes else self._cores_per_node)
        known = log.requested_time > 0
        positive = np.where(run_time > 0, run_time, _SHORTEST_TIME)
        given = self._walltimes(log)
        walltime = positive
        if not self._actual_estimates:
            walltime = np.where(known, log.requested_time, np.maximum(given, positive))

        stays = np.ones(len(log), np.bool_)
        none = processors <= 0
        processors[self._meet("no_processors", none, stays)] = 1
        asked = self._asked(log, processors)
        nodes = log.node_count.copy()
        size = np.where(nodes > 0, nodes, processors) if self._by_nodes else processors
        too_big = size > self._machine_processors
        if asked is not None:
            too_big &= asked.units < 1  # a job with given units has a shape; the batch level judges it
        clamped = self._meet("oversize", too_big, stays)
        processors[clamped], nodes[clamped] = self._machine_processors, -1
        overrun = run_time > walltime
        too_short = self._meet("underestimate", overrun, stays)
        walltime[too_short] = run_time[too_short]

        allocated = ~requested & (log.allocated_processors > 0)
        unknown = ~known & (not self._actual_estimates)
        filled = {
            "processors_from_allocated": allocated,
            "processors_from_nodes": by_nodes,
            "estimate_from_run_time": unknown & (given <= 0),
            "walltime_from_scenario": unknown & (given > 0),
        }
        self.notes.update({name: int(np.sum(stays & jobs)) for name, jobs in filled.items()})
        met = _marks(
            cancelled=log.status == _CANCELLED,
            failed=log.status == _FAILED,
            unknown_run_time=log.run_time < 0,
            zero_run_time=log.run_time == 0,
            no_processors=none,
            oversize=too_big,
            underestimate=overrun,
            **filled,
            never_ran=log.withdraw_time >= 0,
        )
        after = None
        if self._dependencies:
            after = with_preceding_jobs(log.preceding_job, log.think_time, log.after)
        leaves = log.withdraw_time
        jobs = JobBlock(
            job_id=log.job_id.astype(np.int64),
            submit_time=log.submit_time,
            run_time=run_time,
            walltime=walltime,
            processors=processors.astype(np.int64),
            met=met,
            log_wait=log.wait_time,
            recorded_start=np.where((log.run_time <= 0) & (log.status == _CANCELLED), -1.0, log.starts()),
            node_count=nodes.astype(np.int64),
            patience=np.where(leaves >= 0, np.maximum(leaves - log.submit_time, 0.0), -1.0),
            asked=asked,
            after=after,
            own=log.own,
            **{name: getattr(log, name).astype(np.int64) for name in _CODES},
        )
        return jobs.select(stays)

    def _walltimes(self, log: LogBlock) -> Floats:
        """Return the scenario's walltime of each job, by partition or else by queue; 0: its run time."""
        found = np.full(len(log), self._walltime.get(ANY_QUEUE, 0.0))
        if not self._walltime.keys() - {ANY_QUEUE}:
            return found
        names = names_of(self.header)
        for column in ("queue", "partition"):
            codes = getattr(log, column)
            for code in np.unique(codes[codes >= 0]).tolist():
                seconds = self._walltime.get(names.get(column, {}).get(int(code), str(int(code))))
                if seconds is not None:
                    found[codes == code] = seconds
        return found

    def _asked(self, log: LogBlock, processors: Floats) -> ResourceRequests | None:
        """Return the requests of jobs beside processors; None where their log has none."""
        asked = log.asked
        if asked is not None and self._resources is not None:
            asked = asked.ordered(self._resources)
        if self._memory is MemorySource.NONE or self._resources is None or MEMORY not in self._resources:
            return asked
        asked = asked or ResourceRequests.unspecified(len(log), self._resources)
        used = self._memory is MemorySource.USED
        per_processor = (log.used_memory if used else log.requested_memory) * SWF_KB
        total = np.floor(per_processor // MB * np.maximum(processors, 1))
        column = asked.totals[:, self._resources.index(MEMORY)]
        unknown = (column < 0) & (per_processor > 0)
        column[unknown] = total[unknown].astype(np.int64)
        return asked

    def _wanted(self, log: LogBlock) -> LogBlock:
        """Leave out jobs without a submit time, and those that ended in a way that is not wanted."""
        # Jobs that were cancelled while they waited have no run time, and are cancelled or withdrawn.
        never = (log.run_time <= 0) & ((log.status == _CANCELLED) | (log.withdraw_time >= 0))
        log = self._with_withdrawals(log, never)
        stays = log.submit_time >= 0
        self.notes["unknown_submit_time"] += int(np.sum(~stays))
        if self._never_ran is NeverRan.LEAVE_OUT:
            self.notes["never_ran"] += int(np.sum(never & stays))
            stays &= ~never
        self.notes["never_ran"] += int(np.sum(stays & (log.withdraw_time >= 0)))
        self._meet("cancelled", log.status == _CANCELLED, stays)
        self._meet("failed", log.status == _FAILED, stays)
        return log.rows(stays)

    def _with_withdrawals(self, log: LogBlock, never: Mask) -> LogBlock:
        """Set the withdrawal time of the jobs that never ran, and of no others."""
        if self._never_ran in (NeverRan.LEAVE_OUT, NeverRan.KEEP):
            return replace(log, withdraw_time=np.full(len(log), -1.0))
        leaves = log.withdraw_time
        if self._never_ran is NeverRan.WITHDRAW:
            known = (leaves < 0) & (log.wait_time >= 0)
            leaves = np.where(known, log.submit_time + log.wait_time, leaves)
        leaves = np.where(never, leaves, -1.0)
        run_time = np.where(leaves >= 0, np.maximum(log.run_time, 0.0), log.run_time)
        return replace(log, withdraw_time=leaves, run_time=run_time)

    def _with_run_time(self, log: LogBlock) -> tuple[LogBlock, Floats]:
        """Leave out jobs that cannot run, and set the run time of all others."""
        stays = np.ones(len(log), np.bool_)
        run_time = log.run_time.copy()
        unknown = self._meet("unknown_run_time", run_time < 0, stays)
        run_time[unknown] = log.requested_time[unknown]
        timeless = unknown & (run_time <= 0)
        self.notes["no_time_at_all"] += int(np.sum(timeless))
        stays &= ~timeless
        run_time[self._meet("zero_run_time", run_time == 0, stays)] = _SHORTEST_TIME
        return log.rows(stays), run_time[stays]

    def _meet(self, rule: str, met: Mask, stays: Mask) -> Mask:
        """Count the jobs that meet a rule, take dropped ones from `stays`, and return those to clamp."""
        met = met & stays
        self.notes[rule] += int(np.sum(met))
        if self._rules[rule] is CleaningRule.DROP:
            stays &= ~met
        return met if self._rules[rule] is CleaningRule.CLAMP else np.zeros_like(met)


def _marks(**conditions: Mask) -> NDArray[np.int64]:
    """Encode the rules that each job met as bits of one integer."""
    met = np.zeros(len(conditions["failed"]), np.int64)
    for bit, name in enumerate(MARKS):
        met |= conditions[name].astype(np.int64) << bit
    return met


def count_marks(met: NDArray[np.int64]) -> dict[str, int]:
    """Return the number of jobs that met each of the :data:`MARKS`, from the column ``met`` of jobs."""
    return {name: int(np.count_nonzero(met >> bit & 1)) for bit, name in enumerate(MARKS)}


AS_LOGGED: Final = ("*",)  # In place of the names of resources: whatever the log asks for

HELD_JOBS = 100_000
SHARED_JOBS = 1_000_000
LOOK_AHEAD = 32_768
BLOCK_JOBS = 65_536


@dataclass(frozen=True, slots=True)
class Workload:
    """The jobs of a scenario."""

    n_jobs: int  # that `blocks` yields, after cleaning and selection
    jobs_in_log: int  # without broken lines
    notes: dict[str, int]
    """Counts above 0 over the whole log, whatever is selected: of every cleaning rule and fallback that met a
    job, of jobs listed right after one that was submitted later (`out_of_order`), of jobs whose job_id an
    earlier one has (`duplicate_ids`), and of skipped `broken_lines`."""
    header: Header
    origin: float  # submit time of the first job [s, log time]
    zero: float  # begin of weeks [s, log time]
    blocks: Callable[[], Iterator[JobBlock]]  # the jobs in arrival order, the first at time 0; a new walk
    has: Callable[[Ints], Mask]  # which of some identifiers occur in the log, simulated or not


class _Pass:
    """One pass over the log: cleaned jobs in the log's order, and counts of cleaning; see `open_workload`."""

    def __init__(
        self,
        config: WorkloadConfig,
        source: Path | Made,
        machine_processors: int,
        resources: tuple[str, ...] | None,
        rates: Rates | None,
        shared: Collection[str],
        if_there: Sequence[str] = (),
        cores_per_node: int = 1,
        devices: Collection[str] = (),
    ) -> None:
        self._ignored = Counter[str]()
        self._strict, self._drawn = config.strict, config.generate is not None
        if shared and resources is not None and resources != AS_LOGGED:
            resources = (*resources, *shared)
        known = None if resources == AS_LOGGED else resources or ()
        self._cleaner = Cleaner(config, machine_processors, known, cores_per_node)
        self._resources, self._devices = resources, devices
        self.reader: LogReader | MadeReader
        if isinstance(source, Path):
            join = config.requeued is RequeueRule.JOIN
            options = Reading(config.lenient, config.columns or (), tuple(shared), rates, if_there, join)
            self.reader = LogReader(source, config.format, options)
        else:
            self.reader = MadeReader(source)
        self._duplicates = job_selection.DuplicateCount()
        self._out_of_order, self._last = 0, -np.inf

    def blocks(self, survey: bool = False) -> Iterator[JobBlock]:
        """Yield the jobs; a ``survey`` counts duplicates and disorder, which only the whole log shows."""
        for block in self.reader.blocks():
            if survey and len(block):
                self._out_of_order += int(np.sum(np.diff(block.submit_time, prepend=self._last) < 0))
                self._last = float(block.submit_time[-1])
                self._duplicates.add(block)
            self._cleaner.header = self.reader.header
            yield self._cleaner.clean(self._with_known_resources(block))

    def _with_known_resources(self, block: LogBlock) -> LogBlock:
        """Drop and count requests for what the platform lacks; an error if the scenario draws them."""
        if block.asked is None or self._resources == AS_LOGGED:
            return block
        if self._resources is None:
            return replace(block, asked=None)
        unknown = [name for name in block.asked.names if name not in self._resources]
        for name in unknown:
            jobs = block.asked.totals[:, block.asked.names.index(name)] > 0
            if self._drawn or (self._strict and jobs.any()):
                has, job = ", ".join(("cores", *self._resources)), self._name_of(block, jobs)
                by = f"column request_{name}" if self._drawn else f"job {job} asks for {name}"
                hint = "" if self._drawn else ", or ignore such requests: workload.strict: off"
                raise InputError(
                    f"{self.reader.path}: {by}: the platform has no {name}; it has: {has}\n"
                    "  add it to platform.nodes (memory: 16 GB, or resources: {gpu: 2}), or to "
                    f"platform.shared{hint}"
                )
            self._ignored[name] += int(np.count_nonzero(jobs))
        self._check_shares(block, block.asked)
        return replace(block, asked=block.asked.without(unknown)) if unknown else block

    def _check_shares(self, block: LogBlock, asked: ResourceRequests) -> None:
        """Refuse shares of what the platform has, and counts."""
        for name, parts in asked.parts.items():
            if parts.any() and name in (self._resources or ()) and name not in self._devices:
                first = int(np.argmax(parts > 0))
                raise InputError(
                    f"{self.reader.path}: job {self._name_of(block, parts > 0)}: request_{name} is "
                    f"{parts[first] / DEVICE_PARTS:g}, a share of a device, and the platform counts {name}\n"
                    f"  write its devices in platform.nodes: resources: {{{name}: 8 devices}}; there are "
                    f"{np.count_nonzero(parts):,} such jobs up to here"
                )

    def _name_of(self, block: LogBlock, jobs: Mask) -> str:
        """Return the identifier that the log has for the first of some jobs."""
        number = int(block.job_id[int(np.argmax(jobs))])
        names = job_names(self.reader.header)
        return str(number) if names is None else names[number - 1]

    def workload(self, span: Span, blocks: Callable[[], Iterator[JobBlock]]) -> Workload:
        reader = self.reader
        counts = {
            **self._cleaner.notes,
            "out_of_order": self._out_of_order,
            "duplicate_ids": self._duplicates.jobs,
            "broken_lines": reader.broken_lines,
            **reader.counts,
            **{f"{IGNORED}{name}": jobs for name, jobs in self._ignored.items()},
        }
        header = dict(reader.header)
        asking = header.get("request_columns")
        if isinstance(asking, list):
            header["request_columns"] = [
                name for name in asking if name.removeprefix(REQUEST) not in self._ignored
            ]
        notes = {name: count for name, count in sorted(counts.items()) if count}
        if span.jobs:
            figures = (span.jobs, reader.jobs, notes, header, span.origin, span.zero)
            return Workload(*figures, blocks, self._duplicates.has)
        met = ", ".join(f"{name} {count}" for name, count in notes.items())
        found = f"  found in the log: {met}\n" if met else ""
        if reader.jobs == 0:
            raise NothingLeftError(
                f"{reader.path}: holds no job\n{found}  is it a workload log (SWF, CSV, Parquet or Batsim)?"
            )
        raise NothingLeftError(
            f"{reader.path}: of {reader.jobs} jobs none is left after cleaning and selection\n{found}"
            "  look at workload.select and workload.cleaning in the scenario"
        )


def open_workload(
    config: WorkloadConfig,
    source: str | Path | Made,
    machine_processors: int,
    resources: tuple[str, ...] | None = None,
    rates: Rates | None = None,
    shared: Collection[str] = (),
    if_there: Sequence[str] = (),
    cores_per_node: int = 1,
    devices: Collection[str] = (),
) -> Workload:
    """Open the workload of a scenario's ``config``: of a log that was found, or of jobs that are made.

    ``machine_processors`` is for the cleaning rule `oversize`; ``resources``: names beside cores, or
    :data:`AS_LOGGED`; None ignores the requests of the log. ``rates``: for Batsim workloads that count
    operations and bytes; ``shared``: names of machine-wide resources; ``if_there``: further columns of the
    log that are read if it has them; ``cores_per_node``: for jobs of which only the nodes are known;
    ``devices``: the resources of which a job may ask for a share.
    """
    origin = Path(source) if isinstance(source, str) else source
    machine = (machine_processors, resources, rates, shared, tuple(if_there), cores_per_node, devices)
    new_pass = partial(_Pass, config, origin, *machine)
    # Jobs that user code reads or draws are not shared: the code may use other files as well.
    identity: object = None
    if shared_cache.is_sharing() and isinstance(config.format, WorkloadFormat):
        if isinstance(origin, Path):
            file = jobs_file(origin)
            found = shared_cache.file_identity(file)
            identity = None if found is None else (found, file != origin)  # of a run, or of its file alone
        else:
            identity = origin.identity
    if identity is None:
        log = _read(new_pass, HELD_JOBS)
    else:
        without = config.model_copy(update={"select": SelectConfig(), "weeks": None, "path": ""})
        key = ("log", identity, without.model_dump_json(), repr(machine))
        log = shared_cache.shared(key, lambda: _read_to_share(new_pass))
    selection = _selection(config, log.survey.reader.header, log.survey.reader.path)
    return log.selected(selection, config.select.scale_load, new_pass)


@dataclass
class _Log:
    """A log that was read; its jobs are held in arrival order, or read again for each walk."""

    survey: _Pass
    jobs: JobBlock | None  # All of them, if they are held
    first: Iterator[JobBlock] | None = None
    """The walk that was begun to count the jobs of a log that is not held."""

    def selected(self, selection: Selection, factor: float, new_pass: Callable[[], _Pass]) -> Workload:
        """Return the workload of a selection."""
        if self.jobs is None:

            def walk() -> Iterator[JobBlock]:
                return job_selection.in_order(new_pass().blocks(), LOOK_AHEAD)

            first = walk() if self.first is None else self.first
            walks = chain([first], (walk() for _ in count()))
            self.first = None
            try:
                span = job_selection.find_span(selection, lambda: next(walks))
                path = self.survey.reader.path
                return self.survey.workload(span, lambda: _cut(span, walk(), factor, path))
            except job_selection.TooDisorderedError:
                self.survey = new_pass()
                self.jobs = _ordered(list(self.survey.blocks(survey=True)))
        jobs = self.jobs
        span = job_selection.find_span(selection, lambda: [jobs])
        taken = JobBlock.concatenate(list(_cut(span, iter([jobs]), factor, self.survey.reader.path)))

        def again() -> Iterator[JobBlock]:
            return (taken.select(slice(at, at + BLOCK_JOBS)) for at in range(0, len(taken), BLOCK_JOBS))

        return self.survey.workload(span, again)


def _read(new_pass: Callable[[], _Pass], limit: int) -> _Log:
    """Read a log; hold its jobs if they are not more than the limit, or its format is read as a whole."""
    survey = new_pass()
    held: list[JobBlock] = []
    jobs = 0
    blocks = survey.blocks(survey=True)
    for block in blocks:
        held.append(block)
        jobs += len(block)
        if jobs > limit and survey.reader.streams:
            # Blocks are dropped one by one, so that memory does not hold them twice.
            first = (held.pop(0) for _ in range(len(held)))
            return _Log(survey, None, job_selection.in_order(chain(first, blocks), LOOK_AHEAD))
    return _Log(survey, _ordered(held))


def _selection(workload: WorkloadConfig, header: Header, path: Path) -> Selection:
    config = workload.select
    return Selection(
        first=config.first,
        window=None if config.window is None else (config.window.start, config.window.end),
        most_intensive=config.most_intensive,
        warm_up=config.warm_up or 0.0,
        weeks=config.weeks,
        between=None if config.dates is None else dates_in_log_time(config.dates, header, path),
        whole_weeks=config.week_crossers is CleaningRule.DROP,
        users=None if config.user is None else _numbers_of(config.user, header, path),
        cut=None if workload.weeks is None else job_selection.week_cut(workload.weeks, header, path),
    )


def _numbers_of(users: Sequence[int | str], header: Header, path: Path) -> tuple[int, ...]:
    """Return the codes of users; names are read from the header."""
    codes = {name: code for code, name in names_of(header).get("user", {}).items()}
    numbers = []
    for user in users:
        if isinstance(user, str) and user not in codes:
            meant = field_types.nearest(user, list(codes)) if codes else " it has numbers only;"
            raise InputError(f"{path}: there is no user {user!r};{meant} look at workload.select.user")
        numbers.append(codes[user] if isinstance(user, str) else user)
    return tuple(numbers)


def _read_to_share(new_pass: Callable[[], _Pass]) -> tuple[_Log, int]:
    """Read a log that runs are to share; return it with its bytes, too many to be kept if it is not held."""
    log = _read(new_pass, SHARED_JOBS)
    return log, shared_cache.MOST_BYTES + 1 if log.jobs is None else shared_cache.bytes_of(log.jobs)


def _ordered(blocks: list[JobBlock]) -> JobBlock:
    """Join blocks in arrival order; the list is emptied."""
    jobs = JobBlock.concatenate(blocks)
    blocks.clear()
    return jobs if jobs.is_ordered() else jobs.select(jobs.arrival_order())


def _cut(span: Span, blocks: Iterator[JobBlock], factor: float, path: Path) -> Iterator[JobBlock]:
    """Yield the jobs of the span, the first one at time 0, at ``factor`` times the arrival rate."""
    missing = span.jobs
    for block in blocks:
        rows = job_selection.rows_in(span, block)[:missing]
        if rows.size:
            missing -= rows.size
            yield _resolved(block.select(rows).shifted(-span.origin).with_load(factor), path)
        if missing == 0:
            return


def _resolved(block: JobBlock, path: Path) -> JobBlock:
    """Reject run times that are too short for the resolution of float64 so far from the first job."""
    lost = (block.run_time > 0.0) & (block.submit_time + block.run_time == block.submit_time)
    if lost.any():
        row = int(np.argmax(lost))
        raise InputError(
            f"{path}: job {block.job_id[row]}: its run time of {block.run_time[row]:g} s is too short to be "
            f"told {block.submit_time[row]:.6g} s after the first job; cut the log with workload.select"
        )
    return block
