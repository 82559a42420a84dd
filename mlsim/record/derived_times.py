"""Times of jobs derived from records, and step functions, outages, power and energy over time."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mlsim._jit import kernel
from mlsim._runtime.arrays import Floats, Ints, ranges
from mlsim.record import record_tables as tables
from mlsim.record.column_types import JobState, OutageKind, empty, let_go, zeros
from mlsim.record.table_blocks import blocks_of, is_long, rows_of, sums_by_job, value_blocks

RowsOfAttempts = TypeVar("RowsOfAttempts", tables.Chunks, tables.PEs)

TAU = 10.0
"""Run times below this many seconds count as this long in bounded slowdowns (Feitelson and Rudolph 1998)."""


def run_time(jobs: tables.Jobs) -> Floats:
    """Return run times [s]: p = end - start, of its last attempt."""
    return jobs.end_time - jobs.start_time


def queued_since(jobs: tables.Jobs) -> Floats:
    """Return when each job entered the queue [s]: at its submission, or later if it had dependencies."""
    return jobs.submit_time if jobs.eligible_time is None else jobs.eligible_time


def wait_time(jobs: tables.Jobs) -> Floats:
    """Return waiting times [s]: from :func:`queued_since` to the start of the last attempt.

    With ``batch.count_dispatch_time`` the wall time of the pass that started the job is added: a dispatcher
    that thinks for long lets the job wait for it. The schedule is the same with and without.
    """
    return _with_dispatch_time(jobs, jobs.start_time - queued_since(jobs))


def response_time(jobs: tables.Jobs) -> Floats:
    """Return response times [s]: wait + p (Feitelson and Rudolph 1998)."""
    return _with_dispatch_time(jobs, jobs.end_time - queued_since(jobs))


def _with_dispatch_time(jobs: tables.Jobs, seconds: Floats) -> Floats:
    return seconds if jobs.dispatch_time is None else seconds + jobs.dispatch_time


def slowdown(jobs: tables.Jobs) -> Floats:
    """Return (wait + p) / p, without unit (Feitelson and Rudolph 1998); NaN for jobs of run time 0."""
    length = run_time(jobs)
    positive = np.where(length > 0, length, np.nan)
    return (wait_time(jobs) + length) / positive


def bounded_slowdown(jobs: tables.Jobs, tau: float = TAU) -> Floats:
    """Return max((wait + p) / max(p, τ), 1), without unit, for τ > 0 s (Zrigui 2021, Eq. 3.3)."""
    length = run_time(jobs)
    return np.maximum((wait_time(jobs) + length) / np.maximum(length, tau), 1.0)


def per_processor_bounded_slowdown(jobs: tables.Jobs, tau: float = TAU) -> Floats:
    """Return max((wait + p) / (q max(p, τ)), 1), for q processors, τ > 0 s (Zotkin and Keleher 1999)."""
    length = run_time(jobs)
    processors = np.maximum(jobs.processors, 1)
    bounded: Floats = np.maximum((wait_time(jobs) + length) / (processors * np.maximum(length, tau)), 1.0)
    return bounded


def away_until(
    occupancy: tables.Occupancy, jobs: tables.Jobs, attempts: tables.Attempts | None = None
) -> Floats:
    """Return when each released node returned to its job, or the job's attempt ended [s].

    One time per row; for a row without a release the row's own end. Rows that may be released name one node
    each.
    """
    attempts = empty(tables.Attempts) if attempts is None else attempts
    attempt = attempt_of_rows(occupancy, attempts)
    ends = jobs.end_time[occupancy.job]
    earlier = attempt >= 0
    ends[earlier] = attempts.end[attempt[earlier]]
    until = np.where(occupancy.released, ends, occupancy.end)
    order = np.lexsort((occupancy.start, occupancy.node, occupancy.job))
    job, node = occupancy.job[order], occupancy.node[order]
    again = (np.diff(job) == 0) & (np.diff(node) == 0) & occupancy.released[order][:-1]
    again &= np.diff(attempt[order]) == 0
    until[order[:-1][again]] = occupancy.start[order[1:][again]]
    return until


def attempt_of_rows(occupancy: tables.Occupancy, attempts: tables.Attempts) -> Ints:
    """Find the row of the attempt that each occupancy row is of; -1 for the last attempt of its job."""
    found = np.full(len(occupancy.job), -1, np.int64)
    rows = np.flatnonzero(np.isin(occupancy.job, attempts.job))
    n = len(attempts.job)
    job = np.concatenate([attempts.job, occupancy.job[rows]])
    time = np.concatenate([attempts.start, occupancy.start[rows]])
    # Attempts are in order of (job, start) and come before the rows that start with them.
    order = np.lexsort((np.arange(len(job)) >= n, time, job))
    last = np.maximum.accumulate(np.where(order < n, order, -1))
    is_row = order >= n
    row, attempt = rows[order[is_row] - n], last[is_row]
    inside = occupancy.start[row] < attempts.end[attempt]
    found[row[inside]] = attempt[inside]
    return found


def attempt_numbers(attempts: tables.Attempts) -> NDArray[np.int32]:
    """Return which attempt of its job each one was, from 1."""
    before = np.searchsorted(attempts.job, attempts.job)
    return (np.arange(1, len(before) + 1) - before).astype(np.int32)


def restarts(attempts: tables.Attempts, n_jobs: int) -> Ints:
    """Return how often each job started again after a failure."""
    return np.bincount(attempts.job, minlength=n_jobs)


def of_last_attempts(table: RowsOfAttempts, attempts: tables.Attempts, n_jobs: int) -> RowsOfAttempts:
    """Return the rows of the last attempt of each job."""
    if table.attempt is None:
        return table
    return rows_of(table, table.attempt > restarts(attempts, n_jobs)[table.job])


def waiting_spans(jobs: tables.Jobs, attempts: tables.Attempts) -> tuple[Floats, Floats]:
    """Return when jobs waited: from submission or a failure to the next start; NaN where there was none."""
    return (
        np.concatenate([_after_attempts(queued_since(jobs), attempts), _before_attempts(jobs, attempts)]),
        np.concatenate([jobs.start_time, attempts.start]),
    )


def running_spans(jobs: tables.Jobs, attempts: tables.Attempts) -> tuple[Floats, Floats]:
    """Return when jobs ran, each attempt by itself; NaN where there was none."""
    return (np.concatenate([jobs.start_time, attempts.start]), np.concatenate([jobs.end_time, attempts.end]))


def _after_attempts(submit: Floats, attempts: tables.Attempts) -> Floats:
    """Return since when each job waited for its last start [s]."""
    since = submit.copy()
    np.maximum.at(since, attempts.job, attempts.end)
    return since


def _before_attempts(jobs: tables.Jobs, attempts: tables.Attempts) -> Floats:
    """Return since when the job of each attempt had waited for it [s]."""
    since = queued_since(jobs)[attempts.job]
    again = np.flatnonzero(np.diff(attempts.job) == 0)
    since[again + 1] = attempts.end[again]
    return since


def allocated_seconds(occupancy: tables.Occupancy, n_jobs: int) -> Floats:
    """Return the core-seconds that each job held: Σ nodes · cores · (end - start) over its stays."""
    return sums_by_job(occupancy, n_jobs, lambda stays: stays.count * stays.cores * (stays.end - stays.start))


def lost_core_seconds(records: tables.Records) -> Floats:
    """Return the core-seconds that each job lost by failures.

    All that it held if it ended as failed; otherwise what its earlier attempts held, without what later
    ones did not have to do again.
    """
    jobs, attempts = records.jobs, records.attempts
    n = len(jobs.job_id)
    lost = zeros(n)
    np.add.at(lost, attempts.job, attempts.lost)
    parts = [part == JobState.FAILED for part in value_blocks(jobs.state)]
    failed = np.flatnonzero(np.concatenate(parts))
    if len(failed):
        lost[failed] = allocated_seconds(records.occupancy, n)[failed]
    let_go(lost)
    return lost


Spans = tuple[Floats, Floats, Floats]  # begin and end of intervals in s, and what each adds while it is open


def step_function(begin: ArrayLike, end: ArrayLike, weight: ArrayLike = 1.0) -> tuple[Floats, Floats]:
    """Sum the weights of the intervals [begin, end) [s] that are open, over time.

    Intervals of no length, or with a NaN bound, do not count. Returns rising times and the sum from each to
    the next; the last value is 0.
    """
    begin, end = np.asarray(begin, np.float64), np.asarray(end, np.float64)
    weights = np.broadcast_to(np.asarray(weight, np.float64), begin.shape)
    kept = end > begin
    changes = np.concatenate([weights[kept], -weights[kept]])
    times, where = np.unique(np.concatenate([begin[kept], end[kept]]), return_inverse=True)
    return times, np.cumsum(np.bincount(where, weights=changes, minlength=len(times)))


def step_parts(blocks: Iterable[Spans], others: Spans) -> Iterator[tuple[Floats, Floats]]:
    """Yield the step function of many intervals in parts, with memory for the intervals open at one time.

    No interval of ``blocks`` begins before one of an earlier block (a NaN begin: no interval); ``others`` are
    in any order. Each part, as of :func:`step_function`, continues the one before.
    """
    waiting, value = others, 0.0
    for block in blocks:
        begin, end, weight = map(np.concatenate, zip(waiting, block, strict=True))
        horizon = float(np.fmax.reduce(block[0], initial=-np.inf))
        times, deltas, waiting = _changes((begin, end, weight), horizon)
        if len(times):
            values = value + np.cumsum(deltas)
            value = float(values[-1])
            yield times, values
    times, deltas, _ = _changes(waiting, np.inf)
    if len(times):
        yield times, value + np.cumsum(deltas)


def _changes(spans: Spans, horizon: float) -> tuple[Floats, Floats, Spans]:
    """Sum the changes at each time before the horizon; return the later changes too."""
    begin, end, weight = spans
    kept = end > begin
    begin, end, weight = begin[kept], end[kept], weight[kept]
    began = (begin < horizon) & (begin > -np.inf)
    ended = end < horizon
    changes = np.concatenate([weight[began], -weight[ended]])
    times, where = np.unique(np.concatenate([begin[began], end[ended]]), return_inverse=True)
    deltas = np.bincount(where, weights=changes, minlength=len(times)).astype(np.float64)
    left = ~ended
    # What has begun already begins no more.
    since = np.where(begin < horizon, -np.inf, begin)[left]
    return times, deltas, (since, end[left], weight[left])


def time_average(times: Floats, values: Floats, begin: float, end: float) -> float:
    """Average a step function over [begin, end]; 0 where the span has no length."""
    if end <= begin or not len(times):
        return 0.0
    edges = np.clip(np.append(times, np.inf), begin, end)
    return float(np.sum(values * np.diff(edges)) / (end - begin))


OutageSpans = tuple[Ints, Floats, Floats]
"""Node, start and end of each span; those of a node do not touch. By node, then start."""


def out_of_use_spans(outages: tables.Outages, begin: float, end: float) -> OutageSpans:
    """Unite the outages of each node, within [begin, end]."""
    return _united(outages.node, outages.start, outages.end, begin, end)


def off_spans(outages: tables.Outages, occupancy: tables.Occupancy, begin: float, end: float) -> OutageSpans:
    """Find when nodes were out of use and held by no job: a job keeps its drained nodes to its end."""
    start = outages.start.copy()
    drained = outages.kind != OutageKind.FAILED
    for at in np.unique(start[drained]):
        last: dict[int, float] = {}
        for block in blocks_of(occupancy):
            _add_ends(last, np.flatnonzero((block.start < at) & (block.end > at)), block)
        for outage in np.flatnonzero(drained & (outages.start == at)).tolist():
            start[outage] = max(start[outage], last.get(int(outages.node[outage]), -np.inf))
    return _united(outages.node, start, outages.end, begin, end)


def _add_ends(last: dict[int, float], rows: Ints, occupancy: tables.Occupancy) -> None:
    """Store for each node of some occupancy rows when the last of them ends."""
    for row in rows.tolist():
        first, end = int(occupancy.node[row]), float(occupancy.end[row])
        for node in range(first, first + int(occupancy.count[row])):
            last[node] = max(last.get(node, end), end)


def _united(node: Ints, start: Floats, end: Floats, first: float, last: float) -> OutageSpans:
    """Unite spans of equal nodes; a NaN end is never."""
    begin = np.clip(start, first, last)
    stop = np.clip(np.where(np.isnan(end), np.inf, end), first, last)
    kept = stop > begin
    order = np.lexsort((begin[kept], node[kept]))
    spans = node[kept][order], begin[kept][order], stop[kept][order]
    n = _unite(*spans)
    return spans[0][:n], spans[1][:n], spans[2][:n]


@kernel
def _unite(node: Ints, begin: Floats, end: Floats) -> int:
    """Unite spans in order of (node, begin), in place; return how many are left."""
    n = 0
    for row in range(len(node)):
        if n > 0 and node[n - 1] == node[row] and begin[row] <= end[n - 1]:
            end[n - 1] = max(end[n - 1], end[row])
        else:
            node[n], begin[n], end[n] = node[row], begin[row], end[row]
            n += 1
    return n


def one_job(job_id: int, end: float, pes: int, cores: int) -> tables.Jobs:
    """Return the row of a job without a user that ran from 0 to ``end`` [s] on the whole machine."""
    row = {"job_id": job_id, "processors": pes, "cores": cores, "working": pes}
    row |= dict.fromkeys(("user", "group", "executable", "queue", "partition"), -1)
    times = {"submit_time": 0.0, "start_time": 0.0}
    times |= dict.fromkeys(("end_time", "walltime", "prediction", "log_run_time"), float(end))
    return tables.Jobs(
        **{name: np.array([number]) for name, number in row.items()},
        **{name: np.array([time]) for name, time in times.items()},
        state=np.array([JobState.COMPLETED], np.int8),
        backfilled=np.zeros(1, np.bool_),
    )


@dataclass(frozen=True, slots=True)
class HeldPower:
    """Parts of stays in which power does not change."""

    row: Ints  # in the stays; rising
    start: Floats  # s
    end: Floats
    power: Floats  # of the cores that the job holds then [W]
    idle: Floats  # of these cores, by their share of their nodes [W]
    added: Floats  # by the job to that [W]


def held_power(records: tables.Records, power: tables.NodePower, stays: tables.Occupancy) -> HeldPower:
    """Return the power of what jobs hold in some stays: as measured, or the busy power of their nodes."""
    nodes, steps = records.nodes, records.power_steps
    busy = _of_cores(stays, power.busy / nodes.cores)
    idle = _of_cores(stays, power.idle / nodes.cores)
    added = _of_cores(stays, (power.busy - power.idle) / nodes.cores)
    if not len(steps.job):
        return HeldPower(np.arange(len(stays.job)), stays.start, stays.end, busy, idle, added)
    row, start, end, step = _parts(stays, steps)
    share = _of_cores(stays, 1.0 / nodes.cores)[row]
    measured = step >= 0
    watts = np.where(measured, steps.level[step] * share, busy[row])
    more = np.where(measured, watts - idle[row], added[row])
    return HeldPower(row, start, end, watts, idle[row], more)


def _of_cores(stays: tables.Occupancy, of_a_core: Floats) -> Floats:
    """Sum up for each stay a value of its cores, given that of a core of each node."""
    up_to = np.concatenate([[0.0], np.cumsum(of_a_core)])
    sums: Floats = (up_to[stays.node + stays.count] - up_to[stays.node]) * stays.cores
    return sums


def _parts(stays: tables.Occupancy, steps: tables.PowerSteps) -> tuple[Ints, Floats, Floats, Ints]:
    """Cut stays where steps of their jobs begin; return row, start, end and step (-1: none) of each part."""
    first = np.searchsorted(steps.job, stays.job, side="left")
    n_steps = np.searchsorted(steps.job, stays.job, side="right") - first
    measured = n_steps > 0
    period = np.where(measured, steps.period[np.minimum(first, len(steps.job) - 1)], np.nan)
    repeats = measured & ~np.isnan(period)
    length = stays.end - stays.start
    cycles = np.ones(len(first), np.int64)
    cycles[repeats] = np.maximum(np.ceil(length[repeats] / period[repeats]), 1.0).astype(np.int64)
    counts = np.where(measured, n_steps * cycles, 1)
    row = np.repeat(np.arange(len(first)), counts)
    place = ranges(0, counts)
    cycle, within = np.divmod(place, np.maximum(n_steps, 1)[row])
    step = np.where(measured[row], first[row] + within, -1)
    ages = np.where(step >= 0, steps.time[step] + np.where(cycle > 0, cycle * period[row], 0.0), 0.0)
    start = np.minimum(stays.start[row] + ages, stays.end[row])
    last = np.ones(len(row), np.bool_)
    last[:-1] = row[1:] != row[:-1]
    end = np.where(last, stays.end[row], np.roll(start, -1))
    kept = (end > start) | (place == 0)  # a stay of no length has its row, too
    return row[kept], start[kept], end[kept], step[kept]


@dataclass(frozen=True, slots=True)
class Energy:
    """Energy of a run in J, from the first submission to the last end of a job."""

    total: float  # jobs + idle + off
    jobs: float  # charged to jobs
    idle: float  # of free cores, of nodes that were not off
    off: float  # of nodes that were out of use and free


def run_span(records: tables.Records) -> tuple[float, float]:
    """Return the first submission and the last end of a job [s]; both 0 where no job ran."""
    first, last = np.inf, -np.inf
    for jobs in blocks_of(records.jobs):
        first = min(first, float(np.min(jobs.submit_time, initial=np.inf)))
        last = max(last, float(np.max(jobs.end_time[np.isfinite(jobs.end_time)], initial=-np.inf)))
    return (first, last) if last > -np.inf else (0.0, 0.0)


def job_energy(records: tables.Records) -> Floats | None:
    """Return Σ busy / C · cores · (end - start) [J] of each job, over all attempts; None without power."""
    power, occupancy = records.nodes.power, records.occupancy
    if power is None:
        return None

    def joules(stays: tables.Occupancy) -> Floats:
        held = held_power(records, power, stays)
        found = np.bincount(held.row, held.power * (held.end - held.start), len(stays.job))
        return found.astype(np.float64)

    return sums_by_job(occupancy, len(records.jobs.job_id), joules)


def run_energy(records: tables.Records) -> Energy | None:
    """Return the energy of the run by use; None where the power of nodes is unknown."""
    nodes, power, occupancy = records.nodes, records.nodes.power, records.occupancy
    if power is None:
        return None
    begin, end = run_span(records)
    node, start, stop = off_spans(records.outages, occupancy, begin, end)
    off_time = np.bincount(node, stop - start, len(nodes.cores))
    jobs = idle_of_jobs = 0.0
    for stays in blocks_of(occupancy):
        held = held_power(records, power, stays)
        jobs += float(held.power @ (held.end - held.start))
        idle_of_jobs += float(held.idle @ (held.end - held.start))
    idle = float(power.idle @ (end - begin - off_time)) - idle_of_jobs
    off = float(power.off @ off_time)
    return Energy(jobs + idle + off, jobs, idle, off)


def power_over_time(records: tables.Records) -> tuple[Floats, Floats]:
    """Return the power of the machine [W] over time [s], a step function; empty without power or jobs."""
    power, occupancy = records.nodes.power, records.occupancy
    begin, end = run_span(records)
    if power is None or end <= begin:
        return np.empty(0), np.empty(0)
    node, start, stop = off_spans(records.outages, occupancy, begin, end)
    held = held_power(records, power, occupancy)
    return step_function(
        np.concatenate([[begin], held.start, start]),
        np.concatenate([[end], held.end, stop]),
        np.concatenate([[power.idle.sum()], held.added, (power.off - power.idle)[node]]),
    )


def max_power(records: tables.Records) -> float | None:
    """Return the largest power of the machine over the run [W]; None without power, and where no job ran."""
    # Steps of measured power begin in the midst of stays, and parts must be in order of their begin.
    if not is_long(records.occupancy) or len(records.power_steps.job):
        _, values = power_over_time(records)
        return float(values.max()) if len(values) else None
    power = records.nodes.power
    begin, end = run_span(records)
    if power is None or end <= begin:
        return None
    node, start, stop = off_spans(records.outages, records.occupancy, begin, end)
    machine = (
        np.concatenate([[begin], start]),
        np.concatenate([[end], stop]),
        np.concatenate([[power.idle.sum()], (power.off - power.idle)[node]]),
    )
    blocks = (held_power(records, power, block) for block in blocks_of(records.occupancy))
    stays = ((held.start, held.end, held.added) for held in blocks)
    return max(float(values.max()) for _, values in step_parts(stays, machine))
