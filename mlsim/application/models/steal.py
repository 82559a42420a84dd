"""Work stealing: every PE has a part of the loop; a PE without iterations steals half of another PE's part.

Half is stolen as in Hendler and Shavit (2002) and Dinan et al. (2009). The duration of an access to a part
does not depend on the part, so an arrival can be scheduled at once for the time at which it is served.
"""

from __future__ import annotations

import numpy as np

from mlsim._jit import borrowed, inner_kernel, kernel, leaf_kernel, shared, zeros
from mlsim._runtime.arrays import Floats, Ints
from mlsim.application.event_queue import Records, dtype_of, due_of, move, play
from mlsim.application.models.chunk_execution import WRONG, execute, notify, refill, take
from mlsim.application.models.loop_state import PE, Inputs, Queue, State, close_state, open_state
from mlsim.techniques.fixed import begin_of_part

ASKS, TAKES, DEPARTS, ARRIVES, STEALS, RETURNS = range(6)


class Thief:
    """A PE's next action, and its round over the nodes."""

    action: int
    home: int  # its node
    hop: int  # nodes visited in this round
    node: int  # the node that it visits
    distance: float  # one-way message time to that node, in s
    victim: int  # the PE there
    first: int  # first iteration stolen
    stolen: int  # number of iterations stolen


THIEF = dtype_of(Thief)


@kernel
def run(inputs: Inputs) -> int:
    """Simulate one loop; return the number of chunk rows, −1 if the technique is wrong."""
    owned = open_state(_one_queue_each(inputs))
    owned_thieves = zeros(len(inputs.speed), THIEF)
    owned_rich, owned_far = zeros(len(inputs.first), np.int64), inputs.latency[inputs.first[:-1]]
    s, thieves, bounds = shared(owned), borrowed(owned_thieves), borrowed(inputs.first)
    rich, far = borrowed(owned_rich), borrowed(owned_far)
    events = s.queues[0]
    _split_loop(s, thieves, bounds, rich)
    while True:
        pe = s.matches[events.tree + 1].rank
        now = due_of(s.matches, events.tree, events.width, pe)
        if now == np.inf:
            break
        following = now
        # Events of one PE at the same time are processed one after the other, before those of other PEs.
        while following == now:
            following = _act(s, thieves, bounds, rich, far, pe, now)
            if following == WRONG:
                return -1
        move(s.matches, events.tree, events.width, pe, following)
    owned_thieves[0].action, owned_rich[0], owned_far[0] = ASKS, 0, 0.0  # keeps borrowed arrays alive
    return close_state(owned.pes, owned.written, inputs.until, inputs.stats)


@inner_kernel
def _one_queue_each(inputs: Inputs) -> Inputs:
    """Return the loop with a queue per PE, as if each PE were a node."""
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
def _split_loop(s: State, thieves: Records[Thief], bounds: Ints, rich: Ints) -> None:
    """Split the loop into one part per PE, and schedule all first requests at 0."""
    n, p, events = s.costs.iterations, len(s.pes), s.queues[0]
    size = min(max((n + p - 1) // p, s.inner.min_chunk), n)
    for home in range(len(bounds) - 1):
        for pe in range(bounds[home], bounds[home + 1]):
            thieves[pe].home = home
            q = s.queues[1 + pe]
            q.first_pe, q.weights, q.members = bounds[home], bounds[home], bounds[home + 1] - bounds[home]
            first = begin_of_part(0, n, pe, size)
            _set_part(s, pe, first, min(size, n - first), rich, home)
            s.matches[events.tree + events.width + pe].time = 0.0
    play(s.matches, events.tree, events.width, p)


@leaf_kernel
def _set_part(s: State, pe: int, first: int, size: int, rich: Ints, home: int) -> None:
    """Set the part of a PE; the technique starts anew with it."""
    s.seats[pe].taken += 1
    if size > 0:
        rich[home] += 1
        rich[len(rich) - 1] += 1
        refill(s, s.queues[1 + pe], s.seats[pe].taken, first, size)


@leaf_kernel
def _act(
    s: State, thieves: Records[Thief], bounds: Ints, rich: Ints, far: Floats, pe: int, now: float
) -> float:
    """Process the next event of a PE; return the time of its following event [s].

    ``rich``: per node, the number of PEs with iterations in their parts; last element: all such PEs plus
    the PEs that return with stolen iterations. ``far``: one-way message time between each node and PE 0 [s].
    """
    me, thief, q = s.pes[pe], thieves[pe], s.queues[1 + pe]
    thieving = s.costs.atomic + s.costs.assignment
    if thief.action == ASKS:
        thief.hop = 0
        thief.action = TAKES if q.position < q.end else DEPARTS
        return _wait(q, now, _taking(s, me)) if thief.action == TAKES else now
    if thief.action == TAKES:
        ready = now + _taking(s, me)
        thief.action = DEPARTS if q.position == q.end else ASKS
        return ready if thief.action == DEPARTS else _execute_next(s, me, pe, ready, rich, thief.home)
    if thief.action == DEPARTS:
        return _depart(s, thief, bounds, rich, far, me, now)
    if thief.action == ARRIVES:
        if rich[thief.node] == 0:
            thief.hop += 1
            thief.action = DEPARTS
            return now + s.costs.atomic + thief.distance
        thief.victim = _richest(s, bounds[thief.node], bounds[thief.node + 1], pe)
        thief.action = STEALS
        return _wait(s.queues[1 + thief.victim], now, thieving)
    if thief.action == STEALS:
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
        thief.action = RETURNS
        return now + thieving + thief.distance
    _set_part(s, pe, thief.first, thief.stolen, rich, thief.home)
    if thief.stolen > 0:
        rich[len(rich) - 1] -= 1
    thief.hop += 1
    thief.action = ASKS if thief.stolen > 0 else DEPARTS
    return now


@leaf_kernel
def _taking(s: State, me: PE) -> float:
    """Return the duration of a PE's access to its own part [s]."""
    return s.costs.atomic + me.calculation + s.costs.assignment


@leaf_kernel
def _wait(q: Queue, now: float, seconds: float) -> float:
    """Queue an access of some ``seconds`` to a part; return its start [s]."""
    begin = max(now, q.free)
    q.free = begin + seconds
    return begin


@leaf_kernel
def _execute_next(s: State, me: PE, pe: int, start: float, rich: Ints, home: int) -> float:
    """Execute the next chunk of a PE's own part; return the time of its next request [s]."""
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
    """Send a thief to the next node; return its arrival [s], infinity if it has visited all nodes."""
    nodes = len(far)
    begin, end = bounds[thief.home], bounds[thief.home + 1]
    if thief.hop == 0 and end - begin == 1:
        thief.hop = 1
    if thief.hop < nodes and rich[len(rich) - 1] == 0:
        near = s.pes[begin + 1].near if thief.hop == 0 else 0.0
        now = _visit_empty_nodes(s, thief, far, near, me.latency, now)
        thief.hop = nodes
    if thief.hop == nodes:
        notify(s, me, now)
        return np.inf
    thief.node = (thief.home + thief.hop) % nodes
    if thief.hop == 0:
        thief.distance = s.pes[begin + 1].near
    else:
        thief.distance = max(me.latency, far[thief.node])
    thief.action = ARRIVES
    return now + thief.distance


@leaf_kernel
def _visit_empty_nodes(s: State, thief: Thief, far: Floats, near: float, latency: float, now: float) -> float:
    """Return the end [s] of a thief's round over the remaining nodes when no iterations are left anywhere.

    No event can change that any more, so the visits need no events. Times are added up in the order of these
    events, for the same rounding.
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
    """Return the PE of a node, except the thief, with the most iterations left; of equals the lowest rank."""
    found = begin if begin != thief else begin + 1
    for pe in range(found + 1, end):
        q, best = s.queues[1 + pe], s.queues[1 + found]
        if pe != thief and q.end - q.position > best.end - best.position:
            found = pe
    return found
