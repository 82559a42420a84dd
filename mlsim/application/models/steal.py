"""Work stealing: every PE has a part of the loop, and who has none left steals half of somebody else's.

Stealing half is Hendler's and Shavit's (2002), and Dinan's et al. (2009). How long an access to a part takes
does not depend on what it finds, so when it is served is known when it arrives.
"""

from __future__ import annotations

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim._jit import borrowed, inner_kernel, kernel, leaf_kernel, shared, zeros
from mlsim.application.event_queue import Records, dtype_of, due_of, move, play
from mlsim.application.models.chunk_execution import WRONG, execute, notify, refill, take
from mlsim.application.models.loop_state import PE, Inputs, Queue, State, close_state, open_state
from mlsim.techniques.fixed import begin_of_part

ASKS, TAKES, DEPARTS, ARRIVES, STEALS, RETURNS = 0, 1, 2, 3, 4, 5


class Thief:
    """What a PE does at its next event, and its round over the nodes.

    ``home``: its node. ``hop``: how many nodes it has asked. ``node``, ``distance`` (s): the one that it
    asks, and how far that is; ``victim``: the PE there. ``first``, ``stolen``: where its loot begins, and how
    many iterations that is.
    """

    doing: int
    home: int
    hop: int
    node: int
    distance: float
    victim: int
    first: int
    stolen: int


THIEF = dtype_of(Thief)


@kernel
def run(inputs: Inputs) -> int:
    """Simulate one loop; return how many chunks have rows, −1 if a technique is wrong."""
    owned = open_state(_one_queue_each(inputs))
    owned_thieves = zeros(len(inputs.speed), THIEF)
    owned_rich, owned_far = zeros(len(inputs.first), np.int64), inputs.latency[inputs.first[:-1]]
    s, thieves, bounds = shared(owned), borrowed(owned_thieves), borrowed(inputs.first)
    rich, far = borrowed(owned_rich), borrowed(owned_far)
    events = s.queues[0]
    _hand_out(s, thieves, bounds, rich)
    while True:
        pe = s.matches[events.tree + 1].rank
        now = due_of(s.matches, events.tree, events.width, pe)
        if now == np.inf:
            break
        following = now
        # An event that leads to another of the same PE at the same moment is followed by that one.
        while following == now:
            following = _act(s, thieves, bounds, rich, far, pe, now)
            if following == WRONG:
                return -1
        move(s.matches, events.tree, events.width, pe, following)
    owned_thieves[0].doing, owned_rich[0], owned_far[0] = ASKS, 0, 0.0  # what was lent must outlive its use
    return close_state(owned.pes, owned.written, inputs.until, inputs.stats)


@inner_kernel
def _one_queue_each(inputs: Inputs) -> Inputs:
    """Return the same loop with a queue for every PE, as if each were a node of its own."""
    return Inputs(
        inputs.prefix,
        inputs.speed,
        inputs.latency,
        np.arange(len(inputs.speed) + 1),
        inputs.near,
        inputs.outer,
        inputs.inner,
        inputs.costs,
        inputs.perturbation,
        inputs.pe_unavailability,
        inputs.until,
        inputs.stats,
        inputs.rows,
    )


@inner_kernel
def _hand_out(s: State, thieves: Records[Thief], bounds: Ints, rich: Ints) -> None:
    """Cut the loop into parts, one a PE, and schedule all first requests at 0."""
    n, p, events = s.costs.iterations, len(s.pes), s.queues[0]
    size = min(max((n + p - 1) // p, s.inner.min_chunk), n)
    for home in range(len(bounds) - 1):
        for pe in range(bounds[home], bounds[home + 1]):
            thieves[pe].home = home
            q = s.queues[1 + pe]
            q.first_pe, q.weights, q.members = bounds[home], bounds[home], bounds[home + 1] - bounds[home]
            first = begin_of_part(0, n, pe, size)
            _own(s, pe, first, min(size, n - first), rich, home)
            s.matches[events.tree + events.width + pe].time = 0.0
    play(s.matches, events.tree, events.width, p)


@leaf_kernel
def _own(s: State, pe: int, first: int, size: int, rich: Ints, home: int) -> None:
    """Set the part of a PE, for which the technique begins anew."""
    s.seats[pe].taken += 1
    if size > 0:
        rich[home] += 1
        rich[len(rich) - 1] += 1
        refill(s, s.queues[1 + pe], s.seats[pe].taken, first, size)


@leaf_kernel
def _act(
    s: State, thieves: Records[Thief], bounds: Ints, rich: Ints, far: Floats, pe: int, now: float
) -> float:
    """Process the next event of a PE; return when the one after it is due, in s.

    ``rich``: how many PEs of each node have something left in their parts; the last one: how many have in
    all, and how many are on their way with what they have stolen. ``far``: one-way time of a message between
    each node and PE 0, in s.
    """
    me, thief, q = s.pes[pe], thieves[pe], s.queues[1 + pe]
    thieving = s.costs.atomic + s.costs.assignment
    if thief.doing == ASKS:
        thief.hop = 0
        thief.doing = TAKES if q.position < q.end else DEPARTS
        return _wait(q, now, _taking(s, me)) if thief.doing == TAKES else now
    if thief.doing == TAKES:
        ready = now + _taking(s, me)
        thief.doing = DEPARTS if q.position == q.end else ASKS
        return ready if thief.doing == DEPARTS else _execute_next(s, me, pe, ready, rich, thief.home)
    if thief.doing == DEPARTS:
        return _depart(s, thief, bounds, rich, far, me, now)
    if thief.doing == ARRIVES:
        if rich[thief.node] == 0:
            thief.hop += 1
            thief.doing = DEPARTS
            return now + s.costs.atomic + thief.distance
        thief.victim = _richest(s, bounds[thief.node], bounds[thief.node + 1], pe)
        thief.doing = STEALS
        return _wait(s.queues[1 + thief.victim], now, thieving)
    if thief.doing == STEALS:
        victim = s.queues[1 + thief.victim]
        left = victim.end - victim.position
        thief.stolen = min(max((left + 1) // 2, s.inner.min_chunk), left)
        victim.end -= thief.stolen
        thief.first = victim.end
        if thief.stolen > 0:
            rich[len(rich) - 1] += 1
            if thief.stolen == left:
                rich[thief.node] -= 1
                rich[len(rich) - 1] -= 1
        thief.doing = RETURNS
        return now + thieving + thief.distance
    _own(s, pe, thief.first, thief.stolen, rich, thief.home)
    if thief.stolen > 0:
        rich[len(rich) - 1] -= 1
    thief.hop += 1
    thief.doing = ASKS if thief.stolen > 0 else DEPARTS
    return now


@leaf_kernel
def _taking(s: State, me: PE) -> float:
    """Return how long a PE's access to its own part takes, in s."""
    return s.costs.atomic + me.calculation + s.costs.assignment


@leaf_kernel
def _wait(q: Queue, now: float, seconds: float) -> float:
    """Queue an access to a part; return when it is served."""
    begin = max(now, q.free)
    q.free = begin + seconds
    return begin


@leaf_kernel
def _execute_next(s: State, me: PE, pe: int, start: float, rich: Ints, home: int) -> float:
    """Execute the next chunk of a PE's own part; return when it asks again."""
    q = s.queues[1 + pe]
    step = q.step
    size = take(s, q, pe)
    if size < 0:
        return WRONG
    if q.position == q.end:
        rich[home] -= 1
        rich[len(rich) - 1] -= 1
    if start >= s.until:
        notify(s, me, start)
        return np.inf
    return execute(s, me, pe, step, q.first, size, start)


@leaf_kernel
def _depart(s: State, thief: Thief, bounds: Ints, rich: Ints, far: Floats, me: PE, now: float) -> float:
    """Send a thief to the next node; return when it arrives, infinity if it has asked all of them."""
    nodes = len(far)
    begin, end = bounds[thief.home], bounds[thief.home + 1]
    if thief.hop == 0 and end - begin == 1:
        thief.hop = 1
    if thief.hop < nodes and rich[len(rich) - 1] == 0:
        now = _ask_in_vain(s, thief, far, s.pes[begin + 1].near if thief.hop == 0 else 0.0, me.latency, now)
        thief.hop = nodes
    if thief.hop == nodes:
        notify(s, me, now)
        return np.inf
    thief.node = (thief.home + thief.hop) % nodes
    if thief.hop == 0:
        thief.distance = s.pes[begin + 1].near
    else:
        thief.distance = max(me.latency, far[thief.node])
    thief.doing = ARRIVES
    return now + thief.distance


@leaf_kernel
def _ask_in_vain(s: State, thief: Thief, far: Floats, near: float, latency: float, now: float) -> float:
    """Return when a thief has asked all nodes that are left, where nothing is left anywhere.

    Then no event can change what it finds. Times are added up one by one, as by the events that this saves.
    """
    nodes, hop, atomic = len(far), thief.hop, s.costs.atomic
    if hop == 0:
        now += near
        now = now + atomic + near
        hop = 1
    node = (thief.home + hop) % nodes
    for _ in range(hop, nodes):
        distance = max(latency, far[node])
        now += distance
        now = now + atomic + distance
        node += 1
        if node == nodes:
            node = 0
    return now


@leaf_kernel
def _richest(s: State, begin: int, end: int, thief: int) -> int:
    """Find who of a node's PEs has most left, but the thief; of equals the one with the lowest rank."""
    found = begin if begin != thief else begin + 1
    for pe in range(found + 1, end):
        q, best = s.queues[1 + pe], s.queues[1 + found]
        if pe != thief and q.end - q.position > best.end - best.position:
            found = pe
    return found
