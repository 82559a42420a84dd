"""Metrics of the queue and of the dispatcher's passes over it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlsim._runtime.arrays import Floats
from mlsim.analysis.job_metrics import Aggregate, aggregate_values
from mlsim.record import Attempts, Jobs, Passes, Solves, SolveStatus, empty
from mlsim.record.derived_times import waiting_spans
from mlsim.record.table_blocks import blocks_of, is_long, rows_of
from mlsim.record.timelines import Spans, step_function, step_parts


def queue_length(jobs: Jobs, attempts: Attempts | None = None) -> Aggregate:
    """Aggregate the number of waiting jobs over time: time-weighted, in jobs.

    A job waits from its submission to its start, and from a failure that makes it start again to its next
    start; one that starts at its submission, or is rejected, never waits. All is over the time from the
    first submission to the last start, in which there can be a queue: the mean is Σ wait / (last start -
    first submission). The median and p90, p99 are the least lengths that are not exceeded for half, 90 %
    and 99 % of that time. All 0 where that time has no length; None where no job started.
    """
    shares = queue_shares(jobs, attempts)
    if shares is None:
        return dict.fromkeys(("mean", "std", "median", "p90", "p99", "max"))
    lengths = np.arange(len(shares))
    mean = float(shares @ lengths)
    median, p90, p99 = queue_quantiles(shares, [0.5, 0.9, 0.99])
    return {
        "mean": mean,
        "std": float(np.sqrt(shares @ (lengths - mean) ** 2)),
        "median": median,
        "p90": p90,
        "p99": p99,
        "max": float(lengths[-1]),
    }


def queue_shares(jobs: Jobs, attempts: Attempts | None = None) -> Floats | None:
    """Return the share of the time with 0, 1, 2 … waiting jobs, up to the maximum; None if no job started."""
    attempts = empty(Attempts) if attempts is None else attempts
    span = _time_of_queues(jobs)
    if span is None:
        return None
    first, last = span
    # Jobs that waited for others do not come in the order of the rows.
    if is_long(jobs) and jobs.eligible_time is None:
        return _streamed_shares(jobs, attempts, first, last)
    times, waiting = step_function(*waiting_spans(jobs, attempts))
    if last <= first or not len(times):
        return np.ones(1)
    edges = np.clip(np.append(times, np.inf), first, last)
    seconds = np.bincount(waiting.astype(np.int64), weights=np.diff(edges))
    seconds[0] += edges[0] - first
    shares: Floats = seconds / (last - first)
    return shares


def _time_of_queues(jobs: Jobs) -> tuple[float, float] | None:
    """Return the first submission and the last start [s]; None where no job started."""
    first, last = np.inf, -np.inf
    for block in blocks_of(jobs):
        first = min(first, float(np.min(block.submit_time, initial=np.inf)))
        last = float(np.fmax(last, np.fmax.reduce(block.start_time, initial=-np.inf)))
    return (first, last) if last > -np.inf else None


def _streamed_shares(jobs: Jobs, attempts: Attempts, first: float, last: float) -> Floats:
    """Return the shares of :func:`queue_shares`, in memory proportional to the jobs that wait at one time."""
    if last <= first:
        return np.ones(1)
    seconds = np.zeros(1)
    at, length = first, 0
    for times, waiting in step_parts(_waits_of_jobs(jobs, attempts), _waits_of_attempts(jobs, attempts)):
        edges = np.clip(np.append(at, times), first, last)
        lengths = np.append(length, waiting[:-1].astype(np.int64))
        new = np.bincount(lengths, weights=np.diff(edges)).astype(np.float64)
        seconds = _joined(seconds, new)
        at, length = float(times[-1]), int(waiting[-1])
    seconds[0] += max(last - at, 0.0)
    return seconds / (last - first)


def _waits_of_jobs(jobs: Jobs, attempts: Attempts) -> Iterator[Spans]:
    """Yield when jobs waited that started once, in order of submission."""
    first = 0
    for block in blocks_of(jobs):
        waits = block.start_time > block.submit_time
        rows = attempts.job[(attempts.job >= first) & (attempts.job < first + len(waits))]
        waits[rows - first] = False
        yield block.submit_time[waits], block.start_time[waits], np.ones(np.count_nonzero(waits))
        first += len(waits)


def _waits_of_attempts(jobs: Jobs, attempts: Attempts) -> Spans:
    """Return the spans in which restarted jobs waited, one for each of their starts."""
    again = np.unique(attempts.job)
    theirs = rows_of(jobs, again)
    numbered = replace(attempts, job=np.searchsorted(again, attempts.job))
    begin, end = waiting_spans(theirs, numbered)
    return begin, end, np.ones(len(begin))


def _joined(one: Floats, other: Floats) -> Floats:
    """Add up two arrays, of which one may be longer."""
    if len(one) < len(other):
        one, other = other, one
    one = one.copy()
    one[: len(other)] += other
    return one


def queue_quantiles(shares: Floats, levels: list[float]) -> list[float]:
    """Return the least queue lengths that are not exceeded for these shares of the time."""
    # A level that a sum reaches but for rounding is reached.
    reached = np.searchsorted(np.cumsum(shares), np.array(levels) - 1e-12)
    return [float(length) for length in np.minimum(reached, len(shares) - 1)]


def queue_length_at_passes(passes: Passes) -> Aggregate:
    """Aggregate the number of waiting jobs when each pass began, in jobs (Galleguillos et al. 2020, §7.2).

    Every pass counts once, however long nothing happens after it; the jobs submitted at its time count.
    """
    return aggregate_values(passes.queue_length)


def pass_metrics(passes: Passes) -> dict[str, Any] | None:
    """Count passes and aggregate the queue length that they met; None without recorded passes.

    Their wall time differs from run to run, and is in the key ``self`` of the summary.
    """
    if not len(passes.time):
        return None
    return {"count": len(passes.time), "queue_length": queue_length_at_passes(passes)}


def solve_counts(solves: Solves) -> dict[str, Any]:
    """Count passes by the status of their plans, and average their solve time.

    ``fallbacks`` are passes in which EASY decided; ``variables``, ``constraints`` and ``branches`` are means
    over passes with a model, times means over all passes. Means of nothing are None.
    """
    modelled = solves.variables > 0
    return {
        "passes": len(solves.time),
        "status": {status.name.lower(): int((solves.status == status).sum()) for status in SolveStatus},
        "fallbacks": int(solves.fallback.sum()),
        "unplaced": int(solves.unplaced.sum()),
        "solved": int(modelled.sum()),
        "variables": _mean(solves.variables[modelled]),
        "constraints": _mean(solves.constraints[modelled]),
        "branches": _mean(solves.branches[modelled]),
        "build_ms": _mean(solves.build_seconds * 1e3),
        "solve_ms": _mean(solves.solve_seconds * 1e3),
    }


def _mean(values: NDArray[Any]) -> float | None:
    return float(np.mean(values)) if len(values) else None
