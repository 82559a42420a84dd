"""Execution of a chunk by a PE, queues of PEs and nodes, and stops for a choice."""

from __future__ import annotations

import numpy as np

from mlsim._arrays import Floats
from mlsim._jit import c_function, inlined, inner_kernel, kernel, leaf_kernel, shared
from mlsim.application.event_queue import due_of, move, play
from mlsim.application.models.loop_state import PE, PEStats, Queue, State, close_state
from mlsim.application.pe_speeds import elapsed_time, next_asking
from mlsim.application.technique_state import (
    learn_chunk,
    note_bad_size,
    open_technique,
    publish,
    publish_gathered,
    refill_rule,
    size_from_rest,
)
from mlsim.techniques.fixed import ceil_div, static_size
from mlsim.techniques.pe_statistics import timed_length
from mlsim.techniques.prefix_costs import cost_between
from mlsim.techniques.technique_entry import (
    PIECES,
    UNTIMED,
    USER_OBJECT,
    USERS,
    RuleSettings,
)
from mlsim.techniques.technique_rules import (
    SS,
    STATIC,
    constant_size,
    counts_breaks,
)
from mlsim.techniques.user_calls import begin_object

hand_over = c_function("int32", "int64")
"""Call the function that takes full blocks of rows."""
NEAR, FAR = False, True
WRONG = -1.0
"""In place of a time: a technique of the user gave a size below 1."""


@leaf_kernel
def message(me: PE, far: bool) -> float:
    """Return how long a message takes, in s: between a PE and its node's first one, or PE 0 (``FAR``)."""
    return float(me.latency if far else me.near)


@leaf_kernel
def slowed(s: State, seconds: float, start: float, pe: int) -> float:
    """Return how long a PE needs from ``start`` for what takes ``seconds`` at its own speed."""
    slow = s.perturbation
    if len(slow.slow_time) == 0:
        return seconds
    return elapsed_time(
        seconds, start, pe, slow.slow_of_pe, slow.slow_index, slow.slow_time, slow.slow_factor
    )


@leaf_kernel
def cost_of(s: State, first: int, end: int) -> float:
    """Return what the iterations from ``first`` to before ``end`` cost, in s at speed 1."""
    if s.costs.block != 1:
        return _cost_of_blocks(s, first, end)
    # Unsigned, so that compiled code need not ask whether an index counts from the end.
    return float(s.prefix[np.uint64(end)] - s.prefix[np.uint64(first)])


@inner_kernel
def _cost_of_blocks(s: State, first: int, end: int) -> float:
    """Return the same where the costs are linear, or blocks of iterations share an entry."""
    if s.costs.block == 0:
        return cost_between(s.prefix, first, end)
    return _sum_until(s, end) - _sum_until(s, first)


@inner_kernel
def _sum_until(s: State, end: int) -> float:
    """Return what the iterations before ``end`` cost, where those of a block cost the same."""
    block = s.costs.block
    number = end // block
    inside = end - number * block
    if inside == 0:
        return float(s.prefix[number])
    size = min(block, s.costs.iterations - number * block)
    return float(s.prefix[number] + (s.prefix[number + 1] - s.prefix[number]) * inside / size)


@leaf_kernel
def execute(s: State, me: PE, pe: int, step: int, first: int, size: int, start: float) -> float:
    """Execute a chunk; return when it ends, infinity if the loop is ended before."""
    cost = cost_of(s, first, first + size)
    if s.costs.piece_time > 0.0:
        me.last_part = part_length(s, size)
        cost += s.costs.piece_time * ceil_div(size, me.last_part)
    work = cost / me.speed
    seconds = slowed(s, work, start, pe)
    took = seconds
    end = start + seconds
    following: float = end
    if end >= s.until:
        end, seconds, following = s.until, s.until - start, np.inf
    me.last_first, me.last_size, me.last_start = first, size, start
    keep_row(s, me, pe, step, end)
    me.chunks += 1
    me.busy += seconds
    me.overhead += start - me.since
    me.finish = end
    if s.learns:
        me.pace = me.speed if took == work else me.speed * (work / took)
        me.spent, me.waited, me.took = seconds, start - me.since, end - me.since
        me.last_step, me.unreported = step, 1
    me.asked, me.since = end, end
    return following


@leaf_kernel
def part_length(s: State, size: int) -> int:
    """Return how many iterations of a chunk (size >= 1) are executed at a time: as many as are timed."""
    pieces = int(s.outer.parameters[PIECES])
    if pieces == UNTIMED:
        pieces = int(s.inner.parameters[PIECES])
    return size if pieces == UNTIMED else timed_length(size, pieces)


@leaf_kernel
def keep_row(s: State, me: PE, pe: int, step: int, end: float) -> None:
    """Count the row of a PE's last chunk, and write it if rows are kept."""
    rows = s.rows
    s.written[2] += me.last_size
    if end > rows.since:
        if len(rows.pe) > 0:
            row = s.written[1]
            if row == len(rows.pe):
                hand_over(rows.full, row)
                row = 0
            s.written[1] = row + 1
            rows.pe[row] = pe
            numbers, times = rows.numbers, rows.times
            numbers[0, row], numbers[1, row], numbers[2, row] = step, me.last_first, me.last_size
            times[0, row], times[1, row], times[2, row] = me.asked, me.last_start, end
        s.written[0] += 1


@leaf_kernel
def notify(s: State, me: PE, at: float) -> None:
    """Note when a PE is notified that no work is left."""
    me.notified_at = min(at, s.until)
    me.overhead += me.notified_at - me.since


@leaf_kernel
def report(s: State, q: Queue, me: PE, who: int) -> bool:
    """Learn from the last chunk of a PE that comes to a queue, for its technique, and the loop's.

    Return whether a technique is to be chosen for the rest of the loop, before the PE is served.
    """
    if s.learns and me.unreported != 0:
        return _learn(s, q, me, who)
    return False


@inner_kernel
def _learn(s: State, q: Queue, me: PE, who: int) -> bool:
    me.unreported = 0
    outer, inner = s.outer, s.inner
    measured, sums, share = outer.measured[0], outer.sums[0], 1.0
    seconds = me.took if outer.whole else me.spent
    if counts_breaks(outer.code):
        seconds = me.finish - me.last_start
    if q.number > 0:
        workers, v = q.members - q.masters, q.number - 1
        if inner.learns:
            seconds = me.spent + (me.waited if inner.whole else 0.0)
            weights = inner.weights[q.weights : q.weights + workers]
            learn_chunk(
                inner,
                inner.measured[v],
                inner.sums[v],
                weights,
                who,
                me,
                s.prefix,
                s.costs.piece_time,
                1.0,
                seconds,
                v,
                False,
            )
        measured, sums, share, who = outer.own_measured[0], outer.own_sums[0], float(workers), v
        seconds = me.spent + (me.waited if outer.whole else 0.0)
    if outer.learns:
        gathers = q.number > 0
        each = s.costs.piece_time
        learn_chunk(outer, measured, sums, outer.weights, who, me, s.prefix, each, share, seconds, 0, gathers)
    if s.costs.choose_after == 0 or outer.code == STATIC:  # whose chunks are all assigned
        return False
    q.executed += me.last_size
    return bool(q.executed >= q.choose_at and q.position < q.end)


@inner_kernel
def ask_first(s: State, q: Queue) -> None:
    """Schedule the first requests of the PEs of a queue: at 0, or when their node is back.

    Under STATIC at 0 in any case: nobody else executes what is theirs. A master that pushes first chunks
    waits for no request.
    """
    for rank in range(q.members):
        pe = q.first_pe + rank
        me, asked = s.pes[pe], 0.0
        if len(s.pe_unavailability.begin) > 0 and s.outer.code != STATIC:
            asked = leave(s, me, 0.0, present_at(s, pe, 0.0))
        pushed = s.costs.pushed and asked == 0.0
        s.matches[q.tree + q.width + rank].time = asked + (0.0 if pushed else me.near)
    play(s.matches, q.tree, q.width, q.members)
    if q.masters > 0:
        move(s.matches, q.tree, q.width, 0, np.inf)


@inner_kernel
def ask_nodes(s: State, delay: float) -> None:
    """Schedule the first requests of first PEs to the loop's queue; ``delay`` (s) infinite: later."""
    loop = s.queues[0]
    for v in range(loop.members):
        q = s.queues[1 + v]
        asked = due_of(s.matches, q.tree, q.width, 0)
        s.matches[loop.tree + loop.width + v].time = asked + delay + s.pes[q.first_pe].latency
    play(s.matches, loop.tree, loop.width, loop.members)


@leaf_kernel
def back_at(s: State, q: Queue, now: float) -> float:
    """Return when a node's PEs may request a chunk for it: now, when the node is back, or never, in s.

    Never if nothing is left there. The first chunk of a node is requested in any case.
    """
    if q.exhausted != 0:
        return np.inf
    if len(s.pe_unavailability.begin) == 0 or s.seats[q.number - 1].taken == 0:
        return now
    return present_at(s, q.first_pe, now)


@leaf_kernel
def present_at(s: State, pe: int, now: float) -> float:
    """Return when a PE whose node may be away is there, in s."""
    away = s.pe_unavailability
    return next_asking(now, pe, away.entries, away.begin, away.end)


@leaf_kernel
def next_request(s: State, me: PE, pe: int, end: float) -> float:
    """Return when a PE whose chunk has ended asks again, in s; infinity: never.

    Under models of two levels it asks its node's queue in any case, and may find that it leaves.
    """
    if len(s.pe_unavailability.begin) == 0 or len(s.queues) > 1:
        return end
    return leave(s, me, me.finish, max(end, present_at(s, pe, me.finish)))


@leaf_kernel
def leave(s: State, me: PE, at: float, back: float) -> float:
    """Notify a PE to leave until its node is ``back``; return when it asks again, in s; infinity: never."""
    notify(s, me, at)
    asked = max(at, back)
    if asked >= s.until:
        return np.inf
    me.notified_at = -1.0  # not yet
    me.asked, me.since = asked, asked
    return asked


@inlined
def publish_node(s: State, v: int) -> None:
    """Publish at the loop's queue what a node has measured until now."""
    t = s.outer
    if t.code == USER_OBJECT:
        publish_gathered(t, v)
    elif t.learns:
        publish(t.own_measured[0], t.own_sums[0], t.measured[0], t.sums[0], t.weights, v)


@inlined
def refill(s: State, q: Queue, number: int, first: int, got: int) -> None:
    """Fill a node's queue with its ``number``-th chunk."""
    t, v = s.inner, q.number - 1
    workers = q.members - q.masters
    q.position, q.end, q.step = first, first + got, 0
    if t.code == STATIC:
        q.constant = max(static_size(got, workers), t.min_chunk)
    elif t.code != SS:
        refill_rule(t.rules[v], t.reals[v], t.code, got, workers, t.min_chunk, t.parameters, v, number)
        q.constant = constant_size(t.rules[v])
        if t.code == USER_OBJECT:
            begin_object(t.rules[v, USERS], t.sums[v], got, workers)


@inlined
def take(s: State, q: Queue, pe: int) -> int:
    """Return the size of a PE's chunk of its node's queue, which is not empty; −1: a technique is wrong."""
    t = s.inner
    q.first = q.position
    size = min(q.constant, q.end - q.first)
    if size == 0:
        weights = t.weights[q.weights : q.weights + q.members - q.masters]
        who = pe - q.first_pe - q.masters
        size = size_from_rest(t, q.number - 1, weights, q.step, q.end - q.first, who, q.clock)
        if size < 1:
            note_bad_size(t, q.step, pe, size)
            return -1
    q.position += size
    q.step += 1
    return size


@kernel
def begin(owned: State, asks: Floats) -> None:
    """Schedule the first requests to the loop's queue: of each PE at a time of ``asks`` (s), if there are."""
    s = shared(owned)
    q = s.queues[0]
    if len(asks) == 0:
        ask_first(s, q)
        return
    for pe in range(q.members):
        me = s.pes[pe]
        me.asked, me.since = asks[pe], asks[pe]
        s.matches[q.tree + q.width + pe].time = asks[pe] + me.near
    play(s.matches, q.tree, q.width, q.members)
    if q.masters > 0:
        move(s.matches, q.tree, q.width, 0, np.inf)


@kernel
def end(owned: State, stats: PEStats) -> int:
    """Fill the results of a loop that has come to its end; return how many chunks have rows."""
    return close_state(owned.pes, owned.written, owned.until, stats)


@kernel
def switch(s: State, settings: RuleSettings) -> State:
    """Return the state with another technique for what is left, as for a loop of its own.

    Who has a size of the technique before, but has not claimed it yet, will find that and begin anew.
    """
    q = s.queues[0]
    outer = open_technique(settings, q.end - q.position, 1, q.members - q.masters, False)
    q.begun, q.earlier, q.step = q.position, q.earlier + q.step, 0
    q.constant = constant_size(outer.rules[0])
    for rank in range(q.members):
        seat = s.seats[q.seats + rank]
        seat.claim, seat.taken = 0, 0
    return State(
        s.prefix,
        s.pes,
        s.queues,
        s.seats,
        s.matches,
        outer,
        outer,
        s.costs,
        s.perturbation,
        s.pe_unavailability,
        s.until,
        s.rows,
        s.written,
        s.before,
        True,
    )
