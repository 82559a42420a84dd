"""Energy of a run and of its jobs, from who held which cores and from when nodes were out of use.

The power of a node in use is idle + (busy - idle) · c / C with c of its C cores held. A job is charged
busy / C for each core it holds: its share, by cores, of the node's idle power and of what it adds to it. The
idle power of the cores that nobody holds is the machine's, and so is that of nodes that are off. For a job
whose power was measured over time, what was measured stands in the place of busy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mlsim._arrays import Floats
from mlsim.record.blocks import blocks_of, is_long, sums_by_job
from mlsim.record.held_power import HeldPower, held_power
from mlsim.record.outages import off_spans
from mlsim.record.tables import NodePower, Occupancy, Records
from mlsim.record.timeline import step_function, step_parts

__all__ = ["Energy", "job_energy", "max_power", "power_over_time", "run_energy", "run_span"]


@dataclass(frozen=True, slots=True)
class Energy:
    """Energy of a run in J, from the first submission to the last end of a job."""

    total: float
    """All of it: jobs + idle + off."""
    jobs: float
    """What jobs are charged."""
    idle: float
    """Idle power of cores that nobody held, of nodes that were not off."""
    off: float
    """Of nodes that were out of use, and that nobody held."""


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
        return _held(records, power, stays).energy_of_rows(len(stays.job))

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
        held = _held(records, power, stays)
        jobs += float(held.power @ (held.end - held.start))
        idle_of_jobs += float(held.idle @ (held.end - held.start))
    idle = float(power.idle @ (end - begin - off_time)) - idle_of_jobs
    off = float(power.off @ off_time)
    return Energy(jobs + idle + off, jobs, idle, off)


def power_over_time(records: Records) -> tuple[Floats, Floats]:
    """Return the power of the machine over the run, as a step function.

    Returns
    -------
    times, values
        Rising times in s, the first submission first and the last end last; W from each of them to the
        next. Empty without power, and where no job ran.
    """
    power, occupancy = records.nodes.power, records.occupancy
    begin, end = run_span(records)
    if power is None or end <= begin:
        return np.empty(0), np.empty(0)
    node, start, stop = off_spans(records.outages, occupancy, begin, end)
    held = _held(records, power, occupancy)
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
    blocks = (_held(records, power, block) for block in blocks_of(records.occupancy))
    stays = ((held.start, held.end, held.added) for held in blocks)
    return max(float(values.max()) for _, values in step_parts(stays, machine))


def _held(records: Records, power: NodePower, stays: Occupancy) -> HeldPower:
    """Return the power of what jobs hold in some stays."""
    return held_power(stays, records.nodes, power, records.power_steps)
