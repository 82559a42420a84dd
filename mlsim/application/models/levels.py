"""Queues of PEs and of nodes: who asks when, refills of a node's queue, and what nodes make known."""

from __future__ import annotations

import numpy as np

from mlsim._jit import inlined, inner_kernel, leaf_kernel
from mlsim.application.event_queue import due_of, move, play
from mlsim.application.models.execution import notify
from mlsim.application.models.state import PE, Queue, State
from mlsim.application.settings import USER_OBJECT
from mlsim.application.techniques.at_work import (
    note_bad_size,
    publish,
    publish_gathered,
    refill_rule,
    size_from_rest,
)
from mlsim.application.techniques.fixed import static_size
from mlsim.application.techniques.rules import SS, STATIC, USERS, constant_size
from mlsim.application.techniques.user import begin_object
from mlsim.application.unavailability import next_asking

__all__ = [
    "ask_first",
    "ask_nodes",
    "back_at",
    "leave",
    "next_request",
    "present_at",
    "publish_node",
    "refill",
    "take",
]


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
