"""The law of the power cap: no start pushes the power of the machine above it."""

from __future__ import annotations

from typing import Final

import numpy as np

from mlsim._arrays import Floats, Ints, Mask
from mlsim._jit import kernel
from mlsim.verify.capacity_law import END, INSTANT, moments_of
from mlsim.verify.schedule import Schedule
from mlsim.verify.verdicts import Breach, Verdict, not_judged

__all__ = ["judge_cap"]

_ROUNDING: Final = 1e-6
"""Part of the cap by which sums of powers may exceed it through rounding."""


@kernel
def _walk_power(
    row: Ints,
    kind: Ints,
    node: Ints,
    count: Ints,
    cores: Ints,
    is_outage: Mask,
    capacity: Ints,
    idle: Floats,
    busy: Floats,
    off: Floats,
) -> Floats:
    """Go through ends and starts of stays and outages; return the power of the machine after each (W).

    A node in use takes idle + (busy - idle) · held / cores, one that is out of use and that nobody holds
    ``off``. An outage is a stay of no cores that has its node out of use.
    """
    power, held, out = np.empty(len(row)), np.zeros_like(capacity), np.zeros_like(capacity)
    total = idle.sum()
    for k in range(len(row)):
        stay, sign = row[k], -1 if kind[k] == END else 1
        if kind[k] != INSTANT:
            for place in range(node[stay], node[stay] + count[stay]):
                for after in range(2):
                    one = idle[place] + (busy[place] - idle[place]) * held[place] / capacity[place]
                    if held[place] == 0 and out[place] > 0:
                        one = off[place]
                    total += one if after else -one
                    if not after and is_outage[stay]:
                        out[place] += sign
                    elif not after:
                        held[place] += sign * cores[stay]
        power[k] = total
    return power


def judge_cap(run: Schedule) -> Verdict:
    """Judge that where a job starts, the machine takes no more than the cap of that time, all starts done."""
    cap, power = run.scenario.batch.power_cap, run.records.nodes.power
    if cap is None or power is None:
        return not_judged("power cap", "there is none (batch.power_cap)")
    stays, jobs, outages = run.records.occupancy, run.records.jobs, run.records.outages
    n, more = len(stays.job), len(outages.node)
    start = np.concatenate([stays.start, outages.start])
    end = np.concatenate([stays.end, np.where(np.isnan(outages.end), np.inf, outages.end)])
    row, kind = moments_of(start, end)
    after = _walk_power(
        row,
        kind,
        np.concatenate([stays.node, outages.node]),
        np.concatenate([stays.count, np.ones(more, np.int64)]),
        np.concatenate([stays.cores, np.zeros(more, np.int64)]),
        np.repeat([False, True], [n, more]),
        run.records.nodes.cores,
        power.idle,
        power.busy,
        power.off,
    )
    time = np.where(kind == END, end[row], start[row])
    is_start = np.concatenate([stays.start == run.row_starts, np.zeros(more, np.bool_)])
    starts = np.flatnonzero((kind != END) & is_start[row])
    final = after[np.searchsorted(time, time[starts], side="right") - 1]
    times, levels = np.array([-np.inf, *(at for at, _ in cap)]), np.array([np.inf, *(w for _, w in cap)])
    limit = levels[np.searchsorted(times, time[starts], side="right") - 1]
    over = np.flatnonzero(final > limit * (1.0 + _ROUNDING))
    over = over[np.unique(stays.job[row[starts[over]]], return_index=True)[1]]  # a job may have many stays
    breaches = [
        Breach(
            int(jobs.job_id[stays.job[row[starts[k]]]]),
            float(time[starts[k]]),
            f"starts, and the machine takes {final[k]:.10g} W then; the cap is {limit[k]:.10g} W",
        )
        for k in over.tolist()
    ]
    return Verdict.of("power cap", f"{len(starts)} starts", breaches)
