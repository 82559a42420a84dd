"""A PE executes a chunk: how long that takes, and what is noted of it."""

from __future__ import annotations

import numpy as np

from mlsim._jit import c_function, inner_kernel, leaf_kernel
from mlsim.application.linear_costs import cost_between
from mlsim.application.models.state import PE, Queue, State
from mlsim.application.perturbation import elapsed_time
from mlsim.application.settings import PIECES, UNTIMED
from mlsim.application.techniques.adaptive import timed_length
from mlsim.application.techniques.at_work import learn_chunk
from mlsim.application.techniques.fixed import ceil_div
from mlsim.application.techniques.rules import STATIC, counts_breaks

__all__ = [
    "FAR",
    "NEAR",
    "WRONG",
    "cost_of",
    "execute",
    "keep_row",
    "message",
    "notify",
    "part_length",
    "report",
    "slowed",
]

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
