"""The jobs of a simulation: a log, read, cleaned, sorted, selected and shifted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mlsim._runtime import shared_cache
from mlsim.errors import InputError, NothingLeftError
from mlsim.scenario import WorkloadConfig
from mlsim.scenario.unit_types import nearest
from mlsim.scenario.words import CleaningRule, WorkloadFormat
from mlsim.scenario.workload_section import SelectConfig
from mlsim.workload.format_record import Reading
from mlsim.workload.generated_jobs import Made, MadeReader
from mlsim.workload.job_selection import (
    DisorderCount,
    DuplicateCount,
    Selection,
    Span,
    TooDisorderedError,
    find_span,
    in_order,
    rows_in,
    week_cut,
)
from mlsim.workload.log_cleaning import Cleaner
from mlsim.workload.log_formats import LogReader
from mlsim.workload.log_times import Rates, dates_in_log_time
from mlsim.workload.swf_fields import Header, names_of
from mlsim.workload.workload_jobs import JobBlock, LogBlock

AS_LOGGED: Final = ("*",)  # In place of the names of resources: whatever the log asks for

HELD_JOBS = 100_000
SHARED_JOBS = 1_000_000
LOOK_AHEAD = 32_768
BLOCK_JOBS = 65_536


@dataclass(frozen=True, slots=True)
class Workload:
    """The jobs of a scenario."""

    n_jobs: int
    """Number of jobs that :meth:`blocks` yields, after cleaning and selection."""
    jobs_in_log: int
    """Number of jobs in the log, excluding broken lines."""
    notes: dict[str, int]
    """Findings in the log, as counts above 0, over the whole log whatever is selected: every cleaning
    rule and fallback that met a job (:mod:`mlsim.workload.log_cleaning`), `out_of_order` (jobs listed right
    after one that was submitted later), `duplicate_ids` (jobs whose job_id an earlier one has) and
    `broken_lines` (skipped).
    """
    header: Header
    """Header of the log."""
    origin: float
    """Submit time of the first job in the log's own time [s]."""
    zero: float
    """Begin of weeks in the log's own time [s]."""
    _open: Callable[[], Iterator[JobBlock]]
    _ids: DuplicateCount

    def has(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of the identifiers occur in the log, simulated or not."""
        return self._ids.has(ids)

    def blocks(self) -> Iterator[JobBlock]:
        """Yield the jobs in arrival order, the first submitted at time 0; every call starts anew."""
        return self._open()


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
    ) -> None:
        if shared and resources is not None and resources != AS_LOGGED:
            resources = (*resources, *shared)
        known = None if resources == AS_LOGGED else resources or ()
        self._cleaner = Cleaner(config, machine_processors, known)
        self._resources = resources
        self.reader: LogReader | MadeReader
        if isinstance(source, Path):
            options = Reading(config.lenient, config.columns or (), tuple(shared), rates)
            self.reader = LogReader(source, config.format, options)
        else:
            self.reader = MadeReader(source)
        self._disorder, self._duplicates = DisorderCount(), DuplicateCount()

    def blocks(self, survey: bool = False) -> Iterator[JobBlock]:
        """Yield the jobs; a ``survey`` counts duplicates and disorder, which only the whole log shows."""
        for block in self.reader.blocks():
            if survey:
                self._disorder.add(block)
                self._duplicates.add(block)
            yield self._cleaner.clean(self._checked(block))

    def _checked(self, block: LogBlock) -> LogBlock:
        """Check that the platform has all resources that the log asks for."""
        if block.asked is None or self._resources == AS_LOGGED:
            return block
        if self._resources is None:
            return replace(block, asked=None)
        for name in block.asked.names:
            if name not in self._resources:
                has = ", ".join(("cores", *self._resources))
                raise InputError(
                    f"{self.reader.path}: column request_{name}: the platform has no {name}; it has: {has}\n"
                    "  add it to platform.nodes (memory: 16 GB, or resources: {gpu: 2}), or to "
                    "platform.shared"
                )
        return block

    def workload(self, span: Span, blocks: Callable[[], Iterator[JobBlock]]) -> Workload:
        reader = self.reader
        counts = {
            **self._cleaner.notes,
            "out_of_order": self._disorder.jobs,
            "duplicate_ids": self._duplicates.jobs,
            "broken_lines": reader.broken_lines,
            **reader.counts,
        }
        notes = {name: count for name, count in sorted(counts.items()) if count}
        if span.jobs:
            return Workload(
                *(span.jobs, reader.jobs, notes, reader.header, span.origin, span.zero),
                *(blocks, self._duplicates),
            )
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
) -> Workload:
    """Open the workload of a scenario.

    Parameters
    ----------
    config
        The scenario's `workload` section; its `path`, `generate` and `resample` are ignored.
    source
        The file that `config.path` was found to be, or the workload that is made.
    machine_processors
        Processors of the machine, in the words of the log (for the cleaning rule `oversize`).
    resources
        Names of resources beside cores, or :data:`AS_LOGGED`; None ignores the requests of the log.
    rates
        Speed and bandwidth of a processor, for Batsim workloads that count operations and bytes.
    shared
        Names of machine-wide resources.

    Raises
    ------
    InputError
        The file is missing, unreadable or broken, or no job is left.
    """
    origin = Path(source) if isinstance(source, str) else source
    machine = (machine_processors, resources, rates, shared)
    new_pass = partial(_Pass, config, origin, *machine)
    # Jobs that user code reads or draws are not shared: the code may use other files as well.
    identity: object = None
    if shared_cache.is_sharing() and isinstance(config.format, WorkloadFormat):
        identity = shared_cache.file_identity(origin) if isinstance(origin, Path) else origin.identity
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
                return in_order(new_pass().blocks(), LOOK_AHEAD)

            first = walk() if self.first is None else self.first
            walks = chain([first], (walk() for _ in count()))
            self.first = None
            try:
                span = find_span(selection, lambda: next(walks))
                path = self.survey.reader.path
                return self.survey.workload(span, lambda: _cut(span, walk(), factor, path))
            except TooDisorderedError:
                self.survey = new_pass()
                self.jobs = _ordered(list(self.survey.blocks(survey=True)))
        jobs = self.jobs
        span = find_span(selection, lambda: [jobs])
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
            return _Log(survey, None, in_order(chain(_drain(held), blocks), LOOK_AHEAD))
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
        cut=None if workload.weeks is None else week_cut(workload.weeks, header, path),
    )


def _numbers_of(users: Sequence[int | str], header: Header, path: Path) -> tuple[int, ...]:
    """Return the codes of users; names are read from the header."""
    codes = {name: code for code, name in names_of(header).get("user", {}).items()}
    numbers = []
    for user in users:
        if isinstance(user, str) and user not in codes:
            meant = nearest(user, list(codes)) if codes else " it has numbers only;"
            raise InputError(f"{path}: there is no user {user!r};{meant} look at workload.select.user")
        numbers.append(codes[user] if isinstance(user, str) else user)
    return tuple(numbers)


def _drain(blocks: list[JobBlock]) -> Iterator[JobBlock]:
    """Yield the blocks and drop each, so that memory does not hold them twice."""
    while blocks:
        yield blocks.pop(0)


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
        rows = rows_in(span, block)[:missing]
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
