"""Execution of chunks, the queues of PEs and nodes, and stops at which a technique is selected."""

import numpy as np

from mlsim._jit import c_function, inlined, inner_kernel, kernel, leaf_kernel, shared
from mlsim._runtime.arrays import Floats
from mlsim.execution_models import technique_state as techniques
from mlsim.execution_models.event_queue import move, play
from mlsim.execution_models.loop_state import (
    PE,
    PEStats,
    Queue,
    State,
    close_state,
    elapsed_time,
    work_between,
)
from mlsim.techniques.fixed import begin_of_part, ceil_div, static_size
from mlsim.techniques.pe_statistics import cost_between, timed_length
from mlsim.techniques.rule_layout import PIECES, UNTIMED, USER_OBJECT, USERS, RuleSettings
from mlsim.techniques.technique_rules import (
    CYCLIC,
    SS,
    STATIC,
    STATIC_CODES,
    begin_object,
    constant_size,
    counts_breaks,
)

_flush_rows = c_function("int32", "int64")  # calls ``Rows.full`` with the number of rows
NEAR, FAR = False, True
WRONG = -1.0  # in place of a time: a user-defined technique returned a size below 1


@leaf_kernel
def message(me: PE, far: bool) -> float:
    """Return the one-way message time [s] between a PE and its node's first PE, or PE 0 (``FAR``)."""
    return float(me.latency if far else me.near)


@leaf_kernel
def slowed(s: State, seconds: float, start: float, pe: int) -> float:
    """Return the time under perturbation, from ``start`` on, of ``seconds`` at the PE's nominal speed."""
    if len(s.perturbation.slow_time) == 0:
        return seconds
    return elapsed_time(seconds, start, pe, s.perturbation)


@leaf_kernel
def executed(s: State, start: float, end: float, pe: int) -> float:
    """Return the work [s at the PE's nominal speed] done under perturbation between two times [s]."""
    if len(s.perturbation.slow_time) == 0:
        return end - start
    return work_between(start, end, pe, s.perturbation)


@leaf_kernel
def cost_of(s: State, first: int, end: int) -> float:
    """Return the cost of the iterations ``first`` … ``end - 1``, in s at speed 1."""
    if s.costs.block != 1:
        return _cost_of_blocks(s, first, end)
    # Unsigned, so that compiled code does not test for negative indices.
    return float(s.prefix[np.uint64(end)] - s.prefix[np.uint64(first)])


@inner_kernel
def _cost_of_blocks(s: State, first: int, end: int) -> float:
    """Return the same for linear costs and for costs per block of iterations."""
    if s.costs.block == 0:
        return cost_between(s.prefix, first, end)
    return _sum_until(s, end) - _sum_until(s, first)


@inner_kernel
def _sum_until(s: State, end: int) -> float:
    """Return the cost of the iterations before ``end``, where iterations of a block have equal costs."""
    block = s.costs.block
    number = end // block
    inside = end - number * block
    if inside == 0:
        return float(s.prefix[number])
    size = min(block, s.costs.iterations - number * block)
    return float(s.prefix[number] + (s.prefix[number + 1] - s.prefix[number]) * inside / size)


@leaf_kernel
def execute(s: State, me: PE, pe: int, step: int, first: int, size: int, start: float) -> float:
    """Execute a chunk; return its end [s], infinity if the loop is aborted before."""
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
    """Return the iterations executed at a time in a chunk (size >= 1): the length of its timed parts."""
    pieces = int(s.outer.parameters[PIECES])
    if pieces == UNTIMED:
        pieces = int(s.inner.parameters[PIECES])
    return size if pieces == UNTIMED else timed_length(size, pieces)


@leaf_kernel
def keep_row(s: State, me: PE, pe: int, step: int, end: float) -> None:
    """Count the row of a PE's last chunk, and store it if rows are kept."""
    rows = s.rows
    s.written[2] += me.last_size
    if end > rows.since:
        if len(rows.pe) > 0:
            row = s.written[1]
            if row == len(rows.pe):
                _flush_rows(rows.full, row)
                row = 0
            s.written[1] = row + 1
            rows.pe[row] = pe
            numbers, times = rows.numbers, rows.times
            numbers[0, row], numbers[1, row], numbers[2, row] = step, me.last_first, me.last_size
            times[0, row], times[1, row], times[2, row] = me.asked, me.last_start, end
        s.written[0] += 1


@leaf_kernel
def notify(s: State, me: PE, at: float) -> None:
    """Record the time at which a PE is notified that no work is left."""
    me.notified_at = min(at, s.until)
    me.overhead += me.notified_at - me.since


@leaf_kernel
def report(s: State, q: Queue, me: PE, who: int) -> bool:
    """Learn from the last chunk of a PE that arrives at a queue, for the queue's and the loop's technique.

    Return whether a technique must be selected for the rest of the loop before the PE is served.
    """
    if s.learns and me.unreported != 0:
        return _learn(s, q, me, who)
    return False


@inner_kernel
def _learn(s: State, q: Queue, me: PE, who: int) -> bool:
    me.unreported = 0
    outer, inner, each = s.outer, s.inner, s.costs.piece_time
    measured, sums, share = outer.measured[0], outer.sums[0], 1.0
    seconds = me.took if outer.whole else me.spent
    if counts_breaks(outer.code):
        seconds = me.finish - me.last_start
    if q.number > 0:
        workers, v = q.members - q.masters, q.number - 1
        if inner.learns:
            seconds = me.spent + (me.waited if inner.whole else 0.0)
            weights = inner.weights[q.weights : q.weights + workers]
            known = techniques.Learned(inner.measured[v], inner.sums[v], weights, inner.rules[v], False)
            techniques.learn_chunk(inner, known, who, me, s.prefix, each, 1.0, seconds)
        measured, sums, share, who = outer.own_measured[0], outer.own_sums[0], float(workers), v
        seconds = me.spent + (me.waited if outer.whole else 0.0)
    if outer.learns:
        known = techniques.Learned(measured, sums, outer.weights, outer.rules[0], q.number > 0)
        techniques.learn_chunk(outer, known, who, me, s.prefix, each, share, seconds)
    if s.costs.choose_after == 0 or outer.code in STATIC_CODES:  # all chunks are assigned
        return False
    q.executed += me.last_size
    return bool(q.executed >= q.choose_at and q.position < q.end)


@inner_kernel
def ask_first(s: State, q: Queue) -> None:
    """Schedule the first requests of the PEs of a queue: when they have started, or when their node returns.

    With a static technique absence does not count, as no other PE executes their chunks.
    """
    q.clock = s.pes[q.first_pe].asked
    for rank in range(q.members):
        pe = q.first_pe + rank
        me = s.pes[pe]
        begin = asked = me.asked
        if len(s.pe_unavailability.begin) > 0 and s.outer.code not in STATIC_CODES:
            asked = leave(s, me, begin, present_at(s, pe, begin))
        pushed = s.costs.pushed and asked == begin
        s.matches[q.tree + q.width + rank].time = 0.0 if pushed else asked + me.to_near
    play(s.matches, q.tree, q.width, q.members)
    if q.masters > 0:
        move(s.matches, q.tree, q.width, 0, np.inf)


@inner_kernel
def ask_nodes(s: State, delay: float) -> None:
    """Schedule the nodes' first requests to the loop's queue, ``delay`` [s] late; infinity: not yet.

    The PE that arrives first at its node's queue requests.
    """
    loop = s.queues[0]
    for v in range(loop.members):
        q = s.queues[1 + v]
        first = s.matches[q.tree + 1]
        me = s.pes[q.first_pe + first.rank]
        q.holder = q.first_pe + first.rank
        s.matches[loop.tree + loop.width + v].time = first.time + delay + me.near + me.latency
    play(s.matches, loop.tree, loop.width, loop.members)


@leaf_kernel
def back_at(s: State, q: Queue, now: float) -> float:
    """Return the time [s] at which a node's PEs may request a chunk for it: now, or when the node returns.

    Infinity (never) if the loop's queue is exhausted. A node always requests its first chunk.
    """
    if q.exhausted != 0:
        return np.inf
    if len(s.pe_unavailability.begin) == 0 or s.seats[q.number - 1].taken == 0:
        return now
    return present_at(s, q.first_pe, now)


@leaf_kernel
def present_at(s: State, pe: int, now: float) -> float:
    """Return the first time [s] from ``now`` at which a PE's node is available; infinity: never again."""
    away = s.pe_unavailability
    for k in range(away.entries[pe], away.entries[pe + 1]):
        if away.begin[k] <= now < away.end[k]:
            now = away.end[k]
    return now


@leaf_kernel
def next_of_cycle(q: Queue, first: int) -> tuple[int, int]:
    """Return the begin and the size of a PE's chunk after the one at ``first`` under CYCLIC; 0: none."""
    number = (first - q.begun) // q.constant + q.members - q.masters
    begin = begin_of_part(q.begun, q.end, number, q.constant)
    return begin, min(q.constant, q.end - begin)


@inner_kernel
def _execute_cycle(s: State, me: PE, pe: int, end: float) -> float:
    """Execute a PE's chunks after its first one under CYCLIC; return their end [s], infinity if aborted."""
    q = s.queues[0]
    first, size = next_of_cycle(q, me.last_first)
    while size > 0 and end < np.inf:
        end = execute(s, me, pe, q.earlier + (first - q.begun) // q.constant, first, size, end)
        first, size = next_of_cycle(q, first)
    return end


@leaf_kernel
def next_request(s: State, me: PE, pe: int, end: float) -> float:
    """Return the time [s] of the next request of a PE whose chunk has ended; infinity: never.

    Under models with two levels it always asks its node's queue, where it may be sent away. Under CYCLIC a PE
    first executes its other chunks, as no other PE does.
    """
    if s.outer.code == CYCLIC and end < s.until:
        end = _execute_cycle(s, me, pe, end)
    if len(s.pe_unavailability.begin) == 0 or len(s.queues) > 1:
        return end
    return leave(s, me, me.finish, max(end, present_at(s, pe, me.finish)))


@leaf_kernel
def leave(s: State, me: PE, at: float, back: float) -> float:
    """Notify a PE to leave until its node is ``back``; return its next request [s], infinity: never."""
    notify(s, me, at)
    asked = max(at, back)
    if asked >= s.until:
        return np.inf
    me.notified_at = -1.0  # not yet
    me.asked, me.since = asked, asked
    return asked


@inlined
def publish_node(s: State, v: int) -> None:
    """Publish a node's measurements at the loop's queue."""
    t = s.outer
    if t.code == USER_OBJECT:
        techniques.publish_gathered(t, v)
    elif t.learns:
        techniques.publish(t.own_measured[0], t.own_sums[0], t.measured[0], t.sums[0], t.weights, v)


@inlined
def refill(s: State, q: Queue, number: int, first: int, got: int) -> None:
    """Fill a node's queue with its ``number``-th chunk."""
    t, v = s.inner, q.number - 1
    workers = q.members - q.masters
    q.position, q.end, q.step = first, first + got, 0
    if t.code == STATIC:
        q.constant = max(static_size(got, workers), t.min_chunk)
    elif t.code != SS:
        techniques.refill_rule(
            t.rules[v], t.reals[v], t.code, got, workers, t.min_chunk, t.parameters, v, number
        )
        q.constant = constant_size(t.rules[v])
        if t.code == USER_OBJECT:
            begin_object(t.rules[v, USERS], t.sums[v], got, workers)


@inlined
def take(s: State, q: Queue, pe: int) -> int:
    """Take a PE's chunk from its node's non-empty queue; return its size, −1 if the technique is wrong."""
    t = s.inner
    q.first = q.position
    size = min(q.constant, q.end - q.first)
    if size == 0:
        weights = t.weights[q.weights : q.weights + q.members - q.masters]
        who = pe - q.first_pe - q.masters
        size = techniques.size_from_rest(t, q.number - 1, weights, q.step, q.end - q.first, who, q.clock)
        if size < 1:
            techniques.note_bad_size(t, q.step, pe, size)
            return -1
    q.position += size
    q.step += 1
    return size


@kernel
def begin(owned: State, asks: Floats) -> None:
    """Schedule the first requests to the loop's queue, at the times ``asks`` [s] per PE if given."""
    s = shared(owned)
    q = s.queues[0]
    if len(asks) == 0:
        ask_first(s, q)
        return
    for pe in range(q.members):
        me = s.pes[pe]
        asked = max(asks[pe], me.asked)
        me.asked, me.since = asked, asked
        s.matches[q.tree + q.width + pe].time = asked + me.to_near
    play(s.matches, q.tree, q.width, q.members)
    if q.masters > 0:
        move(s.matches, q.tree, q.width, 0, np.inf)


@kernel
def end(owned: State, stats: PEStats) -> int:
    """Fill the results of a loop that has ended; return the number of chunk rows."""
    return close_state(owned.pes, owned.written, owned.until, stats)


@kernel
def switch(s: State, settings: RuleSettings) -> State:
    """Return the state with another technique, which schedules the remaining iterations as a new loop."""
    q = s.queues[0]
    outer = techniques.open_technique(settings, q.end - q.position, 1, q.members - q.masters, False)
    q.begun, q.earlier, q.step = q.position, q.earlier + q.step, 0
    q.constant = constant_size(outer.rules[0])
    # A PE with an unclaimed size of the previous technique has to calculate a new one.
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
