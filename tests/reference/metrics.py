"""The metrics of a run, computed one job and one second at a time."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from tests.reference.runs import Job, Stay


def started(jobs: Sequence[Job]) -> list[Job]:
    return [job for job in jobs if not math.isnan(job.start)]


def waits(jobs: Sequence[Job]) -> list[float]:
    return [job.start - job.submit for job in started(jobs)]


def slowdowns(jobs: Sequence[Job]) -> list[float]:
    lengths = [(job.start - job.submit, job.end - job.start) for job in started(jobs)]
    return [(wait + length) / length for wait, length in lengths if length > 0]


def bounded_slowdowns(jobs: Sequence[Job], tau: float, by_processor: bool = False) -> list[float]:
    result = []
    for job in started(jobs):
        wait, length = job.start - job.submit, job.end - job.start
        divisor = max(length, tau) * (job.processors if by_processor else 1)
        result.append(max((wait + length) / divisor, 1.0))
    return result


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def aggregate(values: Sequence[float]) -> dict[str, float | None]:
    if not values:
        return dict.fromkeys(("mean", "std", "median", "p90", "p99", "max"))
    return {
        "mean": statistics.fmean(values),
        "std": statistics.pstdev(values),
        "median": statistics.median(values),
        "p90": percentile(values, 0.9),
        "p99": percentile(values, 0.99),
        "max": max(values),
    }


def queue_length(jobs: Sequence[Job]) -> dict[str, float | None]:
    """For whole seconds: count the waiting jobs in each."""
    ran = started(jobs)
    if not ran:
        return {"mean": None, "max": None}
    seconds = range(int(min(job.submit for job in jobs)), int(max(job.start for job in ran)))
    waiting = [sum(job.submit <= second < job.start for job in ran) for second in seconds]
    return {"mean": statistics.fmean(waiting) if waiting else 0.0, "max": float(max(waiting, default=0))}


def makespan(jobs: Sequence[Job]) -> float | None:
    ran = started(jobs)
    return max(job.end for job in ran) - min(job.start for job in ran) if ran else None


def allocated(stays: Sequence[Stay]) -> float:
    return sum(stay.count * stay.cores * (stay.end - stay.start) for stay in stays)


def busy(jobs: Sequence[Job]) -> float:
    return sum(min(job.processors, job.cores) * (job.end - job.start) for job in started(jobs))


def node_sets(stays: Sequence[Stay], n_jobs: int) -> list[set[int]]:
    sets: list[set[int]] = [set() for _ in range(n_jobs)]
    for stay in stays:
        sets[stay.job].update(range(stay.node, stay.node + stay.count))
    return sets


def average(begin: Sequence[float], end: Sequence[float], low: float, high: float) -> float:
    """Average number of open intervals over [low, high]."""
    inside = (max(0.0, min(e, high) - max(b, low)) for b, e in zip(begin, end, strict=True))
    return sum(inside) / (high - low)
