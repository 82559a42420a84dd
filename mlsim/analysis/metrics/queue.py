"""The length of the queue: over time, and at passes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim.analysis.metrics.aggregate import Aggregate, aggregate
from mlsim.record import Attempts, Jobs, Passes, empty
from mlsim.record.derived import waiting_spans
from mlsim.record.timeline import step_function

__all__ = ["queue_length", "queue_length_at_passes", "queue_quantiles", "queue_shares"]

Floats = NDArray[np.float64]


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
    """Give the share of the time with 0, 1, 2 … waiting jobs, up to the most; they add up to 1.

    Parameters
    ----------
    jobs, attempts
        Of a run.

    Returns
    -------
    float64 or None
        Shape (largest length + 1,); None where no job started.
    """
    started = ~np.isnan(jobs.start_time)
    if not started.any():
        return None
    first, last = float(np.min(jobs.submit_time)), float(np.max(jobs.start_time[started]))
    times, waiting = step_function(*waiting_spans(jobs, empty(Attempts) if attempts is None else attempts))
    if last <= first or not len(times):
        return np.ones(1)
    edges = np.clip(np.append(times, np.inf), first, last)
    seconds = np.bincount(waiting.astype(np.int64), weights=np.diff(edges))
    seconds[0] += edges[0] - first
    shares: Floats = seconds / (last - first)
    return shares


def queue_quantiles(shares: Floats, levels: list[float]) -> list[float]:
    """Give the least queue lengths that are not exceeded for these shares of the time."""
    # A level that a sum reaches but for rounding is reached.
    reached = np.searchsorted(np.cumsum(shares), np.array(levels) - 1e-12)
    return [float(length) for length in np.minimum(reached, len(shares) - 1)]


def queue_length_at_passes(passes: Passes) -> Aggregate:
    """Aggregate the number of waiting jobs when each pass began, in jobs (Galleguillos et al. 2020, §7.2).

    Every pass counts once, however long nothing happens after it; the jobs submitted at its time count.
    """
    return aggregate(passes.queue_length)
