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
        return aggregate([])
    seconds = range(int(min(job.submit for job in jobs)), int(max(job.start for job in ran)))
    waiting = [sum(job.submit <= second < job.start for job in ran) for second in seconds] or [0]
    return {
        "mean": statistics.fmean(waiting),
        "std": statistics.pstdev(waiting),
        "median": not_exceeded(waiting, 0.5),
        "p90": not_exceeded(waiting, 0.9),
        "p99": not_exceeded(waiting, 0.99),
        "max": float(max(waiting)),
    }


def not_exceeded(values: Sequence[int], share: float) -> float:
    """The least value that this share of all values does not exceed."""
    for value in sorted(set(values)):
        if sum(other <= value for other in values) / len(values) >= share - 1e-12:
            return float(value)
    raise AssertionError("the largest value is exceeded by none")


def slowdown(job: Job, tau: float) -> float | None:
    return slowdowns([job])[0] if job.end > job.start else None


METRICS = {
    "wait_time": lambda job, tau: job.start - job.submit,
    "response_time": lambda job, tau: job.end - job.submit,
    "slowdown": slowdown,
    "bounded_slowdown": lambda job, tau: bounded_slowdowns([job], tau)[0],
    "per_processor_bounded_slowdown": lambda job, tau: bounded_slowdowns([job], tau, by_processor=True)[0],
}


def values(jobs: Sequence[Job], metric: str, tau: float) -> list[float]:
    """Values of a metric, where it is defined."""
    found = [METRICS[metric](job, tau) for job in started(jobs)]
    return [value for value in found if value is not None]


def job_class(job: Job) -> str:
    length = job.end - job.start
    if length < 3600:
        return "short"
    return "medium" if length <= 5 * 3600 else "long"


def size(job: Job) -> str:
    high = 1
    while high < job.processors:
        high *= 2
    return str(high) if high <= 2 else f"{high // 2 + 1}-{high}"


def week(job: Job) -> int:
    return int(job.end // (7 * 24 * 3600)) + 1


def groups(jobs: Sequence[Job], name) -> dict:
    found: dict = {}
    for job in started(jobs):
        found.setdefault(name(job), []).append(job)
    return found


def histogram(numbers: Sequence[float]) -> dict[str, int]:
    return {
        "1": sum(number <= 1 for number in numbers),
        "(1,10]": sum(1 < number <= 10 for number in numbers),
        "(10,100]": sum(10 < number <= 100 for number in numbers),
        ">100": sum(number > 100 for number in numbers),
    }


def weekly(jobs: Sequence[Job], metric: str, tau: float) -> dict[int, dict[str, float | None]]:
    """Week by week: what ended in it, and the band of the weeks so far."""
    weeks = [week(job) for job in started(jobs)]
    result: dict[int, dict[str, float | None]] = {}
    means: list[float] = []
    for now in range(min(weeks), max(weeks) + 1) if weeks else ():
        here = values([job for job in started(jobs) if week(job) == now], metric, tau)
        so_far = values([job for job in started(jobs) if week(job) <= now], metric, tau)
        if here:
            means.append(statistics.fmean(here))
        result[now] = {
            "count": len(here),
            "total": sum(here),
            "mean": statistics.fmean(here) if here else None,
            "cumulative_mean": statistics.fmean(so_far) if so_far else None,
            "band_low": percentile(means, 0.1) if means else None,
            "band_high": percentile(means, 0.9) if means else None,
        }
    return result


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
