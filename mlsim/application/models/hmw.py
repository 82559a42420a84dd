"""Hierarchical master-worker: a global master, a local master on every node, workers (Eleliemy 2021, §4.1).

The first PE of every node is its local master, and PE 0 is the global master besides. Workers ask their
local master for chunks; a local master whose queue is empty when it serves asks the global master for a
chunk of the node, and lets the requests wait until it has come. All masters work as under CCA: dedicated, or
executing chunks of their own with breaks, at which they serve. A reply of the global master is looked at
before requests; PE 0 serves nodes and its own workers in one queue.

Nodes learn of each other by the global master alone. So one master at a time is followed: PE 0, and, when
it has answered a node, the local master there until it asks again.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import kernel
from mlsim.application.calendar import due_lowest_rank, move, move_in, new_calendar, new_calendars
from mlsim.application.models.levels import publish, refill_rule
from mlsim.application.models.master import LOWEST_RANK, Service, execute_until
from mlsim.application.models.notes import Costs, Loop, Nodes, PENotes, Rows, write_row
from mlsim.application.perturbation import Perturbation, elapsed_time
from mlsim.application.settings import RuleSettings
from mlsim.application.techniques.adaptive import new_measurements
from mlsim.application.techniques.fixed import static_size
from mlsim.application.techniques.rules import (
    SIZE,
    SS,
    STATIC,
    constant_size,
    counts_overhead,
    is_adaptive,
    learn,
    new_rule,
    recursive_size,
    reset_rule,
)

__all__ = ["run"]

Floats = NDArray[np.float64]

GOES_ON, ATTENTION, REFILL, DONE = 0, 1, 2, 3


@kernel
def run(
    loop: Loop,
    nodes: Nodes,
    outer: RuleSettings,
    inner: RuleSettings,
    costs: Costs,
    service: Service,
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
        where the weights of its PEs that execute sum up to their number.
    costs, service
        Costs of the model, and how masters serve.
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
    finish, told, busy, overhead, idle, last_start, chunks, last_first, last_size = notes
    row_pe, row_numbers, row_times, since = rows
    slow_of_pe, slow_index, slow_time, slow_factor = perturbation
    disturbed = len(slow_time) > 0
    break_after, service_order, all_dedicated = service

    # The global master and the technique between nodes.
    out_code, out_min_chunk, out_parameters, out_first_weights, out_trouble = outer
    out_rule, out_reals = new_rule()
    reset_rule(out_rule, out_reals, out_code, n, v_count, out_min_chunk, out_parameters)
    out_weights = out_first_weights.copy()
    out_learns, out_whole = is_adaptive(out_code), counts_overhead(out_code)
    out_measured, out_sums = new_measurements(v_count if out_learns else 1)
    own_measured, own_sums = new_measurements(v_count if out_learns else 1)
    out_constant = constant_size(out_rule)
    taken = np.zeros(v_count, np.int64)
    out_step, out_position = zero, zero
    # When a node's request reaches the global master.
    node_times, node_ranks = new_calendar(np.full(v_count, np.inf))

    # The local masters and the technique inside.
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
    queue_position, queue_end = np.zeros(v_count, np.int64), np.zeros(v_count, np.int64)
    queue_step = np.zeros(v_count, np.int64)
    constant_of = np.full(v_count, min_chunk if code == SS else 0)  # size of sub-chunks if all are equal
    reply_first, reply_size = np.zeros(v_count, np.int64), np.zeros(v_count, np.int64)
    awaiting, exhausted = np.zeros(v_count, np.bool_), np.zeros(v_count, np.bool_)
    times, ranks, tree = new_calendars(near.copy(), first_pe)  # of requests reaching a local master
    dedicated = np.zeros(v_count, np.bool_)
    for v in range(v_count):
        dedicated[v] = all_dedicated and first_pe[v + 1] - first_pe[v] > 1
        if dedicated[v]:
            move_in(times, ranks, tree[v], tree[v + 1] - tree[v], zero, np.inf)
    clock = np.zeros(v_count)
    # What is left of each master's own chunk, as under CCA.
    own_position, own_end = np.zeros(v_count, np.int64), np.zeros(v_count, np.int64)
    own_step, own_begun = np.zeros(v_count, np.int64), np.zeros(v_count, np.bool_)
    own_start, own_seconds = np.zeros(v_count), np.zeros(v_count)

    serving = costs.calculation / speed + costs.delay + costs.assignment
    asked = np.zeros(p)
    spent, waited = np.zeros(p), np.zeros(p)  # executing the last chunk, and from asking to its start
    reported = np.ones(p, np.bool_)  # whether the local master knows of the last chunk
    pace = speed.copy()  # at which the last chunk was executed, perturbation included
    told[:] = -1.0  # not yet
    count = zero

    closing, refused = zero, zero  # refused: nodes that the global master has told that nothing is left
    begun = zero + 1  # nodes whose masters have begun; PE 0 goes last
    v = begun if begun < v_count else zero
    attention = np.inf  # when the reply reaches a local master
    while True:
        now = clock[v]
        master = first_pe[v]
        base = master + (1 if dedicated[v] else 0)  # the first PE that executes
        members = first_pe[v + 1] - base
        begin, width = tree[v], tree[v + 1] - tree[v]
        doing = GOES_ON
        while doing == GOES_ON:
            if v == 0:
                attention = node_times[node_ranks[1]]
            due = np.inf if awaiting[v] else times[begin + ranks[2 * begin + 1]]
            if now >= until:
                doing = DONE
            elif attention <= now and (due > now or (service_order != LOWEST_RANK and due > attention)):
                doing = ATTENTION
            elif due <= now:
                rank = ranks[2 * begin + 1]
                if service_order == LOWEST_RANK:
                    rank = due_lowest_rank(times, ranks, begin, width, now)
                pe = master + rank
                if not reported[pe]:
                    reported[pe] = True
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
                first = queue_position[v]
                if first == queue_end[v]:
                    if exhausted[v]:
                        told[pe] = min(now + near[pe], until)
                        overhead[pe] += told[pe] - asked[pe]
                        move_in(times, ranks, begin, width, rank, np.inf)
                    else:
                        doing = REFILL
                    continue
                size = min(constant_of[v], queue_end[v] - first)
                if size == 0:
                    size = recursive_size(
                        rules[v],
                        all_reals[v],
                        all_weights[base : base + members],
                        all_measured[v if learns else 0],
                        all_sums[v if learns else 0],
                        queue_step[v],
                        queue_end[v] - first,
                        pe - base,
                    )
                    if size < 1:
                        trouble[0], trouble[1], trouble[2] = queue_step[v], pe, size
                        return -1
                queue_position[v] = first + size
                step = queue_step[v]
                queue_step[v] += 1
                if dedicated[v] or own_begun[v]:
                    overhead[master] += min(now + serving[master], until) - now
                now += serving[master]
                start = now + near[pe]
                if pe == master:
                    own_position[v], own_end[v] = first, first + size
                    own_step[v], own_begun[v] = step, False
                    move_in(times, ranks, begin, width, rank, np.inf)
                    continue
                if start >= until:
                    move_in(times, ranks, begin, width, rank, np.inf)
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
                    write_row(
                        row_pe, row_numbers, row_times, count, pe, step, first, size, asked[pe], start, end
                    )
                    count += 1
                chunks[pe] += 1
                last_first[pe], last_size[pe] = first, size
                last_start[pe] = start
                busy[pe] += seconds
                overhead[pe] += start - asked[pe]
                finish[pe] = end
                spent[pe], waited[pe] = seconds, start - asked[pe]
                reported[pe] = False
                asked[pe] = end
                move_in(times, ranks, begin, width, rank, end + near[pe])
            elif own_position[v] < own_end[v]:
                if not own_begun[v]:
                    own_begun[v], own_start[v], own_seconds[v] = True, now, 0.0
                    chunks[master] += 1
                    last_first[master], last_size[master] = own_position[v], own_end[v] - own_position[v]
                    last_start[master] = now
                    overhead[master] += now - asked[master]
                time, own_position[v] = execute_until(
                    prefix,
                    speed[master],
                    now,
                    own_position[v],
                    own_end[v],
                    break_after,
                    min(min(due, attention), until),
                    master,
                    slow_of_pe,
                    slow_index,
                    slow_time,
                    slow_factor,
                )
                own_seconds[v] += min(time, until) - now
                now = time
                if own_position[v] == own_end[v] and now < until:
                    first, size = last_first[master], last_size[master]
                    if now > since:
                        write_row(
                            row_pe,
                            row_numbers,
                            row_times,
                            count,
                            master,
                            own_step[v],
                            first,
                            size,
                            asked[master],
                            own_start[v],
                            now,
                        )
                        count += 1
                    seconds = (prefix[own_end[v]] - prefix[first]) / speed[master]
                    if disturbed:
                        pace[master] = speed[master] * (seconds / own_seconds[v] if seconds > 0.0 else 1.0)
                        seconds = own_seconds[v]
                    busy[master] += seconds
                    finish[master] = now
                    spent[master], waited[master] = seconds, now - asked[master] - seconds
                    reported[master] = False
                    asked[master] = now
                    own_begun[v] = False
                    move_in(times, ranks, begin, width, zero, now)
            elif min(due, attention) < np.inf:
                now = min(due, attention)
            else:
                doing = DONE

        clock[v] = now
        if doing == DONE and (v == 0 or closing > 0):
            # PE 0 acts no more; where the loop was ended, other masters may be amid a chunk.
            closing += 1
            if closing >= v_count:
                break
            v, attention = closing, np.inf
            continue
        if doing == REFILL and v == 0:
            awaiting[0] = True
            move(node_times, node_ranks, zero, now)
            continue
        if doing != ATTENTION:
            if doing == REFILL:
                awaiting[v] = True
                move(node_times, node_ranks, v, now + latency[master])
            if begun < v_count:
                begun += 1
            v = begun if begun < v_count else zero
            attention = np.inf
            continue
        asker = v
        if v == 0:  # the global master serves a node
            asker = node_ranks[1]
            if service_order == LOWEST_RANK:
                asker = due_lowest_rank(node_times, node_ranks, zero, len(node_times), now)
            move(node_times, node_ranks, asker, np.inf)
            if out_learns:
                publish(own_measured, own_sums, out_measured, out_sums, out_weights, asker)
            first = out_position
            if out_code == STATIC:
                first = asker * out_rule[SIZE] if taken[asker] == 0 else n
            got = zero
            if first < n:
                got = min(out_constant, n - first)
                if got == 0:
                    got = recursive_size(
                        out_rule, out_reals, out_weights, out_measured, out_sums, out_step, n - first, asker
                    )
                if got < 1:
                    out_trouble[0], out_trouble[1], out_trouble[2] = out_step, asker, got
                    return -2
                out_position = first + got
                out_step += 1
                if dedicated[0] or own_begun[0]:
                    overhead[0] += min(now + serving[0], until) - now
                now += serving[0]
                clock[0] = now
            else:
                refused += 1
            taken[asker] += 1
            reply_first[asker], reply_size[asker] = first, got
            if asker > 0:
                v = asker
                attention = now + latency[first_pe[asker]]
                continue
        # The reply is there.
        first, got = reply_first[asker], reply_size[asker]
        awaiting[asker] = False
        attention = np.inf
        if got == 0:
            exhausted[asker] = True
            continue
        queue_position[asker], queue_end[asker], queue_step[asker] = first, first + got, 0
        if code == STATIC:
            constant_of[asker] = max(static_size(got, members), min_chunk)
        elif code != SS:
            refill_rule(
                rules[asker], all_reals[asker], code, got, members, min_chunk, parameters, asker, taken[asker]
            )
            constant_of[asker] = constant_size(rules[asker])

    for v in range(v_count):
        master = first_pe[v]
        if own_begun[v]:  # the loop was ended amid the master's chunk
            if until > since:
                write_row(
                    row_pe,
                    row_numbers,
                    row_times,
                    count,
                    master,
                    own_step[v],
                    last_first[master],
                    last_size[master],
                    asked[master],
                    own_start[v],
                    until,
                )
                count += 1
            busy[master] += own_seconds[v]
            finish[master] = until
            asked[master] = until
        ended = v == 0 and refused < v_count
        for pe in range(master + (1 if dedicated[v] else 0), first_pe[v + 1]):
            if told[pe] < 0.0:
                ended = True
                told[pe] = until
                overhead[pe] += until - asked[pe]
        if dedicated[v]:
            # It is done when it has told all others.
            told[master] = until if ended else min(clock[v], until)
            idle[master] = told[master] - overhead[master]
    return count
