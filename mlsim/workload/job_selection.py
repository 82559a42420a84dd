"""Selections and weeks of a workload, and the order of arrival."""

import datetime
import zoneinfo
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mlsim._runtime.arrays import Floats, Ints, Mask, NDArray
from mlsim.errors import InputError
from mlsim.scenario import words, workload_section
from mlsim.workload.log_fields import Header, start_and_zone
from mlsim.workload.workload_jobs import JobBlock, LogBlock

_MAPPED_IDS = 1 << 28


class TooDisorderedError(Exception):
    """A job arrived earlier than one that had left the look-ahead; the log must be sorted as a whole."""


class DuplicateCount:
    """Counts the jobs whose job_id an earlier job of the log has: one bit per number below 2^28."""

    def __init__(self) -> None:
        self.jobs = 0
        self._seen = np.zeros(1, np.uint8)
        self._large = np.empty(0, np.int64)

    def add(self, block: LogBlock) -> None:
        """Count those of the next jobs of the log."""
        numbers = np.unique(block.job_id.astype(np.int64))
        self.jobs += len(block) - numbers.size
        split = int(np.searchsorted(numbers, _MAPPED_IDS))
        if split:
            mapped = numbers[:split]
            needed = int(mapped[-1]) // 8 + 1
            if needed > self._seen.size:
                grown = np.zeros(max(needed, 2 * self._seen.size), np.uint8)
                grown[: self._seen.size] = self._seen
                self._seen = grown
            place, bit = mapped >> 3, np.left_shift(1, mapped & 7).astype(np.uint8)
            self.jobs += int(np.count_nonzero(self._seen[place] & bit))
            np.bitwise_or.at(self._seen, place, bit)
        large = numbers[split:]
        if large.size:
            self.jobs += int(np.count_nonzero(np.isin(large, self._large)))
            self._large = np.union1d(self._large, large)

    def has(self, ids: Ints) -> Mask:
        """Return which of the identifiers occurred among the jobs counted so far."""
        place = np.minimum(ids >> 3, self._seen.size - 1)
        mapped = (self._seen[place] >> (ids & 7).astype(np.uint8)) & 1
        low: Mask = (ids >> 3 < self._seen.size) & (ids < _MAPPED_IDS) & (mapped != 0)
        return low | np.isin(ids, self._large)


def in_order(blocks: Iterable[JobBlock], look_ahead: int) -> Iterator[JobBlock]:
    """Sort a stream of blocks stably into arrival order; ``look_ahead`` jobs are held back."""
    held: deque[JobBlock] = deque()  # each sorted, one after the other
    count = 0
    last = (-np.inf, -1)
    for block in blocks:
        if not len(block):
            continue
        block = _sorted(block)
        if held and _first(block) < _last(held[-1]):
            block = _sorted(JobBlock.concatenate([*held, block]))
            held.clear()
            count = 0
        held.append(block)
        count += len(block)
        if _first(held[0]) < last:
            raise TooDisorderedError
        while held and count - len(held[0]) >= look_ahead:
            ready = held.popleft()
            count -= len(ready)
            last = _last(ready)
            yield ready
        if len(held) == 1 and count > look_ahead:
            # What was sorted together is long; let no more of it wait than needed.
            whole, ready_rows = held.popleft(), count - look_ahead
            ready = whole.select(slice(0, ready_rows))
            held.append(whole.select(slice(ready_rows, None)))
            count = look_ahead
            last = _last(ready)
            yield ready
    yield from held


def _first(block: JobBlock) -> tuple[float, int]:
    return float(block.submit_time[0]), int(block.job_id[0])


def _last(block: JobBlock) -> tuple[float, int]:
    return float(block.submit_time[-1]), int(block.job_id[-1])


def _sorted(block: JobBlock) -> JobBlock:
    return block if block.is_ordered() else block.select(block.arrival_order())


WEEK_SECONDS = 7 * 86_400.0
_MONTHS = 2400  # after the begin of a log


def recorded_starts(jobs: JobBlock) -> Floats:
    """Return the start of each job in the log [s]: submit time plus wait, 0 where it is not known."""
    return jobs.submit_time + np.maximum(jobs.log_wait, 0.0)


class WeekCut(NamedTuple):
    """Rule that cuts a log into weeks."""

    by_start: bool  # whether jobs belong to the week of their recorded start, or of their submission
    remove: bool  # whether jobs whose recorded end is in a later week are left out
    edge: float  # one of the edges [s, log time]; NaN: the arrival of the first job
    phase: float  # shift of the edges [s]
    months: tuple[float, ...] = ()  # all edges [s, log time], where calendar months take the place of weeks

    def zero_after(self, first: float, warm_up: float) -> float:
        """Return the start of week 0 [s, log time]; ``first``: of the jobs after the warm-up."""
        if np.isnan(self.edge):
            return first + self.phase
        edge, begins = self.edge + self.phase, first if warm_up > 0 else 0.0
        if self.months:
            return self.months[int(np.searchsorted(self.months, begins))]
        return float(edge + np.ceil((begins - edge) / WEEK_SECONDS) * WEEK_SECONDS)

    def weeks(self, jobs: JobBlock, zero: float) -> Ints:
        """Return the week of each job; week 0 begins at ``zero``, earlier ones are below 0."""
        return self._passed(self._times(jobs), zero).astype(np.int64)

    def edge_of(self, week: float, zero: float) -> float:
        """Return the begin of a week [s, log time]."""
        if not self.months:
            return zero + week * WEEK_SECONDS
        place = min(int(np.searchsorted(self.months, zero)) + week, len(self.months) - 1)
        return self.months[int(place)]

    def _passed(self, times: Floats, zero: float, until: bool = False) -> Floats:
        """Return the week of each time; ``until``: a time at an edge belongs to the week before."""
        if self.months:
            passed = np.searchsorted(self.months, times, "left" if until else "right").astype(np.float64)
            return passed - (np.searchsorted(self.months, zero) + 1)
        weeks = (times - zero) / WEEK_SECONDS
        return np.ceil(weeks) - 1.0 if until else np.floor(weeks)

    def _times(self, jobs: JobBlock) -> Floats:
        return recorded_starts(jobs) if self.by_start else jobs.submit_time

    def rows(self, jobs: JobBlock, zero: float, start: float, end: float) -> Ints:
        """Return the rows of jobs that belong to the weeks from ``start`` to ``end`` [s, log time]."""
        times = self._times(jobs)
        taken = (times >= start) & (times < end)
        if self.remove:
            ends = recorded_starts(jobs) + jobs.run_time
            taken &= self._passed(ends, zero, until=True) <= self._passed(times, zero)
        return np.flatnonzero(taken)


def week_cut(config: workload_section.WeeksConfig, header: Header, path: Path) -> WeekCut:
    """Return the rule of ``workload.weeks``; the header's ``UnixStartTime`` is time 0 of the log."""
    by_start, remove = config.by is words.WeekEvent.START, config.crossing is words.CrossingRule.REMOVE
    if config.begin is words.WeekBegin.FIRST_JOB:
        return WeekCut(by_start, remove, np.nan, config.phase)
    unix, zone = start_and_zone(header, path)
    if unix is None:
        raise InputError(
            f"{path}: the header has no UnixStartTime, so that the weekday of its start is unknown\n"
            "  write workload.weeks.begin: first-job"
        )
    if config.zone is not None:
        zone = zoneinfo.ZoneInfo(config.zone)
    midnight = datetime.datetime.fromtimestamp(unix, zone).replace(hour=0, minute=0, second=0, microsecond=0)
    if config.begin is words.WeekBegin.MONTH:
        first = 12 * midnight.year + midnight.month - 1
        begins = [
            midnight.replace(year=k // 12, month=k % 12 + 1, day=1) for k in range(first, first + _MONTHS)
        ]
        edges = tuple(begin.timestamp() - unix + config.phase for begin in begins)
        return WeekCut(by_start, remove, edges[0], 0.0, edges)
    later = (list(words.WeekBegin).index(config.begin) - midnight.weekday()) % 7
    edge = (midnight + datetime.timedelta(days=later)).timestamp() - unix
    return WeekCut(by_start, remove, edge, config.phase)


def split_weeks(jobs: JobBlock, cut: WeekCut, zero: float, first: int, last: int) -> dict[int, JobBlock]:
    """Return the jobs of each week from ``first`` to ``last`` that has any, the first submitted at time 0.

    ``jobs`` are in arrival order; ``zero``: begin of week 0 on their clock [s].
    """
    rows = cut.rows(jobs, zero, cut.edge_of(first, zero), cut.edge_of(last + 1, zero))
    weeks = cut.weeks(jobs, zero)[rows]
    found = {}
    for week in np.unique(weeks).tolist():
        block = jobs.select(rows[weeks == week])
        found[int(week)] = block.shifted(-float(block.submit_time[0]))
    return found


class Selection(NamedTuple):
    """The part of a workload to take."""

    first: int | None = None  # Maximum number of jobs
    window: tuple[float, float] | None = None  # Start and end [s] after zero
    most_intensive: float | None = None  # Length [s] of the interval with the most arrivals
    warm_up: float = 0.0  # Length [s] of the first time of the log that is left out
    weeks: tuple[int, int] | None = None  # First and last week, from 1
    between: tuple[float, float] | None = None  # Start and end [s of the log's own time]
    whole_weeks: bool = False  # Whether jobs that cross the edge of a week are left out
    users: tuple[int, ...] | None = None  # Numbers of users; None for all
    cut: WeekCut | None = None  # Division of the log into weeks; None: from the first job on, by submission


class Span(NamedTuple):
    """The extent of a selection in one workload [s, log time]: ``jobs`` jobs submitted in [start, end).

    The first is submitted at ``origin`` (NaN if there is none); weeks begin at ``zero``.
    """

    selection: Selection
    start: float = np.nan
    end: float = np.nan
    jobs: int = 0
    origin: float = np.nan
    zero: float = 0.0


def find_span(selection: Selection, walk: Callable[[], Iterable[JobBlock]]) -> Span:
    """Find the start, the end and the number of jobs of a selection, by one or two walks over all jobs."""
    if selection.most_intensive is None:
        span = _counted(walk(), selection)
    else:
        span = _most_intensive(selection, walk())
        if selection.whole_weeks or selection.users is not None:
            span = _counted(walk(), selection, span._replace(jobs=0))
    return span if selection.first is None else span._replace(jobs=min(span.jobs, selection.first))


def rows_in(span: Span, block: JobBlock) -> NDArray[np.intp]:
    """Return the rows of a block, in arrival order, that belong to a span (possibly more than its jobs)."""
    users, cut = span.selection.users, span.selection.cut
    if cut is not None:
        rows = cut.rows(block, span.zero, span.start, span.end)
    else:
        start, end = np.searchsorted(block.submit_time, (span.start, span.end), side="left")
        rows = np.arange(start, end)
    if users is not None:
        rows = rows[np.isin(block.user[rows], users)]
    if span.selection.whole_weeks:
        began = recorded_starts(block)[rows] - span.zero
        week = np.floor(began / WEEK_SECONDS)
        rows = rows[np.ceil((began + block.run_time[rows]) / WEEK_SECONDS) - 1 <= week]
    return rows


def _counted(blocks: Iterable[JobBlock], selection: Selection, span: Span | None = None) -> Span:
    """Count the jobs of a span; without one, the selection and the first job make it."""
    for block in _warm(blocks, selection.warm_up):
        if span is None:
            span = _stretch(selection, float(block.submit_time[0]))
        taken = block.submit_time[rows_in(span, block)]
        if taken.size:
            origin = span.origin if span.jobs else float(taken[0])
            span = span._replace(jobs=span.jobs + taken.size, origin=origin)
    return span or Span(selection)


def _stretch(selection: Selection, zero: float) -> Span:
    start, end = zero, np.inf
    if selection.cut is not None:
        zero = selection.cut.zero_after(zero, selection.warm_up)
        first, last = selection.weeks or (0, np.inf)
        start, end = (selection.cut.edge_of(week, zero) for week in (first, last + 1))
    elif selection.window is not None:
        start, end = (zero + edge for edge in selection.window)
    elif selection.weeks is not None:
        first, last = selection.weeks
        start, end = zero + (first - 1) * WEEK_SECONDS, zero + last * WEEK_SECONDS
    elif selection.between is not None:
        start, end = max(zero, selection.between[0]), selection.between[1]
    return Span(selection, start, end, zero=zero)


def _warm(blocks: Iterable[JobBlock], warm_up: float) -> Iterator[JobBlock]:
    """Leave out the jobs of the warm-up, and blocks without jobs."""
    begin = None
    for block in blocks:
        if begin is None and len(block):
            begin = float(block.submit_time[0]) + warm_up
        first = 0 if begin is None else int(np.searchsorted(block.submit_time, begin, side="left"))
        if first < len(block):
            yield block if first == 0 else block.select(slice(first, None))


def _most_intensive(selection: Selection, blocks: Iterable[JobBlock]) -> Span:
    length = selection.most_intensive or 0.0
    best = Span(selection._replace(cut=None))
    pending = np.empty(0)
    zero = None
    for block in _warm(blocks, selection.warm_up):
        zero = float(block.submit_time[0]) if zero is None else zero
        pending = np.concatenate([pending, block.submit_time])
        # An interval is complete once a job at or after its end was seen.
        complete = int(np.searchsorted(pending + length, pending[-1], side="right"))
        best = _densest(best, pending, complete, length)
        pending = pending[complete:]
    best = _densest(best, pending, pending.size, length)
    return best if zero is None else best._replace(zero=zero)


def _densest(best: Span, pending: Floats, complete: int, length: float) -> Span:
    """Return the better of `best` and the intervals that start at the first `complete` submit times."""
    if complete == 0:
        return best
    ends = pending[:complete] + length
    arrivals = np.searchsorted(pending, ends, side="left") - np.arange(complete)
    most = int(np.argmax(arrivals))
    if arrivals[most] <= best.jobs:
        return best
    start = float(pending[most])
    return Span(best.selection, start, float(ends[most]), int(arrivals[most]), start)
