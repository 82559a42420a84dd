"""A PE executes a chunk: how long that takes, what is noted of it, and when the PE asks again."""

from __future__ import annotations

import numpy as np

from mlsim._jit import inlined
from mlsim.application.absence import next_asking
from mlsim.application.models.state import PE, Queue, State
from mlsim.application.models.technique import learn_chunk
from mlsim.application.perturbation import elapsed_time

__all__ = ["FAR", "NEAR", "execute", "keep_row", "message", "next_request", "notify", "report"]

NEAR, FAR = False, True


@inlined
def message(me: PE, far: bool) -> float:
    """Return how long a message takes, in s: between a PE and its node's first one, or PE 0 (``FAR``)."""
    return float(me.latency if far else me.near)


@inlined
def execute(s: State, me: PE, pe: int, step: int, first: int, size: int, start: float) -> float:
    """Execute a chunk; return when it ends, infinity if the loop is ended before."""
    seconds = (s.prefix[first + size] - s.prefix[first]) / me.speed
    if len(s.perturbation.slow_time) > 0:
        work = seconds
        slow = s.perturbation
        seconds = elapsed_time(
            work, start, pe, slow.slow_of_pe, slow.slow_index, slow.slow_time, slow.slow_factor
        )
        me.pace = me.speed * (work / seconds) if work > 0.0 else me.speed
    end = start + seconds
    following: float = end
    if end >= s.until:
        end, seconds, following = s.until, s.until - start, np.inf
    keep_row(s, pe, step, first, size, me.asked, start, end)
    me.chunks += 1
    me.last_first, me.last_size, me.last_start = first, size, start
    me.busy += seconds
    me.overhead += start - me.since
    me.finish = end
    me.spent, me.waited, me.took = seconds, start - me.since, end - me.since
    me.unreported = 1
    me.asked, me.since = end, end
    return following


@inlined
def keep_row(
    s: State, pe: int, step: int, first: int, size: int, requested: float, start: float, end: float
) -> None:
    """Count a chunk's row, and write it if rows are kept."""
    rows = s.rows
    if end > rows.since:
        if len(rows.pe) > 0:
            row = s.written[0]
            rows.pe[row] = pe
            rows.numbers[0, row], rows.numbers[1, row], rows.numbers[2, row] = step, first, size
            rows.times[0, row], rows.times[1, row], rows.times[2, row] = requested, start, end
        s.written[0] += 1


@inlined
def next_request(s: State, me: PE, pe: int, end: float) -> float:
    """Return when a PE whose chunk has ended asks again, in s; infinity: never."""
    if len(s.absence.begin) == 0:
        return end
    asked = next_asking(me.finish, pe, s.absence.entries, s.absence.begin, s.absence.end)
    if asked >= s.until or end == np.inf:
        me.told = me.finish
        return np.inf
    me.asked, me.since = asked, asked
    return asked


@inlined
def notify(s: State, me: PE, at: float) -> None:
    """Let a PE learn that no work is left."""
    me.told = min(at, s.until)
    me.overhead += me.told - me.since


@inlined
def report(s: State, q: Queue, number: int, me: PE, who: int) -> None:
    """Learn from the last chunk of a PE that comes to a queue: for its technique, and the loop's."""
    if me.unreported == 0:
        return
    me.unreported = 0
    outer, inner = s.outer, s.inner
    if number == 0:
        if outer.learns:
            seconds = me.took if outer.whole else me.spent
            learn_chunk(
                outer, outer.measured[0], outer.sums[0], outer.weights, who, me, s.prefix, 1.0, seconds
            )
        return
    v = number - 1
    if inner.learns:
        seconds = me.spent + (me.waited if inner.whole else 0.0)
        weights = inner.weights[q.weights : q.weights + q.members - q.masters]
        learn_chunk(inner, inner.measured[v], inner.sums[v], weights, who, me, s.prefix, 1.0, seconds)
    if outer.learns:
        seconds = me.spent + (me.waited if outer.whole else 0.0)
        learn_chunk(
            outer,
            outer.own_measured[0],
            outer.own_sums[0],
            outer.weights,
            v,
            me,
            s.prefix,
            float(q.members - q.masters),
            seconds,
        )
