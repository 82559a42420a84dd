"""Selections: a part of a workload by arrivals.

A selection works on the workload after cleaning, in arrival order. Its clock is the log's own time,
and zero is the submit time of the first job that cleaning left.

- `window`: the jobs submitted in [start, end).
- `most_intensive`: the jobs of the interval of given length with the most arrivals (Eleliemy 2021,
  §3.5: "the most intensive 24 hours in terms of job arrival time"). Intervals start at a job's
  arrival and exclude their end; of several with as many arrivals the earliest is taken.
- `first`: the first n of what the above leaves.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlsim.workload.jobs import JobBlock

__all__ = ["Selection", "Span", "find_span", "rows_in"]

Floats = NDArray[np.float64]


class Selection(NamedTuple):
    """Which part of a workload to take.

    Attributes
    ----------
    first
        How many jobs at most.
    window
        Start and end [s] after the first job's arrival.
    most_intensive
        Length [s] of the interval with the most arrivals.
    """

    first: int | None = None
    window: tuple[float, float] | None = None
    most_intensive: float | None = None


class Span(NamedTuple):
    """What a selection comes to in one workload.

    Attributes
    ----------
    start, end
        The jobs with submit times [s of the log's own time] in [start, end).
    jobs
        How many jobs are taken, from the first on.
    origin
        Submit time of the first job taken; nan if there is none.
    """

    start: float
    end: float
    jobs: int
    origin: float


def find_span(selection: Selection, blocks: Iterable[JobBlock]) -> Span:
    """Find where a selection starts and ends and how many jobs it takes, in one walk over the jobs.

    Parameters
    ----------
    selection
        What to take.
    blocks
        All jobs, in arrival order. Memory: one block, and the submit times of one interval for
        `most_intensive`.
    """
    if selection.most_intensive is not None:
        span = _most_intensive(selection.most_intensive, blocks)
    else:
        span = _window(selection.window, blocks)
    return span if selection.first is None else span._replace(jobs=min(span.jobs, selection.first))


def rows_in(span: Span, block: JobBlock) -> slice:
    """Rows of a block, in arrival order, whose submit times lie in the span."""
    start, end = np.searchsorted(block.submit_time, (span.start, span.end), side="left")
    return slice(int(start), int(end))


def _window(window: tuple[float, float] | None, blocks: Iterable[JobBlock]) -> Span:
    span = Span(-np.inf, np.inf, 0, np.nan)
    seen = False
    for block in blocks:
        if not seen and len(block) and window is not None:
            zero = float(block.submit_time[0])
            span = span._replace(start=zero + window[0], end=zero + window[1])
        seen = seen or len(block) > 0
        taken = block.submit_time[rows_in(span, block)]
        if taken.size:
            span = span._replace(
                jobs=span.jobs + taken.size, origin=span.origin if span.jobs else float(taken[0])
            )
    return span


def _most_intensive(length: float, blocks: Iterable[JobBlock]) -> Span:
    best = Span(np.nan, np.nan, 0, np.nan)
    pending = np.empty(0)
    for block in blocks:
        pending = np.concatenate([pending, block.submit_time])
        if pending.size:
            # An interval is complete once a job at or after its end was seen.
            complete = int(np.searchsorted(pending + length, pending[-1], side="right"))
            best = _densest(best, pending, complete, length)
            pending = pending[complete:]
    return _densest(best, pending, pending.size, length)


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
