"""Metrics of the machine and its loops: utilization, energy, failures, shared resources, coordination."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mlsim._runtime.arrays import Floats, Ints, NDArray, ranges
from mlsim.analysis.job_metrics import Aggregate, aggregate, aggregate_values, streamed_aggregate, total
from mlsim.record import JobState, OutageKind, derived_times
from mlsim.record import record_tables as tables
from mlsim.record.table_blocks import blocks_of, is_long, rows_of, stay_once, value_blocks


def job_counts(jobs: tables.Jobs) -> dict[str, int]:
    """Count the jobs that were submitted, that ended in each state, and that were backfilled."""
    ends = np.zeros(len(JobState), np.int64)
    backfilled = 0
    for block in blocks_of(jobs):
        backfilled += int(np.count_nonzero(block.backfilled))
        ends += np.bincount(block.state, minlength=len(JobState))
    withdrawn = int(ends[JobState.WITHDRAWN])
    return {
        "submitted": len(jobs.job_id),
        "completed": int(ends[JobState.COMPLETED]),
        "killed": int(ends[JobState.KILLED]),
        "failed": int(ends[JobState.FAILED]),
        "rejected": int(ends[JobState.REJECTED]),
        **({"withdrawn": withdrawn} if withdrawn else {}),
        "backfilled": backfilled,
    }


def rejected_because(rejections: tables.Rejections) -> dict[str, int]:
    """Count the rejected jobs by reason."""
    counts = np.zeros(len(rejections.reasons), np.int64)
    for reasons in value_blocks(rejections.reason):
        counts += np.bincount(reasons, minlength=len(counts))
    return dict(zip(rejections.reasons, counts.tolist(), strict=True))


def makespan(jobs: tables.Jobs) -> float | None:
    """Return T_batch = last end - first start, in seconds (Eleliemy 2021, Eq. 2.17)."""
    return _span(jobs, "start_time", "end_time")


def makespan_from_submit(jobs: tables.Jobs) -> float | None:
    """Return last end - first submission, in seconds."""
    return _span(jobs, "submit_time", "end_time")


def throughput(jobs: tables.Jobs) -> float | None:
    """Return the completed jobs per hour of makespan (Eleliemy 2021, §2.2.5)."""
    span = makespan(jobs)
    completed = sum(int(np.count_nonzero(block.state == JobState.COMPLETED)) for block in blocks_of(jobs))
    return completed / span * 3600.0 if span else None


def machine_cores(nodes: tables.Nodes) -> int:
    """Return P: the PEs of the machine, which are its cores."""
    return int(np.sum(nodes.cores))


def busy_seconds(records: tables.Records) -> Floats:
    """Return T of Eq. 6.1 for each job: the PE-seconds it computed; 0 if rejected.

    For a job with a loop, the time its PEs executed chunks, else working · run time. Attempts that a failure
    ended count as well: their PEs computed, even if for nothing.
    """
    jobs, attempts = records.jobs, records.attempts
    seconds = np.nan_to_num(jobs.working * derived_times.run_time(jobs))
    seconds[records.loops.job] = records.loops.busy
    if len(attempts.job):
        seconds += np.bincount(attempts.job, weights=attempts.busy, minlength=len(seconds))
    return seconds


def utilization(records: tables.Records) -> dict[str, float | None]:
    """Return shares of the machine's core-seconds in the makespan, in [0, 1]: Σ_k T_k / (P · T_batch).

    ``busy``: T_k is the time PE k computed (Eleliemy 2021, Eq. 6.1; see :func:`busy_seconds`).
    ``allocated``: T_k is the time core k was held by a job.
    """
    capacity = machine_cores(records.nodes) * (makespan(records.jobs) or 0.0)
    if not capacity:
        return {"busy": None, "allocated": None}
    return {"busy": _busy_sum(records) / capacity, "allocated": _allocated_sum(records) / capacity}


def _busy_sum(records: tables.Records) -> float:
    if not is_long(records.jobs) or len(records.loops.job):
        return float(np.sum(busy_seconds(records)))
    of_jobs = sum(
        float(np.nansum(block.working * derived_times.run_time(block))) for block in blocks_of(records.jobs)
    )
    return of_jobs + float(np.sum(records.attempts.busy))


def _allocated_sum(records: tables.Records) -> float:
    if not is_long(records.occupancy):
        return float(np.sum(derived_times.allocated_seconds(records.occupancy, len(records.jobs.job_id))))
    return sum(
        float(np.sum(block.count * block.cores * (block.end - block.start)))
        for block in blocks_of(records.occupancy)
    )


def _span(jobs: tables.Jobs, begin: str, end: str) -> float | None:
    """Return last end - first begin [s]; None where no job has both."""
    first, last, found = np.inf, -np.inf, False
    for block in blocks_of(jobs):
        begins, ends = getattr(block, begin), getattr(block, end)
        found = found or bool(np.any(ends >= begins))
        first = float(np.fmin(first, np.fmin.reduce(begins, initial=np.inf)))
        last = float(np.fmax(last, np.fmax.reduce(ends, initial=-np.inf)))
    return last - first if found else None


def out_of_use_seconds(outages: tables.Outages, begin: float, end: float) -> float:
    """Return the node-seconds between two times in which nodes were out of use; overlaps count once."""
    _, start, stop = derived_times.out_of_use_spans(outages, begin, end)
    return float(np.sum(stop - start))


def failure_metrics(records: tables.Records) -> dict[str, Any]:
    """Count failures, drains and restarts, and sum lost work and downtime; without those of the safeguard.

    Outages count if they began before the last job ended; announced drains are drains. The downtime
    [node-seconds] is from the first submission to the last end of a job; availability is None without a
    duration.
    """
    records = replace(records, attempts=rows_of(records.attempts, np.flatnonzero(records.attempts.node >= 0)))
    outages, attempts = records.outages, records.attempts
    begin, end = derived_times.run_span(records)
    within = outages.start <= end
    downtime = out_of_use_seconds(outages, begin, end)
    capacity = len(records.nodes.name) * (end - begin)
    return {
        "node_failures": int(np.count_nonzero(within & (outages.kind == OutageKind.FAILED))),
        "node_drains": int(np.count_nonzero(within & (outages.kind != OutageKind.FAILED))),
        "restarts": len(attempts.job),
        "jobs_restarted": len(np.unique(attempts.job)),
        "lost_core_seconds": total(derived_times.lost_core_seconds(records)),
        "node_downtime": downtime,
        "availability": 1.0 - downtime / capacity if capacity > 0 else None,
    }


def energy_metrics(records: tables.Records) -> dict[str, Any] | None:
    """Return energy [J] by use, and power [W]; None if the power of nodes is unknown.

    The mean and maximum power are from the first submission to the last end; ``measured_jobs`` have a
    recorded power over time. See :class:`~mlsim.record.derived_times.Energy`.
    """
    energy, of_jobs = derived_times.run_energy(records), derived_times.job_energy(records)
    if energy is None or of_jobs is None:
        return None
    begin, end = derived_times.run_span(records)
    return {
        "total": energy.total,
        "jobs": energy.jobs,
        "idle": energy.idle,
        "off": energy.off,
        "mean_power": energy.total / (end - begin) if end > begin else None,
        "max_power": derived_times.max_power(records),
        "per_job": _per_job(of_jobs, records),
        "measured_jobs": len(np.unique(records.power_steps.job)),
    }


def _per_job(energy: NDArray[np.float64], records: tables.Records) -> Aggregate:
    """Aggregate the energy of the jobs that started."""

    def started() -> Iterator[NDArray[np.float64]]:
        starts = (block.start_time for block in blocks_of(records.jobs))
        for values, start in zip(value_blocks(energy), starts, strict=True):
            yield values[np.isfinite(start)]

    if is_long(records.jobs):
        return streamed_aggregate(started(), len(energy))
    return aggregate(next(started()))


def shared_spans(records: tables.Records, name: str) -> derived_times.Spans:
    """Return from when to when jobs held how much of it, each attempt by itself [s]; NaN where none ran."""
    asked: NDArray[np.float64] = records.own.of[f"request_{name}"].astype(np.float64)
    begin, end = derived_times.running_spans(records.jobs, records.attempts)
    return begin, end, np.concatenate([asked, asked[records.attempts.job]])


def shared_metrics(records: tables.Records) -> dict[str, Any]:
    """Return capacity, unit, utilization ∫ held dt / (capacity · T_batch) and the most held, by name."""
    shared, span = records.shared, makespan(records.jobs)
    metrics = {}
    for name, unit, capacity in zip(shared.name, shared.unit, shared.capacity.tolist(), strict=True):
        times, held = derived_times.step_function(*shared_spans(records, name))
        used = float(np.sum(held[:-1] * np.diff(times)))
        metrics[name] = {
            "capacity": capacity,
            "unit": unit,
            "utilization": used / (capacity * span) if capacity and span else None,
            "max": round(float(held.max(initial=0.0))),
        }
    return metrics


def released_nodes(occupancy: tables.Occupancy) -> int:
    """Return the number of nodes released before their job's end; one that two jobs released counts twice."""
    return sum(int(block.count[block.released].sum()) for block in blocks_of(occupancy))


def released_seconds(
    occupancy: tables.Occupancy, jobs: tables.Jobs, attempts: tables.Attempts | None = None
) -> tuple[float, float]:
    """Return released node-seconds and core-seconds: Σ (return or end of the job - release)."""
    if not occupancy.released.any():
        return 0.0, 0.0
    alone = is_long(occupancy) and stay_once(occupancy, jobs, attempts)
    node_seconds = core_seconds = 0.0
    for block in blocks_of(occupancy) if alone else (occupancy,):
        row = block.released
        early = (derived_times.away_until(block, jobs, attempts) - block.end)[row]
        nodes = early * block.count[row]
        node_seconds += float(np.sum(nodes))
        core_seconds += float(np.sum(nodes * block.cores[row]))
    return node_seconds, core_seconds


@dataclass(frozen=True, slots=True)
class Transfers:
    """One row per node that a job released and another got before the first had ended; jobs are rows."""

    giver: Ints
    taker: Ints
    node: Ints
    start: Floats  # when the other job received it [s]
    seconds: Floats  # node-seconds until the taker left it or the giver ended; parts of nodes count in part


def transfers(records: tables.Records) -> Transfers:
    """Find, for each node that was released early, the jobs that started on it while its giver ran."""
    held = records.occupancy
    until = derived_times.away_until(held, records.jobs, records.attempts)
    given = _spread(held.node, held.count, np.flatnonzero(held.released))
    lent = np.unique(given[1])
    row, node = _spread(held.node, held.count, np.flatnonzero(np.isin(held.node, lent) | (held.count > 1)))
    is_lent = np.isin(node, lent)
    row, node = row[is_lent], node[is_lent]
    order = np.lexsort((held.start[row], node))
    row, node = row[order], node[order]
    first, last = np.searchsorted(node, lent, "left"), np.searchsorted(node, lent, "right")
    pairs: list[tuple[Ints, Ints]] = []
    for place, node_number in enumerate(lent.tolist()):
        here, there = given[0][given[1] == node_number], row[first[place] : last[place]]
        low = np.searchsorted(held.start[there], held.end[here], "left")
        high = np.searchsorted(held.start[there], until[here], "left")
        many = np.maximum(high - low, 0)
        pairs.append((np.repeat(here, many), there[ranges(low, many)]))
    giver, taker = (
        np.concatenate([pair[side] for pair in pairs]) if pairs else np.empty(0, np.int64) for side in (0, 1)
    )
    nodes = np.concatenate(
        [np.full(len(pair[0]), node_number) for pair, node_number in zip(pairs, lent.tolist(), strict=True)]
        or [np.empty(0, np.int64)]
    )
    other = held.job[giver] != held.job[taker]
    giver, taker, nodes = giver[other], taker[other], nodes[other]
    length = np.minimum(held.end[taker], until[giver]) - held.start[taker]
    part = held.cores[taker] / records.nodes.cores[nodes]
    order = np.lexsort((held.job[taker], nodes, held.start[taker]))
    return Transfers(
        held.job[giver][order],
        held.job[taker][order],
        nodes[order],
        held.start[taker][order],
        (length * part)[order],
    )


def _spread(node: Ints, count: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Return a row and a node for each node of each row."""
    return np.repeat(rows, count[rows]), ranges(node[rows], count[rows])


def coordination_metrics(records: tables.Records) -> dict[str, Any]:
    """Return the metrics of coordination: messages, releases, released node-seconds and core-seconds."""
    occupancy = records.occupancy
    node_seconds, core_seconds = released_seconds(occupancy, records.jobs, records.attempts)
    releasing = np.zeros(len(records.jobs.job_id), np.bool_)
    for block in blocks_of(occupancy):
        releasing[block.job[block.released]] = True
    return {
        "messages": len(records.messages.kind),
        "releases": released_nodes(occupancy),
        "jobs_releasing": int(np.count_nonzero(releasing)),
        "released_node_seconds": node_seconds,
        "released_core_seconds": core_seconds,
    }


def coefficient_of_variation(loops: tables.Loops) -> Floats:
    """Return c.o.v. = σ / μ, without unit; 0 is balanced (Eleliemy 2021, Eq. 2.15)."""
    return _ratio(loops.std_finish, loops.mean_finish)


def percent_imbalance(loops: tables.Loops) -> Floats:
    """Return (1 - μ / max) · 100, in percent; 0 is balanced (Eleliemy 2021, Eq. 2.16)."""
    return (1.0 - _ratio(loops.mean_finish, loops.max_finish)) * 100.0


def max_over_mean(loops: tables.Loops) -> Floats:
    """Return max / μ, without unit; 1 is balanced (Eleliemy 2021, §2.1.3)."""
    return _ratio(loops.max_finish, loops.mean_finish)


def loop_metrics(loops: tables.Loops) -> dict[str, Any]:
    """Sum counts and PE-seconds over all loops, and aggregate the metrics that each loop has."""
    return {
        "count": len(loops.job),
        "iterations": int(loops.iterations.sum()),
        "steps": int(loops.steps.sum()),
        "t_loop": aggregate(loops.t_loop),
        "cov": aggregate(coefficient_of_variation(loops)),
        "imbalance": aggregate(percent_imbalance(loops)),
        "max_over_mean": aggregate(max_over_mean(loops)),
        "busy": float(loops.busy.sum()),
        "overhead": float(loops.overhead.sum()),
        "idle": float(loops.idle.sum()),
    }


def selection_metrics(selections: tables.Selections) -> dict[str, Any]:
    """Count selected techniques, most frequent first, and sum the selection time [s]; empty without any."""
    counts = Counter(selections.technique)
    if not counts:
        return {}
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return {"selected": dict(ordered), "selection_time": float(selections.spent.sum())}


def _ratio(above: Floats, below: Floats) -> Floats:
    """Divide; NaN where the divisor is 0."""
    return above / np.where(below > 0, below, np.nan)


def dependency_metrics(jobs: tables.Jobs) -> dict[str, Any]:
    """Count the jobs that dependencies held, and aggregate eligible - submit [s] where they differ."""
    assert jobs.eligible_time is not None
    later = jobs.eligible_time - jobs.submit_time
    held = later[(later != 0) & ~np.isnan(later)]
    return {"held": len(held), "never": int(np.isnan(later).sum()), "held_time": aggregate_values(held)}
