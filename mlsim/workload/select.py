"""Selections: a part of a workload.

A selection works on the workload after cleaning, in arrival order. Its parts apply in this order:

1. `warm_up`: the jobs of the first so many seconds are left out (Zrigui 2021, §5.2: "we ignore the first
   period since it generally corresponds to a benchmarking/testing phase"). They are not simulated either.
   The clock of what follows is the log's own, and its zero is the submit time of the first job left.
2. One stretch of time:

   - `window`: the jobs submitted in [start, end).
   - `weeks`: those of weeks k to l; week k is the time [(k - 1) · 7 d, k · 7 d).
   - `cut`: the weeks are those of :class:`mlsim.workload.weeks.WeekCut`, counted from 0; jobs belong to
     them by their submission or their recorded start, and those that cross an edge may be left out.
   - `between`: those of two times of the log's own clock, which calendar dates stand for.
   - `most_intensive`: the jobs of the interval of given length with the most arrivals (Eleliemy 2021,
     §3.5: "the most intensive 24 hours in terms of job arrival time"). Intervals start at a job's
     arrival and exclude their end; of several with as many arrivals the earliest is taken.

3. `whole_weeks`: without the jobs that in the log started in one week and ended in another (Zrigui 2021,
   §5.2). A job's start is its submit time plus its wait in the log (none where that is not known); one that
   ends when a week does has not ended in the next.
4. `users`: the jobs of these users.
5. `first`: the first n of what the above leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Floats
from mlsim.workload.jobs import JobBlock
from mlsim.workload.weeks import WEEK, WeekCut

__all__ = ["WEEK", "Selection", "Span", "find_span", "rows_in"]


class Selection(NamedTuple):
    """Which part of a workload to take."""

    first: int | None = None
    """How many jobs at most."""
    window: tuple[float, float] | None = None
    """Start and end [s] after zero."""
    most_intensive: float | None = None
    """Length [s] of the interval with the most arrivals."""
    warm_up: float = 0.0
    """Length [s] of the first time of the log that is left out."""
    weeks: tuple[int, int] | None = None
    """First and last week, from 1."""
    between: tuple[float, float] | None = None
    """Start and end [s of the log's own time]."""
    whole_weeks: bool = False
    """Whether jobs that cross the edge of a week are left out."""
    users: tuple[int, ...] | None = None
    """Numbers of users; None for all."""
    cut: WeekCut | None = None
    """How the log is cut into weeks; None: from the first job on, by submission."""


class Span(NamedTuple):
    """The extent of a selection in one workload.

    Attributes
    ----------
    start, end
        The jobs with submit times [s of the log's own time] in [start, end).
    jobs
        How many jobs are taken, from the first on.
    origin
        Submit time of the first job taken; nan if there is none.
    zero
        Where weeks begin [s of the log's own time].
    whole_weeks, users, cut
        As in the selection.
    """

    start: float
    end: float
    jobs: int
    origin: float
    zero: float = 0.0
    whole_weeks: bool = False
    users: tuple[int, ...] | None = None
    cut: WeekCut | None = None


def find_span(selection: Selection, walk: Callable[[], Iterable[JobBlock]]) -> Span:
    """Find where a selection starts and ends and how many jobs it takes.

    Parameters
    ----------
    selection
        What to take.
    walk
        Starts a walk over all jobs, in arrival order. There is one walk; two for `most_intensive` together
        with `whole_weeks` or `users`. Memory: one block, and the submit times of one interval for
        `most_intensive`.
    """
    if selection.most_intensive is None:
        span = _counted(walk(), selection)
    else:
        span = _most_intensive(selection, walk())
        if selection.whole_weeks or selection.users is not None:
            span = span._replace(jobs=0, whole_weeks=selection.whole_weeks, users=selection.users)
            span = _counted(walk(), selection, span)
    return span if selection.first is None else span._replace(jobs=min(span.jobs, selection.first))


def rows_in(span: Span, block: JobBlock) -> NDArray[np.intp]:
    """Return the rows of a block, in arrival order, that belong to a span (possibly more than its jobs)."""
    if span.cut is not None:
        rows = span.cut.rows(block, span.zero, span.start, span.end)
    else:
        start, end = np.searchsorted(block.submit_time, (span.start, span.end), side="left")
        rows = np.arange(start, end)
    if span.users is not None:
        rows = rows[np.isin(block.user[rows], span.users)]
    if span.whole_weeks:
        began = block.submit_time[rows] + np.maximum(block.log_wait[rows], 0.0) - span.zero
        week = np.floor(began / WEEK)
        rows = rows[np.ceil((began + block.run_time[rows]) / WEEK) - 1 <= week]
    return rows


def _counted(blocks: Iterable[JobBlock], selection: Selection, span: Span | None = None) -> Span:
    """Count the jobs of a span, which is made when its zero is known if it is not given."""
    for block in _warm(blocks, selection.warm_up):
        if span is None:
            span = _stretch(selection, float(block.submit_time[0]))
        taken = block.submit_time[rows_in(span, block)]
        if taken.size:
            span = span._replace(
                jobs=span.jobs + taken.size, origin=span.origin if span.jobs else float(taken[0])
            )
    return span or Span(np.nan, np.nan, 0, np.nan)


def _stretch(selection: Selection, zero: float) -> Span:
    start, end = zero, np.inf
    if selection.cut is not None:
        zero = selection.cut.zero_after(zero, selection.warm_up)
        first, last = selection.weeks or (0, np.inf)
        start, end = zero + first * WEEK, zero + (last + 1) * WEEK
    elif selection.window is not None:
        start, end = (zero + edge for edge in selection.window)
    elif selection.weeks is not None:
        first, last = selection.weeks
        start, end = zero + (first - 1) * WEEK, zero + last * WEEK
    elif selection.between is not None:
        start, end = max(zero, selection.between[0]), selection.between[1]
    return Span(start, end, 0, np.nan, zero, selection.whole_weeks, selection.users, selection.cut)


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
    best = Span(np.nan, np.nan, 0, np.nan)
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
    return Span(start, float(ends[most]), int(arrivals[most]), start)
