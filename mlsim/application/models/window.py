"""The loop's shared window: its lock, and claims of chunks by PEs or, for their nodes, by one PE of each.

A chunk takes two atomics: fetch-and-increment of the step i and, once K_i is computed, fetch-and-add of K_i;
or, where the technique needs what is left, the lock is held from reading that until claiming.
"""

from __future__ import annotations

import numpy as np

from mlsim._jit import inlined, inner_kernel, leaf_kernel
from mlsim.application.event_queue import due_of, move
from mlsim.application.models.levels import publish_node
from mlsim.application.models.lock import next_attempt
from mlsim.application.models.state import Queue, Seat, State
from mlsim.application.techniques.at_work import Technique, note_bad_size, size_from_rest
from mlsim.application.techniques.fixed import begin_of_part
from mlsim.application.techniques.rules import STATIC, straightforward_size

__all__ = ["BAD", "CALCULATES", "NOBODY", "answer_node", "claim", "enter"]

NOBODY = -1
CALCULATES, BAD = -1, -2


@leaf_kernel
def enter(s: State, q: Queue) -> int:
    """Return the rank of who comes to a lock next and can take it; ``NOBODY`` if nobody comes."""
    while True:
        match = s.matches[q.tree + 1]
        rank, time = match.rank, match.time
        if s.costs.polling:
            if q.waiting > 0 and q.invited < 0 and q.free < time:
                drawn, delay = next_attempt(q.key, q.draws, q.waiting, s.costs.retry)
                q.draws += 1
                q.waiting -= 1
                q.invited = s.seats[q.seats + drawn].waiter
                s.seats[q.seats + drawn].waiter = s.seats[q.seats + q.waiting].waiter
                move(s.matches, q.tree, q.width, q.invited, q.free + delay)
                continue
            if rank == q.invited and time < np.inf:
                q.invited = -1
            if time < q.free:
                s.seats[q.seats + q.waiting].waiter = rank
                q.waiting += 1
                move(s.matches, q.tree, q.width, rank, np.inf)
                continue
        return rank if time < np.inf else NOBODY


@inlined
def claim(s: State, q: Queue, t: Technique, seat: Seat, who: int, arrival: float, thinking: float) -> int:
    """Serve an arrival at the window; return the size of the chunk claimed, whose first is ``q.first``.

    0 if nothing is left; ``CALCULATES`` if a claim follows when ``thinking`` (s) have passed; ``BAD`` if a
    technique of the user gave a size below 1.
    """
    q.free = max(arrival, q.free) + s.costs.atomic
    q.first = q.position
    size = 0
    if t.locks:
        if q.first < q.end:
            q.clock = q.free
            size = size_from_rest(t, 0, t.weights, q.step, q.end - q.first, who, q.clock)
            if size < 1:
                note_bad_size(t, q.step, who, size)
                return BAD
            q.free += thinking + s.costs.atomic + s.costs.assignment
            seat.step = q.earlier + q.step
            q.step += 1
    elif seat.claim == 0:
        size = q.constant
        if size == 0:
            size = straightforward_size(t.rules[0], t.reals[0], t.guide, t.weights, q.step, who)
            if size < 1 and q.end > 0:
                note_bad_size(t, q.step, who, size)
                return BAD
        seat.claim = max(size, 1)
        seat.step = q.earlier + (who if t.code == STATIC else q.step)
        q.step += 1
        return CALCULATES
    else:
        q.free += s.costs.assignment
        if t.code == STATIC:
            q.first = begin_of_part(q.begun, q.end, who, seat.claim) if seat.taken == 0 else q.end
        size = max(min(seat.claim, q.end - q.first), 0)
        seat.claim = 0
    q.position = q.first + size
    seat.taken += 1
    return size


@inner_kernel
def answer_node(s: State) -> int:
    """Serve nodes until one has got its answer, ``got``; return which, ``NOBODY`` or ``BAD``."""
    window = s.queues[0]
    while True:
        v = enter(s, window)
        if v == NOBODY:
            return NOBODY
        q = s.queues[1 + v]
        me = s.pes[q.holder]
        publish_node(s, v)
        arrival = due_of(s.matches, window.tree, window.width, v)
        q.got = claim(s, window, s.outer, s.seats[v], v, arrival, me.thinking)
        if q.got == BAD:
            return BAD
        if q.got != CALCULATES:
            return v
        move(s.matches, window.tree, window.width, v, window.free + me.thinking)
