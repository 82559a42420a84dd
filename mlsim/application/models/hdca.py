"""HDCA, hierarchical distributed chunk calculation (MPI+MPI; Eleliemy 2021, ch. 5).

Every node has a queue of its own in shared memory, held by its first PE. A PE takes a sub-chunk from it by
the inside technique, for which it holds the queue's lock from reading what is left until it has written
what it took. The PE that finds the queue empty keeps the lock, takes a chunk for the node from the loop's
queue as under DCA, with the nodes as PEs, and writes it into the node's queue together with what it takes
of it itself. The others wait for the lock, not for each other.

Locks and windows serve in order of arrival, equal arrivals in order of rank; or, where they are polled,
whoever comes when they are free (see ``lock.py``).

Between two refills no node learns anything of another. So the event loop goes from one refill to the next
by the arrivals at the loop's window, and from there on through all that happens in that node.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import kernel
from mlsim.application.calendar import move, move_in, new_calendar, new_calendars
from mlsim.application.models.levels import publish, refill_rule
from mlsim.application.models.lock import Lock, lock_key, next_attempt
from mlsim.application.models.notes import Costs, Loop, Nodes, PENotes, Rows, write_row
from mlsim.application.perturbation import Perturbation, elapsed_time
from mlsim.application.settings import RuleSettings
from mlsim.application.techniques.adaptive import new_measurements
from mlsim.application.techniques.fixed import static_size
from mlsim.application.techniques.guided import FRACTION_WORDS, new_guide
from mlsim.application.techniques.rules import (
    SS,
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

BEGINNING, AT_WINDOW = 0, 1


@kernel
def run(
    loop: Loop,
    nodes: Nodes,
    outer: RuleSettings,
    inner: RuleSettings,
    costs: Costs,
    lock: Lock,
    perturbation: Perturbation,
    until: float,
    notes: PENotes,
    rows: Rows,
) -> int:
    """Simulate one loop from time 0, when every PE asks for its first chunk.

    Parameters
    ----------
    loop, nodes
        Iterations and PEs, and on which node they are.
    outer, inner
        Rules for chunk sizes between the nodes, whose weights are those of nodes, and inside a node,
        where the weights of its PEs sum up to their number.
    costs, lock
        Costs of the model, and how locks are handed over.
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
    first_pe, near = nodes
    n, p, v_count = len(prefix) - 1, len(speed), len(first_pe) - 1
    zero = 0 * n  # of no constant type: numba would compile what is called with one once more
    finish, told, busy, overhead, _, last_start, chunks, last_first, last_size = notes
    row_pe, row_numbers, row_times, since = rows
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
    # When a PE of each node reaches the loop's window; before the first time, the node's beginning.
    node_times, node_ranks = new_calendar(np.zeros(v_count))
    stage = np.zeros(v_count, np.int64)
    refiller = np.zeros(v_count, np.int64)

    # The nodes' queues and the technique inside.
    code, min_chunk, parameters, first_weights, trouble = inner
    a_rule, a_reals = new_rule()
    rules, all_reals = np.zeros((v_count, len(a_rule)), np.int64), np.zeros((v_count, len(a_reals)))
    all_weights = first_weights.copy()
    learns, whole = is_adaptive(code), counts_overhead(code)
    most = 1
    for v in range(v_count):
        most = max(most, first_pe[v + 1] - first_pe[v])
    a_measured, a_sums = new_measurements(most if learns else 1)
    all_measured = np.zeros((v_count if learns else 1, 3, a_measured.shape[1]))
    all_sums = np.zeros((v_count if learns else 1, 2, a_sums.shape[1]))
    position, end_of = np.zeros(v_count, np.int64), np.zeros(v_count, np.int64)
    step_of = np.zeros(v_count, np.int64)
    constant_of = np.full(v_count, min_chunk if code == SS else 0)  # size of sub-chunks if all are equal
    exhausted = np.zeros(v_count, np.bool_)
    free_of = np.zeros(v_count)  # when a node's lock is free
    times, ranks, tree = new_calendars(near.copy(), first_pe)  # of PEs reaching their node's lock
    waiters = np.zeros(p, np.int64)
    waiting_of, draws_of = np.zeros(v_count, np.int64), np.zeros(v_count, np.int64)
    next_of = np.full(v_count, -1)

    calculation = costs.calculation / speed + costs.delay
    # From an atomic's answer leaving the loop's window to the arrival of the claim that builds on it.
    thinking = 2.0 * latency + calculation
    asked = np.zeros(p)
    spent, waited = np.zeros(p), np.zeros(p)  # executing the last chunk, and from asking to its start
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
        base, begin, width = first_pe[v], tree[v], tree[v + 1] - tree[v]
        members = first_pe[v + 1] - base
        free = free_of[v]
        holder, ready = zero - 1, 0.0  # a PE that holds the lock already, and when it can write to the queue
        if stage[v] == AT_WINDOW:
            pe = refiller[v]
            if out_next == v:
                out_next = -1
            if polling and arrival < window_free:
                out_waiters[out_waiting] = v
                out_waiting += 1
                move(node_times, node_ranks, v, np.inf)
                continue
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
            if got > 0:
                position[v], end_of[v], step_of[v] = first, first + got, 0
                if code == STATIC:
                    constant_of[v] = max(static_size(got, members), min_chunk)
                elif code != SS:
                    refill_rule(
                        rules[v], all_reals[v], code, got, members, min_chunk, parameters, v, taken[v]
                    )
                    constant_of[v] = constant_size(rules[v])
                holder, ready = pe, answer
            else:
                exhausted[v] = True
                told[pe] = min(answer, until)
                overhead[pe] += told[pe] - asked[pe]
                free = answer + near[pe] + costs.atomic
                move_in(times, ranks, begin, width, pe - base, np.inf)
        stage[v] = AT_WINDOW
        arrival = np.inf  # at the loop's window

        while True:
            if holder >= 0:
                pe, holder = holder, -1
            else:
                pe = base + ranks[2 * begin + 1]
                due = times[begin + pe - base]
                if waiting_of[v] > 0 and next_of[v] < 0 and free < due:
                    drawn, delay = next_attempt(
                        lock_key(seed_low, seed_high, v + 1), draws_of[v], waiting_of[v], interval
                    )
                    draws_of[v] += 1
                    waiting_of[v] -= 1
                    last = base + waiting_of[v]
                    next_of[v], waiters[base + drawn] = waiters[base + drawn], waiters[last]
                    move_in(times, ranks, begin, width, next_of[v] - base, free + delay)
                    continue
                if due == np.inf:
                    break
                if next_of[v] == pe:
                    next_of[v] = -1
                if polling and due < free:
                    waiters[base + waiting_of[v]] = pe
                    waiting_of[v] += 1
                    move_in(times, ranks, begin, width, pe - base, np.inf)
                    continue
                free = max(due, free) + costs.atomic
                if last_size[pe] > 0:
                    if learns:
                        learn(
                            code,
                            all_measured[v],
                            all_sums[v],
                            all_weights[base : base + members],
                            pe - base,
                            prefix,
                            pace[pe],
                            last_first[pe],
                            last_size[pe],
                            spent[pe] + (waited[pe] if whole else 0.0),
                        )
                    if out_learns:
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
                ready = free + near[pe]
                if position[v] == end_of[v]:
                    if exhausted[v]:
                        told[pe] = min(ready, until)
                        overhead[pe] += told[pe] - asked[pe]
                        move_in(times, ranks, begin, width, pe - base, np.inf)
                        continue
                    refiller[v] = pe
                    arrival = ready + latency[pe]
                    break
            first = position[v]
            size = min(constant_of[v], end_of[v] - first)
            if size == 0:
                size = recursive_size(
                    rules[v],
                    all_reals[v],
                    all_weights[base : base + members],
                    all_measured[v if learns else 0],
                    all_sums[v if learns else 0],
                    step_of[v],
                    end_of[v] - first,
                    pe - base,
                )
                if size < 1:
                    trouble[0], trouble[1], trouble[2] = step_of[v], pe, size
                    return -1
            position[v] = first + size
            free = ready + calculation[pe] + near[pe] + costs.atomic + costs.assignment
            start = free + near[pe]
            step = step_of[v]
            step_of[v] += 1
            if start >= until:
                move_in(times, ranks, begin, width, pe - base, np.inf)
                continue
            seconds = (prefix[first + size] - prefix[first]) / speed[pe]
            if disturbed:
                work = seconds
                seconds = elapsed_time(work, start, pe, slow_of_pe, slow_index, slow_time, slow_factor)
                pace[pe] = speed[pe] * (work / seconds) if work > 0.0 else speed[pe]
            end = start + seconds
            if end >= until:
                end, seconds = until, until - start
            if end > since:
                write_row(row_pe, row_numbers, row_times, count, pe, step, first, size, asked[pe], start, end)
                count += 1
            chunks[pe] += 1
            last_first[pe], last_size[pe] = first, size
            last_start[pe] = start
            busy[pe] += seconds
            overhead[pe] += start - asked[pe]
            finish[pe] = end
            spent[pe], waited[pe] = seconds, start - asked[pe]
            asked[pe] = end
            move_in(times, ranks, begin, width, pe - base, end + near[pe] if end < until else np.inf)
        free_of[v] = free
        move(node_times, node_ranks, v, arrival)

    for pe in range(p):
        if told[pe] < 0.0:
            told[pe] = until
            overhead[pe] += until - asked[pe]
    return count
