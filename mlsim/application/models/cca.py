"""CCA, centralized chunk calculation: a master sizes all chunks (Eleliemy 2021, §4.1).

The master is PE 0. If it is dedicated it does nothing else. If not, it executes chunks of its own, and
looks for requests only at its breaks, which are after every ``break_after`` iterations of its own chunk,
at the chunk's end, and, when it has nothing to execute, at once. At a break it serves until no request
is waiting. Its own request stands in the same queue, from the moment its chunk ended. To serve a request
it calculates and assigns a chunk, then sends it; a request that comes when nothing is left is answered
without a calculation.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import kernel
from mlsim.application.absence import Absence, next_asking
from mlsim.application.calendar import due_lowest_rank, move, new_calendar
from mlsim.application.models.master import FIFO, LOWEST_RANK, Service, execute_until
from mlsim.application.models.notes import Costs, Loop, PENotes, Rows, write_row
from mlsim.application.perturbation import Perturbation, elapsed_time
from mlsim.application.settings import RuleSettings
from mlsim.application.techniques.adaptive import new_measurements
from mlsim.application.techniques.rules import (
    SIZE,
    STATIC,
    constant_size,
    counts_overhead,
    is_adaptive,
    learn,
    new_rule,
    recursive_size,
    reset_rule,
)

__all__ = ["FIFO", "LOWEST_RANK", "run"]

Floats = NDArray[np.float64]


@kernel
def run(
    loop: Loop,
    technique: RuleSettings,
    costs: Costs,
    service: Service,
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
        Rule for chunk sizes, for the PEs that execute: without a master that is dedicated.
    costs, service
        Costs of the model, and how the master serves.
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
    finish, told, busy, overhead, idle, last_start, chunks, last_first, last_size = notes
    row_pe, row_numbers, row_times, since = rows
    slow_of_pe, slow_index, slow_time, slow_factor = perturbation
    disturbed = len(slow_time) > 0
    away_index, away_begin, away_end = absence
    leaves = len(away_begin) > 0
    code, min_chunk, parameters, first_weights, trouble = technique
    break_after, service_order, dedicated = service
    base = zero + (1 if dedicated else 0)  # the first PE that executes
    rule, reals = new_rule()
    reset_rule(rule, reals, code, n, p - base, min_chunk, parameters)
    constant = constant_size(rule)
    weights = first_weights.copy()
    learns, whole = is_adaptive(code), counts_overhead(code)
    measured, sums = new_measurements(p - base if learns else 1)
    times, ranks = new_calendar(latency)  # of requests reaching the master, its own among them
    if dedicated:
        move(times, ranks, zero, np.inf)

    serving = costs.calculation / speed[0] + costs.delay + costs.assignment
    asked = np.zeros(p)
    spent = np.zeros(p)  # time of the last chunk, for techniques that learn from it
    pace = speed.copy()  # at which the last chunk was executed, perturbation included
    told[:] = -1.0  # not yet
    if leaves:
        for pe in range(1, p):
            asked[pe] = next_asking(0.0, pe, away_index, away_begin, away_end)
            move(times, ranks, pe, asked[pe] + latency[pe] if asked[pe] < until else np.inf)
            if asked[pe] >= until:
                asked[pe] = told[pe] = 0.0
    now = 0.0  # the master's clock
    position, own_end = zero, zero  # what is left of the master's own chunk
    own_step, own_begun, own_start, own_seconds = zero, False, 0.0, 0.0
    step, begin, count = zero, zero, zero

    while now < until:
        if times[ranks[1]] <= now:
            pe = ranks[1]
            if service_order == LOWEST_RANK:
                pe = due_lowest_rank(times, ranks, zero, len(times), now)
            who = pe - base
            if learns and last_size[pe] > 0:
                learn(
                    code,
                    measured,
                    sums,
                    weights,
                    who,
                    prefix,
                    pace[pe],
                    last_first[pe],
                    last_size[pe],
                    spent[pe],
                )
            first, chunk_step = begin, step
            if code == STATIC:
                first, chunk_step = who * rule[SIZE] if chunks[pe] == 0 else n, who
            if first >= n:
                told[pe] = min(now + latency[pe], until)
                overhead[pe] += told[pe] - asked[pe]
                move(times, ranks, pe, np.inf)
                continue
            if code == STATIC:
                size = min(rule[SIZE], n - first)
            else:
                size = min(constant, n - first)
                if constant == 0:
                    size = recursive_size(rule, reals, weights, measured, sums, step, n - first, who)
                    if size < 1:
                        trouble[0], trouble[1], trouble[2] = step, pe, size
                        return -1
            begin = first + size
            step += 1
            if dedicated or own_begun:
                overhead[0] += min(now + serving, until) - now
            now += serving
            if pe == 0:
                position, own_end, own_step, own_begun = first, begin, chunk_step, False
                move(times, ranks, pe, np.inf)
                continue
            start = now + latency[pe]
            if start >= until:
                move(times, ranks, pe, np.inf)
                continue
            seconds = (prefix[begin] - prefix[first]) / speed[pe]
            if disturbed:
                work = seconds
                seconds = elapsed_time(work, start, pe, slow_of_pe, slow_index, slow_time, slow_factor)
                pace[pe] = speed[pe] * (work / seconds) if work > 0.0 else speed[pe]
            end = start + seconds
            if end >= until:
                end, seconds = until, until - start
            if end > since:
                write_row(
                    row_pe, row_numbers, row_times, count, pe, chunk_step, first, size, asked[pe], start, end
                )
                count += 1
            chunks[pe] += 1
            last_first[pe], last_size[pe] = first, size
            last_start[pe] = start
            busy[pe] += seconds
            overhead[pe] += start - asked[pe]
            finish[pe] = end
            if learns:
                spent[pe] = end - asked[pe] if whole else seconds
            asked[pe] = end
            following = end + latency[pe]
            if leaves:
                asked[pe] = next_asking(end, pe, away_index, away_begin, away_end)
                following = asked[pe] + latency[pe]
                if asked[pe] >= until:
                    asked[pe] = told[pe] = end
                    following = np.inf
            move(times, ranks, pe, following)
        elif position < own_end:
            if not own_begun:
                own_begun, own_start, own_seconds = True, now, 0.0
                chunks[0] += 1
                last_first[0], last_size[0], last_start[0] = position, own_end - position, now
                overhead[0] += now - asked[0]
            time, position = execute_until(
                prefix,
                speed[0],
                now,
                position,
                own_end,
                break_after,
                min(times[ranks[1]], until),
                zero,
                slow_of_pe,
                slow_index,
                slow_time,
                slow_factor,
            )
            own_seconds += min(time, until) - now
            now = time
            if position == own_end and now < until:
                first, size = last_first[0], last_size[0]
                if now > since:
                    write_row(
                        row_pe,
                        row_numbers,
                        row_times,
                        count,
                        zero,
                        own_step,
                        first,
                        size,
                        asked[0],
                        own_start,
                        now,
                    )
                    count += 1
                seconds = (prefix[own_end] - prefix[first]) / speed[0]
                if disturbed:
                    pace[0] = speed[0] * (seconds / own_seconds) if seconds > 0.0 else speed[0]
                    seconds = own_seconds
                busy[0] += seconds
                finish[0] = now
                spent[0] = now - asked[0] if whole else seconds
                asked[0] = now
                own_begun = False
                move(times, ranks, zero, now)
        elif times[ranks[1]] < np.inf:
            now = times[ranks[1]]
        else:
            break

    if own_begun:  # the loop was ended amid the master's chunk
        first, size = last_first[0], last_size[0]
        if until > since:
            write_row(
                row_pe, row_numbers, row_times, count, zero, own_step, first, size, asked[0], own_start, until
            )
            count += 1
        busy[0] += own_seconds
        finish[0] = until
        asked[0] = until
    done = min(now, until)
    for pe in range(base, p):
        if told[pe] < 0.0:
            done = until
            told[pe] = until
            overhead[pe] += until - asked[pe]
    if dedicated:  # it has told all others
        told[0] = done
        idle[0] = done - overhead[0]
    return count
