"""Power of what jobs hold: that of busy cores, or what was measured of the job, step by step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim.record.tables import NodePower, Nodes, Occupancy, PowerSteps

__all__ = ["HeldPower", "held_power"]


@dataclass(frozen=True, slots=True)
class HeldPower:
    """Parts of stays in which power does not change.

    Attributes
    ----------
    row
        Of each part, its row in the stays; rising.
    start, end
        Of the part [s].
    power
        Of the cores that the job holds then [W].
    idle, added
        Idle power of these cores, by their share of their nodes, and what the job adds to it [W].
    """

    row: Ints
    start: Floats
    end: Floats
    power: Floats
    idle: Floats
    added: Floats

    def energy_of_rows(self, n_rows: int) -> Floats:
        """Return the energy of each stay [J]."""
        joules: Floats = np.bincount(self.row, self.power * (self.end - self.start), n_rows).astype(
            np.float64
        )
        return joules


def held_power(stays: Occupancy, nodes: Nodes, power: NodePower, steps: PowerSteps) -> HeldPower:
    """Return the power of what jobs hold.

    Parameters
    ----------
    stays
        Of jobs on nodes.
    nodes, power
        All nodes, and their power.
    steps
        Of jobs whose power was measured; the others take the busy power of their nodes.
    """
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
