"""DCA, distributed chunk calculation: every PE sizes its own chunks (Eleliemy 2021, §4.3).

A chunk takes two atomic operations on a window at the coordinator, PE 0, which executes chunks like
everyone: fetch-and-increment of the scheduling step i, then, after the PE has computed K_i itself,
fetch-and-add of K_i to the loop start. AF, AWF-B to AWF-E and techniques of the user that read what is
left have no form that needs only i: their PEs hold the window's lock from reading until they have claimed
their chunk.

The window serves one atomic at a time: in order of arrival, equal arrivals in order of rank; or, where
the lock is polled, whoever comes when it is free (see ``lock.py``).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import kernel
from mlsim.application.absence import Absence, next_asking
from mlsim.application.calendar import move, new_calendar
from mlsim.application.models.lock import Lock, lock_key, next_attempt
from mlsim.application.models.notes import Costs, Loop, PENotes, Rows, write_row
from mlsim.application.perturbation import Perturbation, elapsed_time
from mlsim.application.settings import RuleSettings
from mlsim.application.techniques.adaptive import new_measurements
from mlsim.application.techniques.guided import FRACTION_WORDS, new_guide
from mlsim.application.techniques.rules import (
    STATIC,
    constant_size,
    counts_overhead,
    is_adaptive,
    learn,
    needs_remaining,
    new_rule,
    recursive_size,
    reset_rule,
    straightforward_size,
)

__all__ = ["run"]

Floats = NDArray[np.float64]


@kernel
def run(
    loop: Loop,
    technique: RuleSettings,
    costs: Costs,
    lock: Lock,
    perturbation: Perturbation,
    absence: Absence,
    until: float,
    notes: PENotes,
    rows: Rows,
) -> int:
    """Simulate one loop from time 0, when every PE asks for its first chunk.

    Parameters
    ----------
    loop
        Iterations and PEs.
    technique
        Rule for chunk sizes.
    costs, lock
        Costs of the model, and how the window is handed over.
    perturbation
        Slow-downs of the PEs.
    absence
        When PEs ask for no chunks; PE 0 always does.
    until
        When the loop is ended whatever remains, in s; infinity: never.
    notes, rows
        Receive the results.

    Returns
    -------
    int
        How many chunks have rows; −1 if a technique of the user gave a size below 1.
    """
    prefix, speed, latency = loop
    n, p = len(prefix) - 1, len(speed)
    zero = 0 * n  # of no constant type: numba would compile what is called with one once more
    finish, told, busy, overhead, _, last_start, chunks, last_first, last_size = notes
    row_pe, row_numbers, row_times, since = rows
    slow_of_pe, slow_index, slow_time, slow_factor = perturbation
    disturbed = len(slow_time) > 0
    away_index, away_begin, away_end = absence
    leaves = len(away_begin) > 0
    code, min_chunk, parameters, first_weights, trouble = technique
    rule, reals = new_rule()
    reset_rule(rule, reals, code, n, p, min_chunk, parameters)
    constant = constant_size(rule)
    guide = new_guide(FRACTION_WORDS)
    weights = first_weights.copy()
    locks, learns, whole = needs_remaining(code), is_adaptive(code), counts_overhead(code)
    measured, sums = new_measurements(p if learns else 1)
    times, ranks = new_calendar(latency)  # of atomics reaching the window
    polling, interval, seed_low, seed_high = lock
    key = lock_key(seed_low, seed_high, zero)
    waiters = np.zeros(p, np.int64)  # PEs that found the window taken
    waiting, draws, next_one = (
        zero,
        zero,
        zero - 1,
    )  # next_one: of those that polled, whose attempt comes first

    asked = np.zeros(p)
    if leaves:
        for pe in range(p):
            asked[pe] = next_asking(0.0, pe, away_index, away_begin, away_end)
            move(times, ranks, pe, asked[pe] + latency[pe] if asked[pe] < until else np.inf)
            asked[pe] = asked[pe] if asked[pe] < until else 0.0

    # From an atomic's answer leaving the window to the arrival of the claim that builds on it.
    thinking = 2.0 * latency + costs.calculation / speed + costs.delay
    spent = np.zeros(p)  # time of the last chunk, for techniques that learn from it
    pace = speed.copy()  # at which the last chunk was executed, perturbation included
    steps = np.zeros(p, np.int64)
    claims = np.zeros(p, np.int64)  # computed chunk sizes on their way to the window; 0: none
    free = 0.0  # when the window can serve again
    step, begin, count = zero, zero, zero

    while True:
        pe = ranks[1]
        arrival = times[pe]
        if waiting > 0 and next_one < 0 and free < arrival:
            drawn, delay = next_attempt(key, draws, waiting, interval)
            draws += 1
            waiting -= 1
            next_one, waiters[drawn] = waiters[drawn], waiters[waiting]
            move(times, ranks, next_one, free + delay)
            continue
        if arrival == np.inf:
            break
        if pe == next_one:
            next_one = -1
        following = arrival
        # An event that leads to another of the same PE at the same moment is followed by that one.
        while following == arrival:
            if polling and arrival < free:
                waiters[waiting] = pe
                waiting += 1
                following = np.inf
                continue
            free = max(arrival, free) + costs.atomic
            if locks:
                if learns and last_size[pe] > 0:
                    learn(
                        code,
                        measured,
                        sums,
                        weights,
                        pe,
                        prefix,
                        pace[pe],
                        last_first[pe],
                        last_size[pe],
                        spent[pe],
                    )
                first, size = begin, 0
                if first < n:
                    size = recursive_size(rule, reals, weights, measured, sums, step, n - first, pe)
                    if size < 1:
                        trouble[0], trouble[1], trouble[2] = step, pe, size
                        return -1
                    free += thinking[pe] + costs.atomic + costs.assignment
                    steps[pe] = step
                    step += 1
                begin = first + size
            elif claims[pe] == 0:
                size = constant
                if constant == 0:
                    size = straightforward_size(rule, reals, guide, weights, step, pe)
                    if size < 1 and n > 0:
                        trouble[0], trouble[1], trouble[2] = step, pe, size
                        return -1
                claims[pe] = max(size, 1)
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
            if disturbed:
                work = seconds
                seconds = elapsed_time(work, start, pe, slow_of_pe, slow_index, slow_time, slow_factor)
                pace[pe] = speed[pe] * (work / seconds) if work > 0.0 else speed[pe]
            end = start + seconds
            if end < until:
                following = end + latency[pe]
            else:
                end = until
                seconds = until - start
                told[pe] = until
            if end > since:
                write_row(
                    row_pe, row_numbers, row_times, count, pe, steps[pe], first, size, asked[pe], start, end
                )
                count += 1
            chunks[pe] += 1
            last_first[pe], last_size[pe] = first, size
            last_start[pe] = start
            busy[pe] += seconds
            finish[pe] = end
            if learns:
                spent[pe] = end - asked[pe] if whole else seconds
            asked[pe] = end
            if leaves and following < np.inf:
                asked[pe] = next_asking(end, pe, away_index, away_begin, away_end)
                following = asked[pe] + latency[pe]
                if asked[pe] >= until:
                    asked[pe] = told[pe] = end
                    following = np.inf
        move(times, ranks, pe, following)
    return count
