"""DCA, distributed chunk calculation, and the loop's shared window (Eleliemy 2021, §4.3)."""

import numpy as np

from mlsim._jit import inlined, inner_kernel, kernel, leaf_kernel, shared
from mlsim.execution_models import OF_LOCKS, OF_QUEUES, ModelEntry, ModelProperties
from mlsim.execution_models import chunk_execution as chunks
from mlsim.execution_models.cca import BAD_SIZE, CHOOSE, DONE
from mlsim.execution_models.chunk_execution import FAR, WRONG, message
from mlsim.execution_models.event_queue import due_of, move, stays_first
from mlsim.execution_models.loop_state import Inputs, Queue, Seat, State, close_state, open_state
from mlsim.execution_models.technique_state import Technique, note_bad_size, size_from_rest
from mlsim.techniques.fixed import begin_of_part, random_size
from mlsim.techniques.technique_rules import STATIC_CODES, straightforward_size

NOBODY = -1
CALCULATES, BAD = -1, -2
_STEPS = 1 << 16
_BITS = 1 << 53


@kernel
def next_attempt(key: int, draw: int, waiting: int, interval: float) -> tuple[int, float]:
    """Draw the index of the waiting PE that tries next, and its delay after the release of the lock [s].

    The delay is rounded down to 1/65,536 of the interval, so that mathematical libraries that differ in the
    last digit lead to the same results.
    """
    who = random_size(2 * draw, 1, waiting, key) - 1
    u = (random_size(2 * draw + 1, 1, _BITS, key) - 1) / _BITS
    share = 1.0 - (1.0 - u) ** (1.0 / waiting)
    return who, interval * (int(share * _STEPS) / _STEPS)


@leaf_kernel
def enter(s: State, q: Queue) -> int:
    """Return the next rank to acquire a queue's lock; ``NOBODY`` if no request is scheduled.

    The waiting ranks of a polled lock are in the queue's first seats; each release invites a random one.
    """
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
    """Serve an arrival at the window; return the size of the chunk, which starts at ``q.first``.

    0 if nothing is left; ``CALCULATES`` if the PE claims a chunk after ``thinking`` [s]; ``BAD`` if a
    user-defined technique returned a size below 1.
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
        seat.step = q.earlier + (who if t.code in STATIC_CODES else q.step)
        q.step += 1
        return CALCULATES
    else:
        q.free += s.costs.assignment
        if t.code in STATIC_CODES:
            q.first = begin_of_part(q.begun, q.end, who, seat.claim) if seat.taken == 0 else q.end
        size = max(min(seat.claim, q.end - q.first), 0)
        seat.claim = 0
    q.position = q.first + size
    seat.taken += 1
    return size


@inner_kernel
def answer_node(s: State) -> int:
    """Serve nodes until one has its answer in ``got``; return that node, ``NOBODY`` or ``BAD``."""
    window = s.queues[0]
    while True:
        v = enter(s, window)
        if v == NOBODY:
            return NOBODY
        q = s.queues[1 + v]
        me = s.pes[q.holder]
        chunks.publish_node(s, v)
        arrival = due_of(s.matches, window.tree, window.width, v)
        q.got = claim(s, window, s.outer, s.seats[v], v, arrival, me.thinking)
        if q.got == BAD:
            return BAD
        if q.got != CALCULATES:
            return v
        move(s.matches, window.tree, window.width, v, window.free + me.thinking)


_FEW = 64
"""Up to this width of the tree a PE often claims before the next arrival: a test is faster than queueing."""
_CHOOSES = -2.0  # in place of a time: a technique must be selected before the PE is served


@kernel
def run(inputs: Inputs) -> int:
    """Simulate one loop; return the number of chunk rows, −1 if the technique is wrong."""
    owned = open_state(inputs)
    s = shared(owned)
    chunks.ask_first(s, s.queues[0])
    if _follow(s) == BAD_SIZE:
        return -1
    return close_state(owned.pes, owned.written, inputs.until, inputs.stats)


@kernel
def resume(owned: State) -> int:
    """Simulate up to the next selection, ``CHOOSE``, or to the end, ``DONE`` or ``BAD_SIZE``."""
    s = shared(owned)
    return _follow(s)


@inner_kernel
def _follow(s: State) -> int:
    """Serve the window up to the end, ``DONE`` or ``BAD_SIZE``, or to the next selection, ``CHOOSE``."""
    window = s.queues[0]
    while True:
        pe = enter(s, window)
        if pe == NOBODY:
            return DONE
        arrival = s.matches[window.tree + 1].time
        following = arrival
        # Events of one PE at the same time are processed one after the other, before those of other PEs.
        while following == arrival or _claims_next(s, pe, following):
            arrival = following
            following = _serve(s, pe, arrival)
            if following == WRONG:
                return BAD_SIZE
            if following == _CHOOSES:
                move(s.matches, window.tree, window.width, pe, arrival)
                return CHOOSE
        move(s.matches, window.tree, window.width, pe, following)


@inlined
def _claims_next(s: State, pe: int, following: float) -> bool:
    """Whether a PE's claim is the next event of all; False if there are many PEs."""
    window = s.queues[0]
    if window.width > _FEW or s.seats[np.uint64(pe)].claim == 0 or s.costs.polling:
        return False
    return stays_first(s.matches, window.tree, window.width, pe, following)


@inlined
def _serve(s: State, pe: int, arrival: float) -> float:
    """Serve an atomic of a PE; return the arrival of its next one [s]."""
    place = np.uint64(pe)  # unsigned, so that compiled code does not test for negative indices
    window, me, seat = s.queues[0], s.pes[place], s.seats[place]
    if chunks.report(s, window, me, pe):
        return _CHOOSES
    size = claim(s, window, s.outer, seat, pe, arrival, me.thinking)
    if size == BAD:
        return WRONG
    if size == CALCULATES:
        return window.free + me.thinking
    start = window.free + message(me, FAR)
    if size == 0 or start >= s.until:
        chunks.notify(s, me, start)
        return np.inf
    end = chunks.execute(s, me, pe, seat.step, window.first, size, start)
    return chunks.next_request(s, me, pe, end) + me.to_far


MODEL = ModelEntry(
    name="dca",
    meaning="distributed: a PE fetches the step at PE 0, calculates its own chunk, and claims it at PE 0; "
    "AF, AWF-B to AWF-E hold the lock meanwhile",
    reference="Eleliemy 2021, §4.3",
    properties=ModelProperties(
        releases=True, hands_out_first=True, asking="window", reads=(*OF_LOCKS, *OF_QUEUES)
    ),
    run=run,
    resume=resume,
    aliases=("distributed",),
)
