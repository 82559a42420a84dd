"""Metrics of jobs, of their queue and of passes over it, and of jobs by class, by size and by week."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mlsim._runtime.arrays import Floats, Ints, Mask
from mlsim.record import Attempts, Jobs, JobState, Passes, Records, Solves, SolveStatus, derived_times, empty
from mlsim.record.column_types import column, let_go
from mlsim.record.table_blocks import are_many, blocks_of, is_long, n_rows, rows_of, value_blocks

_FEITELSON = "Feitelson and Rudolph 1998"


@dataclass(frozen=True, slots=True)
class JobMetric:
    """A metric that each job has one value of; less is better for all of them."""

    title: str
    unit: str  # "s", or "1" for a ratio
    formula: str  # in the symbols of the page on metrics
    source: str
    values: Callable[[Jobs, float], Floats]  # per job, of the jobs and τ (s); NaN if it is undefined


def _without_tau(values: Callable[[Jobs], Floats]) -> Callable[[Jobs, float], Floats]:
    return lambda jobs, _: values(jobs)


_PER_PROCESSOR = "per-processor bounded slowdown", "1", "max((w + p)/(q max(p, τ)), 1)"
_ZRIGUI = "Zrigui 2021, Eq. 3.4; Zotkin and Keleher 1999"
JOB_METRICS: dict[str, JobMetric] = {
    "wait_time": JobMetric(
        "wait", "s", "w", "Zrigui 2021, Eq. 3.1", _without_tau(derived_times.wait_time)
    ),
    "response_time": JobMetric(
        "response", "s", "C - r", _FEITELSON, _without_tau(derived_times.response_time)
    ),
    "slowdown": JobMetric(
        "slowdown", "1", "(w + p)/p, over jobs with p > 0", _FEITELSON, _without_tau(derived_times.slowdown)
    ),
    "bounded_slowdown": JobMetric(
        "bounded slowdown", "1", "max((w + p)/max(p, τ), 1)", "Zrigui 2021, Eq. 3.3",
        derived_times.bounded_slowdown,
    ),
    "per_processor_bounded_slowdown": JobMetric(
        *_PER_PROCESSOR, _ZRIGUI, derived_times.per_processor_bounded_slowdown
    ),
}  # fmt: skip
"""By their keys in ``summary.json``; summaries, breakdowns, weeks and the page of metrics follow."""


def backfilled_share(jobs: Jobs) -> float | None:
    """Return the share of started jobs that were backfilled, in [0, 1] (Zrigui 2021, §4.3.4, counts them)."""
    started = backfilled = 0
    for block in blocks_of(jobs):
        started += int(np.count_nonzero(~np.isnan(block.start_time)))
        backfilled += int(np.count_nonzero(block.backfilled))
    return backfilled / started if started else None


Aggregate = dict[str, float | None]
"""``mean``, ``std``, ``median``, ``p90``, ``p99``, ``max``, in the values' unit; None without values."""

NAMES = ("mean", "std", "median", "p90", "p99", "max")
PERCENTILES = (50.0, 90.0, 99.0)


def aggregate(values: ArrayLike) -> Aggregate:
    """Aggregate values, NaN left out; percentiles interpolate linearly between the two nearest."""
    numbers = np.asarray(values, np.float64)
    defined = numbers[~np.isnan(numbers)]
    if not len(defined):
        return dict.fromkeys(NAMES)
    median, p90, p99 = np.percentile(defined, PERCENTILES)
    results = (defined.mean(), defined.std(), median, p90, p99, defined.max())
    return {name: float(result) for name, result in zip(NAMES, results, strict=True)}


SLOWDOWN_BINS = ("1", "(1,10]", "(10,100]", ">100")
"""Jobs that never waited, that waited a little, and that were scheduled badly (Zrigui 2021, Fig. 4.3)."""


def slowdown_histogram(values: NDArray[np.float64]) -> dict[str, int]:
    """Count the jobs whose slowdown is 1, in (1, 10], in (10, 100], above 100; NaN is in no bin."""
    defined = values[~np.isnan(values)]
    places = np.searchsorted([1.0, 10.0, 100.0], defined, side="left")
    return dict(zip(SLOWDOWN_BINS, np.bincount(places, minlength=4).tolist(), strict=True))


WITHIN = 0.25  # largest distance of the accuracy A from 1 that counts as near (Galleguillos 2020, §4.1.2)


def accuracy(predicted: Floats, actual: Floats) -> dict[str, Any]:
    """Compare estimates, above 0, with run times [s], one value per job each.

    ``mae`` is the mean of abs(predicted - actual) [s]; ``under`` and ``over`` have the ``share`` of estimates
    that are too short or too long, and their ``mean`` error [s]; ``within_25``: share of the jobs with
    0.75 <= A <= 1.25, where A = actual / predicted (Galleguillos 2020, §4.1.2). None without jobs.
    """
    return _accuracy([(predicted, actual)])


def _accuracy(blocks: Iterable[tuple[Floats, Floats]]) -> dict[str, Any]:
    """Return what :func:`accuracy` does, of estimates and run times of some jobs after the other."""
    sums = np.zeros(8)
    for predicted, actual in blocks:
        error = predicted - actual
        under, over, is_near = error < 0, error > 0, np.abs(actual / predicted - 1.0) <= WITHIN
        counts = [len(error), *map(np.count_nonzero, (under, over, error == 0, is_near))]
        sums += [*counts, np.sum(np.abs(error)), np.sum(-error[under]), np.sum(error[over])]
    jobs, n_under, n_over, exact, near, errors, too_short, too_long = sums.tolist()
    return {
        "jobs": int(jobs),
        "mae": _mean(errors, jobs),
        "under": {"share": _mean(n_under, jobs), "mean": _mean(too_short, n_under)},
        "over": {"share": _mean(n_over, jobs), "mean": _mean(too_long, n_over)},
        "exact": _mean(exact, jobs),
        "within_25": _mean(near, jobs),
    }


def estimate_metrics(jobs: Jobs) -> dict[str, Any]:
    """Compare predictions, and walltimes, with the run times of jobs that completed or were killed."""

    def errors(estimate: str) -> Iterator[tuple[Floats, Floats]]:
        for block in blocks_of(jobs):
            ended = (block.state == JobState.COMPLETED) | (block.state == JobState.KILLED)
            yield getattr(block, estimate)[ended], derived_times.run_time(block)[ended]

    return {estimate: _accuracy(errors(estimate)) for estimate in ("prediction", "walltime")}


def _mean(total: float, count: float) -> float | None:
    return total / count if count else None


def aggregate_jobs(jobs: Jobs, metric: Callable[[Jobs], Floats]) -> Aggregate:
    """Aggregate a metric with one value per job; NaN marks an undefined value."""
    if not is_long(jobs):
        return aggregate(metric(jobs))
    return streamed_aggregate(map(metric, blocks_of(jobs)), n_rows(jobs))


def aggregate_values(values: NDArray[Any]) -> Aggregate:
    """Aggregate a column of values; NaN marks an undefined value."""
    if not are_many(values):
        return aggregate(values)
    return streamed_aggregate((block.astype(np.float64) for block in value_blocks(values)), len(values))


def total(values: Floats) -> float:
    """Add up a column of values."""
    return sum((float(np.sum(block)) for block in value_blocks(values)), 0.0)


def streamed_aggregate(blocks: Iterable[Floats], most: int) -> Aggregate:
    """Aggregate at most so many values in blocks; they are in a file while they are many."""
    kept, count, parts = column((most,), np.float64), 0, []
    for values in blocks:
        defined = values[~np.isnan(values)]
        if len(defined):
            parts.append(kept[count : count + len(defined)])
            parts[-1][:] = defined
            count += len(defined)
            let_go(kept)
    if not count:
        return dict.fromkeys(NAMES)
    mean = sum((float(np.sum(part)) for part in parts), 0.0) / count
    squares = sum(float(np.sum((part - mean) ** 2)) for part in parts)
    largest = max(float(np.max(part)) for part in parts)
    percentiles = np.percentile(kept[:count], PERCENTILES, overwrite_input=True).tolist()  # in place
    let_go(kept)
    return dict(zip(NAMES, (mean, (squares / count) ** 0.5, *percentiles, largest), strict=True))


def queue_length(jobs: Jobs, attempts: Attempts | None = None) -> Aggregate:
    """Aggregate the number of waiting jobs, weighted by time from first submission to last start.

    A job waits from its submission, or a failure, to its next start. The mean is Σ wait / (last start - first
    submission), percentiles the least lengths not exceeded for that share of the time. All 0 where that time
    has no length; None where no job started.
    """
    shares = queue_shares(jobs, attempts)
    if shares is None:
        return dict.fromkeys(NAMES)
    lengths = np.arange(len(shares))
    mean = float(shares @ lengths)
    std, quantiles = float(np.sqrt(shares @ (lengths - mean) ** 2)), queue_quantiles(shares, [0.5, 0.9, 0.99])
    return dict(zip(NAMES, (mean, std, *quantiles, float(lengths[-1])), strict=True))


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
    times, waiting = derived_times.step_function(*derived_times.waiting_spans(jobs, attempts))
    if last <= first or not len(times):
        return np.ones(1)
    edges = np.clip(np.append(times, np.inf), first, last)
    seconds = np.bincount(waiting.astype(np.int64), weights=np.diff(edges))
    seconds[0] += edges[0] - first
    return seconds / (last - first)


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
    for times, waiting in derived_times.step_parts(
        _waits_of_jobs(jobs, attempts), _waits_of_attempts(jobs, attempts)
    ):
        edges = np.clip(np.append(at, times), first, last)
        lengths = np.append(length, waiting[:-1].astype(np.int64))
        seconds = np.append(seconds, np.zeros(max(int(lengths.max()) + 1 - len(seconds), 0)))
        seconds += np.bincount(lengths, weights=np.diff(edges), minlength=len(seconds))
        at, length = float(times[-1]), int(waiting[-1])
    seconds[0] += max(last - at, 0.0)
    return seconds / (last - first)


def _waits_of_jobs(jobs: Jobs, attempts: Attempts) -> Iterator[derived_times.Spans]:
    """Yield when jobs waited that started once, in order of submission."""
    first = 0
    for block in blocks_of(jobs):
        waits = block.start_time > block.submit_time
        rows = attempts.job[(attempts.job >= first) & (attempts.job < first + len(waits))]
        waits[rows - first] = False
        yield block.submit_time[waits], block.start_time[waits], np.ones(np.count_nonzero(waits))
        first += len(waits)


def _waits_of_attempts(jobs: Jobs, attempts: Attempts) -> derived_times.Spans:
    """Return the spans in which restarted jobs waited, one for each of their starts."""
    again = np.unique(attempts.job)
    theirs = rows_of(jobs, again)
    numbered = replace(attempts, job=np.searchsorted(again, attempts.job))
    begin, end = derived_times.waiting_spans(theirs, numbered)
    return begin, end, np.ones(len(begin))


def queue_quantiles(shares: Floats, levels: list[float]) -> list[float]:
    """Return the least queue lengths that are not exceeded for these shares of the time."""
    # A level that a sum reaches but for rounding is reached.
    reached = np.searchsorted(np.cumsum(shares), np.array(levels) - 1e-12)
    return [float(length) for length in np.minimum(reached, len(shares) - 1)]


def pass_metrics(passes: Passes) -> dict[str, Any] | None:
    """Count passes and aggregate the queue length when each began (Galleguillos et al. 2020, §7.2).

    Every pass counts once, however long nothing happens after it; the jobs submitted at its time count. None
    without recorded passes. Their wall time differs from run to run, and is in the key ``self``.
    """
    if not len(passes.time):
        return None
    return {"count": len(passes.time), "queue_length": aggregate_values(passes.queue_length)}


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
        "variables": mean_of(solves.variables[modelled]),
        "constraints": mean_of(solves.constraints[modelled]),
        "branches": mean_of(solves.branches[modelled]),
        "build_ms": mean_of(solves.build_seconds * 1e3),
        "solve_ms": mean_of(solves.solve_seconds * 1e3),
    }


def mean_of(values: NDArray[Any]) -> float | None:
    """Return the mean of the values that are defined; None without any."""
    known = values[~np.isnan(values)]
    return float(np.mean(known)) if len(known) else None


WEEK = 7 * 86400.0
HOUR = 3600.0

CLASSES = ("short", "medium", "long")
"""Classes by run time p in this run: p < 1 h, 1 h <= p <= 5 h, p > 5 h (Galleguillos 2020, §2.1.4)."""


@dataclass(frozen=True, slots=True)
class Groups:
    """Assignment of jobs to groups."""

    labels: list[str]  # in their order; each has a job
    code: Ints  # place of each job's group in labels; -1: it never started, and is in none


def group_jobs(jobs: Jobs, by: str, names: Mapping[int, str] | None = None) -> Groups:
    """Group the started jobs.

    ``by`` is ``class``: see :data:`CLASSES`; ``size``: processors q between powers of two: 1, 2, 3-4, 5-8 …;
    ``week`` of the end, from 1, counted from the scenario's start; ``application`` or ``technique``, of runs
    with several applications; or one of :data:`CODED`, whose numbers ``names`` maps to names. Two numbers
    with one name keep the number as well.
    """
    started = np.flatnonzero(~np.isnan(jobs.start_time))
    if by in _RULES:
        numbers, name = _RULES[by][0](jobs), _RULES[by][1]
    else:
        codes: Ints | None = getattr(jobs, by)
        numbers = np.full(len(jobs.job_id), -1, np.int64) if codes is None else codes
        name = _namer(names or {}, "none" if by == "technique" and codes is not None else "unknown")
    found, places = np.unique(numbers[started], return_inverse=True)
    code = np.full(len(numbers), -1, np.int64)
    code[started] = places
    return Groups([name(int(number)) for number in found], code)


def _classes(jobs: Jobs) -> Ints:
    length = derived_times.run_time(jobs)
    return (length >= HOUR).astype(np.int64) + (length > 5 * HOUR)


def size_exponents(jobs: Jobs) -> Ints:
    """Return k for sizes in (2^(k-1), 2^k]; exact, unlike the ceiling of a logarithm."""
    _, exponent = np.frexp((np.maximum(jobs.processors, 1) - 1).astype(np.float64))
    return exponent.astype(np.int64)


def size_name(exponent: int) -> str:
    """Return the range of processors of an exponent of :func:`size_exponents`."""
    low, high = 2 ** (exponent - 1) + 1 if exponent else 1, 2**exponent
    return str(high) if exponent < 2 else f"{low}-{high}"


def _weeks(jobs: Jobs) -> Ints:
    return np.floor(np.nan_to_num(jobs.end_time) / WEEK).astype(np.int64)


def _namer(names: Mapping[int, str], unknown: str) -> Callable[[int], str]:
    """Return the function that maps a code to its label; ``unknown``: that of codes below 0."""
    shared = {name for name, count in Counter(names.values()).items() if count > 1}

    def label(code: int) -> str:
        name = names.get(code)
        if name is None:
            return unknown if code < 0 else str(code)
        return f"{name} ({code})" if name in shared else name

    return label


_RULES: dict[str, tuple[Callable[[Jobs], Ints], Callable[[int], str]]] = {
    "class": (_classes, CLASSES.__getitem__),
    "size": (size_exponents, size_name),
    "week": (_weeks, lambda week: str(week + 1)),
}

CODED = ("user", "group", "executable", "queue", "partition", "qos")
"""Columns of numbers that may have names in the workload."""

GROUPINGS = ("class", "size", *CODED, "application", "technique", "week")


def class_quality(truth: Mask, said: Mask) -> dict[str, float]:
    """Compare predicted with true classes of jobs.

    ``accuracy``; ``precision`` and ``recall`` of small jobs (Zrigui 2021, Eqs. 6.1 to 6.3) and of large ones,
    with which alone its Tables 6.4 and 6.5 agree; ``false_small``, ``false_large``: shares of all jobs. NaN
    if undefined.
    """

    def share(part: Mask, of: int) -> float:
        return float(np.count_nonzero(part)) / of if of else float("nan")

    n = len(truth)
    return {
        "accuracy": share(said == truth, n),
        "precision": share(said & truth, int(said.sum())),
        "recall": share(said & truth, int(truth.sum())),
        "precision_large": share(~said & ~truth, n - int(said.sum())),
        "recall_large": share(~said & ~truth, n - int(truth.sum())),
        "false_small": share(said & ~truth, n),
        "false_large": share(~said & truth, n),
    }


def class_metrics(records: Records, tau: float) -> dict[str, Any]:
    """Measure the classes of a run with a classifier, over the jobs that ran and had a divider.

    Means of bounded slowdown (bound ``tau`` [s]) are of both true classes; ``killed`` attempts are those that
    the safeguard ended.
    """
    jobs, attempts = records.jobs, records.attempts
    assert jobs.divider is not None
    assert jobs.taken_for_small is not None
    judged = ~np.isnan(jobs.divider) & ~np.isnan(jobs.start_time)
    truth = (derived_times.run_time(jobs) < jobs.divider)[judged]
    slowdown = derived_times.bounded_slowdown(jobs, tau)[judged]
    recalled = rows_of(attempts, np.flatnonzero(attempts.node < 0))
    return {
        "jobs": len(truth),
        "small": int(truth.sum()),
        **class_quality(truth, jobs.taken_for_small[judged].astype(bool)),
        "bounded_slowdown_small": mean_of(slowdown[truth]),
        "bounded_slowdown_large": mean_of(slowdown[~truth]),
        "killed": len(recalled.job),
        "lost_core_seconds": float(recalled.lost.sum()),
    }


@dataclass(frozen=True, slots=True)
class Weekly:
    """One metric of jobs per week, from the first to the last week in which a job ended.

    The band is from the 10th to the 90th percentile, interpolated linearly, of ``mean`` over the weeks so
    far; the source's (Zrigui 2021, Fig. 4.1) is over resampled workloads, of which a single run has none.
    """

    week: Ints  # from 1 at the scenario's start
    count: Ints  # jobs with the metric that ended in the week
    total: Floats  # of their values
    mean: Floats
    cumulative_mean: Floats  # over all jobs that ended by its end: Σ total / Σ count
    band_low: Floats
    band_high: Floats


def weekly(jobs: Jobs, values: Floats) -> Weekly:
    """Aggregate a metric, one value per job and NaN if undefined, by the weeks in which jobs ended."""
    ended = np.flatnonzero(~np.isnan(jobs.end_time))
    weeks = np.floor(jobs.end_time[ended] / WEEK).astype(np.int64)
    first, n = (int(weeks.min()), int(np.ptp(weeks)) + 1) if len(weeks) else (0, 0)
    mine = values[ended]
    known = ~np.isnan(mine)
    count = np.bincount(weeks[known] - first, minlength=n)
    total = np.bincount(weeks[known] - first, weights=mine[known], minlength=n).astype(np.float64)
    mean, week = total / _or_nan(count), np.arange(n) + first + 1
    cumulative_mean = np.cumsum(total) / _or_nan(np.cumsum(count))
    return Weekly(week, count, total, mean, cumulative_mean, *_band(mean))


def _or_nan(count: NDArray[np.int64]) -> Floats:
    return np.where(count > 0, count, np.nan)


def _band(mean: Floats) -> tuple[Floats, Floats]:
    """Return the 10th and the 90th percentile of the known values so far."""
    band = np.full((2, len(mean)), np.nan)
    known: list[float] = []
    for week, value in enumerate(mean.tolist()):
        if value == value:
            known.append(value)
        if known:
            band[:, week] = np.percentile(known, [10, 90])
    return band[0], band[1]
