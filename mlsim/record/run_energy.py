"""Energy of a run, and power of allocated cores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mlsim._runtime.arrays import Floats, Ints
from mlsim.record.record_tables import NodePower, Occupancy, PowerSteps, Records
from mlsim.record.table_blocks import blocks_of, is_long, sums_by_job
from mlsim.record.timelines import off_spans, step_function, step_parts


@dataclass(frozen=True, slots=True)
class HeldPower:
    """Parts of stays in which power does not change."""

    row: Ints  # in the stays; rising
    start: Floats  # s
    end: Floats
    power: Floats  # of the cores that the job holds then [W]
    idle: Floats  # of these cores, by their share of their nodes [W]
    added: Floats  # by the job to that [W]


def held_power(records: Records, power: NodePower, stays: Occupancy) -> HeldPower:
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


def _of_cores(stays: Occupancy, of_a_core: Floats) -> Floats:
    """Sum up for each stay a value of its cores, given that of a core of each node."""
    up_to = np.concatenate([[0.0], np.cumsum(of_a_core)])
    sums: Floats = (up_to[stays.node + stays.count] - up_to[stays.node]) * stays.cores
    return sums


def _parts(stays: Occupancy, steps: PowerSteps) -> tuple[Ints, Floats, Floats, Ints]:
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
    place = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
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


def run_span(records: Records) -> tuple[float, float]:
    """Return the first submission and the last end of a job [s]; both 0 where no job ran."""
    first, last = np.inf, -np.inf
    for jobs in blocks_of(records.jobs):
        first = min(first, float(np.min(jobs.submit_time, initial=np.inf)))
        ended = jobs.end_time[np.isfinite(jobs.end_time)]
        last = max(last, float(np.max(ended, initial=-np.inf)))
    return (first, last) if last > -np.inf else (0.0, 0.0)


def job_energy(records: Records) -> Floats | None:
    """Return the energy of each job [J], over all its attempts: Σ busy / C · cores · (end - start).

    None without power.
    """
    power, occupancy = records.nodes.power, records.occupancy
    if power is None:
        return None

    def joules(stays: Occupancy) -> Floats:
        held = held_power(records, power, stays)
        found = np.bincount(held.row, held.power * (held.end - held.start), len(stays.job))
        return found.astype(np.float64)

    return sums_by_job(occupancy, len(records.jobs.job_id), joules)


def run_energy(records: Records) -> Energy | None:
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


def power_over_time(records: Records) -> tuple[Floats, Floats]:
    """Return the power of the machine [W] over rising times [s], as a step function.

    It starts with the first submission and ends with the last end. Empty without power, or without a started
    job.
    """
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


def max_power(records: Records) -> float | None:
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
