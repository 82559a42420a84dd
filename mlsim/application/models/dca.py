"""DCA, distributed chunk calculation: every PE sizes its own chunks (Eleliemy 2021, §4.3).

A chunk takes two atomic operations on a window at the coordinator, PE 0, which executes chunks like
everyone: fetch-and-increment of the scheduling step i, then, after the PE has computed K_i itself,
fetch-and-add of K_i to the loop start. The window serves one atomic at a time, in order of arrival,
equal arrivals in order of rank. AF has no form that needs only i: its PEs hold the window's lock from
reading what is left until they have claimed their chunk.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import kernel
from mlsim.application.calendar import move, new_calendar
from mlsim.application.models.notes import Costs, PENotes, Rows, write_row
from mlsim.application.techniques.adaptive import learn, new_measurements
from mlsim.application.techniques.guided import FRACTION_WORDS, new_guide
from mlsim.application.techniques.rules import (
    AF,
    STATIC,
    new_rule,
    recursive_size,
    straightforward_size,
)

__all__ = ["run"]

Floats = NDArray[np.float64]


@kernel
def run(
    prefix: Floats,
    speed: Floats,
    latency: Floats,
    code: int,
    min_chunk: int,
    first_size: int,
    costs: Costs,
    until: float,
    notes: PENotes,
    rows: Rows,
) -> int:
    """Simulate one loop from time 0, when every PE asks for its first chunk.

    Parameters
    ----------
    prefix
        float64[N+1], prefix sums of the iteration costs in s at speed 1.
    speed, latency
        float64[P], P >= 1: relative speeds; one-way times of a message to PE 0 in s.
    code, min_chunk, first_size
        Technique, least chunk, AF's chunk without statistics.
    costs
        Costs of the model.
    until
        When the loop is ended whatever remains, in s; infinity: never.
    notes, rows
        Receive the results.

    Returns
    -------
    int
        How many chunks were begun.
    """
    n, p = len(prefix) - 1, len(speed)
    finish, told, busy, overhead, chunks, last_first, last_size = notes
    row_pe, row_numbers, row_times = rows
    rule = new_rule(code, n, p, min_chunk, first_size)
    guide = new_guide(FRACTION_WORDS)
    measured, sums = new_measurements(p if code == AF else 1)
    times, ranks = new_calendar(latency)  # of atomics reaching the window

    # From an atomic's answer leaving the window to the arrival of the claim that builds on it.
    thinking = 2.0 * latency + costs.calculation / speed + costs.delay
    asked = np.zeros(p)
    steps = np.zeros(p, np.int64)
    claims = np.zeros(p, np.int64)  # computed chunk sizes on their way to the window; 0: none
    free = 0.0  # when the window can serve again
    step, begin, count = 0, 0, 0

    while times[1] < np.inf:
        arrival, pe = times[1], ranks[1]
        following = arrival
        # An event that leads to another of the same PE at the same moment is followed by that one.
        while following == arrival:
            free = max(arrival, free) + costs.atomic
            if code == AF:
                if last_size[pe] > 0:
                    learn(measured, sums, pe, prefix, speed[pe], last_first[pe], last_size[pe])
                first, size = begin, 0
                if first < n:
                    size = recursive_size(rule, measured, sums, step, n - first, pe)
                    free += thinking[pe] + costs.atomic + costs.assignment
                    steps[pe] = step
                    step += 1
                begin = first + size
            elif claims[pe] == 0:
                claims[pe] = max(straightforward_size(rule, guide, step), 1)
                steps[pe] = pe if code == STATIC else step
                step += 1
                following = free + thinking[pe]
                continue
            else:
                free += costs.assignment
                first = begin
                if code == STATIC:
                    first = pe * claims[pe] if chunks[pe] == 0 else n
                size = max(min(claims[pe], n - first), 0)
                begin = first + size
                claims[pe] = 0

            start = free + latency[pe]
            following = np.inf
            if size == 0 or start >= until:
                told[pe] = min(start, until)
                overhead[pe] += told[pe] - asked[pe]
                continue
            overhead[pe] += start - asked[pe]
            seconds = (prefix[first + size] - prefix[first]) / speed[pe]
            end = start + seconds
            if end < until:
                following = end + latency[pe]
            else:
                end = until
                seconds = until - start
                told[pe] = until
            write_row(
                row_pe, row_numbers, row_times, count, pe, steps[pe], first, size, asked[pe], start, end
            )
            count += 1
            chunks[pe] += 1
            last_first[pe], last_size[pe] = first, size
            busy[pe] += seconds
            finish[pe] = end
            asked[pe] = end
        move(times, ranks, pe, following)
    return count
