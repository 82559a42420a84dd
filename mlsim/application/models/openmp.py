"""MPI+OpenMP: one process a node, whose threads share every chunk it obtains (Eleliemy 2021, §5.3).

The process obtains chunks as under DCA, with the nodes as PEs. Its threads execute a chunk under the
schedule that stands for the inside technique: ``static`` (STATIC) gives every thread one part;
``dynamic,1`` (SS) and ``guided,1`` (GSS) let threads take iterations from a counter that serves one thread
at a time, in order of arrival, equal arrivals in order of rank. Then all threads meet at a barrier, and the
main thread, the first PE of the node, asks for the next chunk.

With ``nowait`` there is no barrier: the thread that comes first asks for the next chunk, and threads that
come later join.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import kernel
from mlsim.application.calendar import move, move_in, new_calendar, new_calendars
from mlsim.application.models.levels import publish
from mlsim.application.models.lock import Lock, lock_key, next_attempt
from mlsim.application.models.notes import Costs, Loop, Nodes, PENotes, Rows, write_row
from mlsim.application.perturbation import Perturbation, elapsed_time
from mlsim.application.settings import RuleSettings
from mlsim.application.techniques.adaptive import new_measurements
from mlsim.application.techniques.fixed import static_size
from mlsim.application.techniques.guided import FRACTION_WORDS, guided_recursive_size, new_guide
from mlsim.application.techniques.rules import (
    GSS,
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
    nodes: Nodes,
    outer: RuleSettings,
    inner: RuleSettings,
    costs: Costs,
    lock: Lock,
    nowait: bool,
    perturbation: Perturbation,
    until: float,
    notes: PENotes,
    rows: Rows,
) -> int:
    """Simulate one loop from time 0, when every process asks for its first chunk.

    Parameters
    ----------
    loop, nodes
        Iterations and PEs, which are threads, and on which node they are.
    outer, inner
        Rules for chunk sizes between the nodes, whose weights are those of nodes, and inside a node:
        STATIC, SS or GSS.
    costs, lock
        Costs of the model, and how the window is handed over.
    nowait
        Whether threads go on without a barrier. Not with an adaptive technique between the nodes and
        STATIC inside.
    perturbation
        Slow-downs of the PEs.
    until
        When the loop is ended whatever remains, in s; infinity: never.
    notes, rows
        Receive the results.

    Returns
    -------
    int
        How many chunks have rows; if a technique of the user gave a size below 1: −2 between nodes, −1
        inside one.
    """
    prefix, speed, latency = loop
    first_pe, _ = nodes
    n, p, v_count = len(prefix) - 1, len(speed), len(first_pe) - 1
    zero = 0 * n  # of no constant type: numba would compile what is called with one once more
    finish, told, busy, overhead, idle, last_start, chunks, last_first, last_size = notes
    row_pe, row_numbers, row_times, keep_from = rows
    slow_of_pe, slow_index, slow_time, slow_factor = perturbation
    disturbed = len(slow_time) > 0
    polling, interval, seed_low, seed_high = lock

    # The loop's queue and the technique between nodes.
    out_code, out_min_chunk, out_parameters, out_first_weights, out_trouble = outer
    out_rule, out_reals = new_rule()
    reset_rule(out_rule, out_reals, out_code, n, v_count, out_min_chunk, out_parameters)
    guide = new_guide(FRACTION_WORDS)
    out_weights = out_first_weights.copy()
    locks, out_learns = needs_remaining(out_code), is_adaptive(out_code)
    out_whole = counts_overhead(out_code)
    out_measured, out_sums = new_measurements(v_count if out_learns else 1)
    own_measured, own_sums = new_measurements(v_count if out_learns else 1)
    out_constant = constant_size(out_rule)
    claims, taken = np.zeros(v_count, np.int64), np.zeros(v_count, np.int64)
    out_step, out_position, window_free = zero, zero, 0.0
    out_key = lock_key(seed_low, seed_high, zero)
    out_waiters = np.zeros(v_count, np.int64)
    out_waiting, out_draws, out_next = zero, zero, zero - 1

    # The threads.
    code, min_chunk, _, _, _ = inner
    node_times, node_ranks = new_calendar(latency[first_pe[:-1]])  # of a thread reaching the loop's window
    asker = first_pe[:-1].copy()
    times, ranks, tree = new_calendars(np.zeros(p), first_pe)  # of threads coming for what they execute
    at_barrier = np.zeros(p)
    calculation = costs.calculation / speed + costs.delay
    # From an atomic's answer leaving the loop's window to the arrival of the claim that builds on it.
    thinking = 2.0 * latency + calculation
    asked = np.zeros(p)  # end of the chunk before
    since = np.zeros(p)  # from when waiting for the next one is counted: after a barrier, from its end
    spent, waited = np.zeros(p), np.zeros(p)  # executing the last chunk, and from asking to its start
    reported = np.ones(p, np.bool_)  # whether the node knows of the last chunk
    pace = speed.copy()  # at which the last chunk was executed, perturbation included
    told[:] = -1.0  # not yet
    count = zero

    while True:
        v = node_ranks[1]
        arrival = node_times[v]
        if out_waiting > 0 and out_next < 0 and window_free < arrival:
            drawn, delay = next_attempt(out_key, out_draws, out_waiting, interval)
            out_draws += 1
            out_waiting -= 1
            out_next, out_waiters[drawn] = out_waiters[drawn], out_waiters[out_waiting]
            move(node_times, node_ranks, out_next, window_free + delay)
            continue
        if arrival == np.inf:
            break
        if out_next == v:
            out_next = -1
        if polling and arrival < window_free:
            out_waiters[out_waiting] = v
            out_waiting += 1
            move(node_times, node_ranks, v, np.inf)
            continue
        pe = asker[v]
        # As under DCA.
        window_free = max(arrival, window_free) + costs.atomic
        first, got = out_position, zero
        if locks:
            if out_learns:
                publish(own_measured, own_sums, out_measured, out_sums, out_weights, v)
            if first < n:
                got = recursive_size(
                    out_rule, out_reals, out_weights, out_measured, out_sums, out_step, n - first, v
                )
                if got < 1:
                    out_trouble[0], out_trouble[1], out_trouble[2] = out_step, v, got
                    return -2
                window_free += thinking[pe] + costs.atomic + costs.assignment
                out_step += 1
        elif claims[v] == 0:
            got = out_constant
            if out_constant == 0:
                got = straightforward_size(out_rule, out_reals, guide, out_weights, out_step, v)
                if got < 1 and n > 0:
                    out_trouble[0], out_trouble[1], out_trouble[2] = out_step, v, got
                    return -2
            claims[v] = max(got, 1)
            out_step += 1
            move(node_times, node_ranks, v, window_free + thinking[pe])
            continue
        else:
            window_free += costs.assignment
            if out_code == STATIC:
                first = v * claims[v] if taken[v] == 0 else n
            got = max(min(claims[v], n - first), 0)
            claims[v] = 0
        out_position = first + got
        taken[v] += 1
        answer = window_free + latency[pe]
        if answer >= until:
            move(node_times, node_ranks, v, np.inf)
            continue
        base, begin, width = first_pe[v], tree[v], tree[v + 1] - tree[v]
        members = first_pe[v + 1] - base
        if got == 0 and (code == STATIC or not nowait):
            for pe in range(base, base + members):
                # Without a barrier, a thread may still be behind.
                told[pe] = min(max(times[begin + pe - base], answer) if nowait else answer, until)
                overhead[pe] += told[pe] - since[pe]
            move(node_times, node_ranks, v, np.inf)
            continue
        part = static_size(got, members) if code == STATIC else 0
        part = max(part, min_chunk)
        position, end_of, step = first, first + got, zero
        free, meeting = answer, answer  # when the counter is free, and when the threads meet
        holder, visits = pe, zero
        if not nowait:
            holder = zero - 1
            for rank in range(members):
                move_in(times, ranks, begin, width, rank, answer)

        arrival = np.inf  # at the loop's window
        while True:
            if code == STATIC:
                if visits == members:
                    break
                pe = base + visits
                visits += 1
                due = max(times[begin + pe - base], answer)
                if due == np.inf:
                    continue
            elif holder >= 0:
                pe, due, holder = holder, answer, -1
                if got == 0:
                    told[pe] = answer
                    overhead[pe] += answer - since[pe]
                    move_in(times, ranks, begin, width, pe - base, np.inf)
                    continue
            else:
                pe = base + ranks[2 * begin + 1]
                due = times[begin + pe - base]
                if due == np.inf:
                    break
            if out_learns and not reported[pe]:
                reported[pe] = True
                learn(
                    out_code,
                    own_measured,
                    own_sums,
                    out_weights,
                    v,
                    prefix,
                    pace[pe] * members,
                    last_first[pe],
                    last_size[pe],
                    (spent[pe] + (waited[pe] if out_whole else 0.0)) / members,
                )
            if code == STATIC:
                first = min(position + (pe - base) * part, end_of)
                size = min(part, end_of - first)
                step = pe - base
                start = due + calculation[pe]
            else:
                first, size = position, zero
                free = max(due, free) + costs.atomic
                if position < end_of:
                    if code == GSS:
                        part = max(guided_recursive_size(end_of - position, members), min_chunk)
                        free += calculation[pe]
                    free += costs.assignment
                    size = min(part, end_of - position)
                    position += size
                start = free
            if size == 0:
                # Nothing is left for this thread: to the barrier, or for the next chunk.
                following = np.inf
                if not nowait:
                    at_barrier[pe] = start
                    meeting = max(meeting, start)
                elif code == STATIC:
                    following = start
                elif got == 0:
                    told[pe] = min(start, until)
                    overhead[pe] += told[pe] - since[pe]
                else:
                    asker[v] = pe
                    arrival = start + latency[pe]
                    break
                move_in(times, ranks, begin, width, pe - base, following)
                continue
            if start >= until:
                meeting, at_barrier[pe] = np.inf, np.inf
                move_in(times, ranks, begin, width, pe - base, np.inf)
                continue
            seconds = (prefix[first + size] - prefix[first]) / speed[pe]
            if disturbed:
                work = seconds
                seconds = elapsed_time(work, start, pe, slow_of_pe, slow_index, slow_time, slow_factor)
                pace[pe] = speed[pe] * (work / seconds) if work > 0.0 else speed[pe]
            end = start + seconds
            following = end
            if end >= until:
                end, seconds, following = until, until - start, np.inf
            if end > keep_from:
                write_row(row_pe, row_numbers, row_times, count, pe, step, first, size, asked[pe], start, end)
                count += 1
            step += 1
            chunks[pe] += 1
            last_first[pe], last_size[pe] = first, size
            last_start[pe] = start
            busy[pe] += seconds
            overhead[pe] += start - since[pe]
            finish[pe] = end
            if out_learns:
                spent[pe], waited[pe] = seconds, start - since[pe]
                reported[pe] = False
            asked[pe] = end
            since[pe] = end
            if not nowait and (code == STATIC or following == np.inf):
                at_barrier[pe] = following
                meeting = max(meeting, following)
                following = np.inf
            move_in(times, ranks, begin, width, pe - base, following)

        if nowait:
            if code == STATIC:
                # The first that is ready goes ahead.
                asker[v] = base + ranks[2 * begin + 1]
                arrival = times[begin + asker[v] - base] + latency[asker[v]]
            move(node_times, node_ranks, v, arrival)
            continue
        for pe in range(base, base + members):
            came = at_barrier[pe]
            if came < until:
                overhead[pe] += came - since[pe]
                since[pe] = min(meeting, until)
                idle[pe] += since[pe] - came
            if out_learns and not reported[pe]:
                reported[pe] = True
                learn(
                    out_code,
                    own_measured,
                    own_sums,
                    out_weights,
                    v,
                    prefix,
                    pace[pe] * members,
                    last_first[pe],
                    last_size[pe],
                    (spent[pe] + (waited[pe] if out_whole else 0.0)) / members,
                )
        asker[v] = base
        move(node_times, node_ranks, v, meeting + latency[base])

    for pe in range(p):
        if told[pe] < 0.0:
            told[pe] = until
            overhead[pe] += until - since[pe]
    return count
