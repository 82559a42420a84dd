"""Work stealing: every PE has a part of the loop; a PE without iterations steals half of another PE's part.

Half is stolen as in Hendler and Shavit (2002) and Dinan et al. (2009). The duration of an access to a part
does not depend on the part, so an arrival can be scheduled at once for the time at which it is served.
"""

from typing import NamedTuple

import numpy as np

from mlsim._jit import inner_kernel, kernel, leaf_kernel, shared, zeros
from mlsim._runtime.arrays import Floats, Ints
from mlsim.execution_models import ModelEntry, ModelProperties
from mlsim.execution_models.chunk_execution import WRONG, execute, notify, refill, take
from mlsim.execution_models.event_queue import Records, dtype_of, due_of, move, play
from mlsim.execution_models.loop_state import PE, Inputs, Queue, State, close_state, open_queues
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


class Hunt(NamedTuple):
    """The thieves, and their knowledge of the nodes."""

    thieves: Records[Thief]
    bounds: Ints  # node v has the PEs ``bounds[v]`` to ``bounds[v + 1] - 1``
    rich: Ints
    """Per node, the number of PEs with iterations in their parts; last element: all such PEs plus the PEs
    that return with stolen iterations.
    """
    far: Floats  # one-way message time between each node and PE 0, in s


@kernel
def run(inputs: Inputs) -> int:
    """Simulate one loop; return the number of chunk rows, −1 if the technique is wrong."""
    owned = open_queues(inputs, np.arange(len(inputs.speed) + 1))  # as if each PE were a node
    rich, far = zeros(len(inputs.first), np.int64), inputs.latency[inputs.first[:-1]]
    owned_hunt = Hunt(zeros(len(inputs.speed), THIEF), inputs.first, rich, far)
    s, h = shared(owned), shared(owned_hunt)
    events = s.queues[0]
    _split_loop(s, h)
    while True:
        pe = s.matches[events.tree + 1].rank
        now = due_of(s.matches, events.tree, events.width, pe)
        if now == np.inf:
            break
        following = now
        # Events of one PE at the same time are processed one after the other, before those of other PEs.
        while following == now:
            following = _act(s, h, pe, now)
            if following == WRONG:
                return -1
        move(s.matches, events.tree, events.width, pe, following)
    owned_hunt.rich[0] = 0  # keeps borrowed arrays alive
    return close_state(owned.pes, owned.written, inputs.until, inputs.stats)


@inner_kernel
def _split_loop(s: State, h: Hunt) -> None:
    """Split the loop into one part per PE, and schedule the first requests of all when they have started."""
    n, p, events = s.costs.iterations, len(s.pes), s.queues[0]
    size = min(max((n + p - 1) // p, s.inner.min_chunk), n)
    for home in range(len(h.bounds) - 1):
        for pe in range(h.bounds[home], h.bounds[home + 1]):
            h.thieves[pe].home = home
            q = s.queues[1 + pe]
            q.first_pe, q.weights = h.bounds[home], h.bounds[home]
            q.members = h.bounds[home + 1] - h.bounds[home]
            first = begin_of_part(0, n, pe, size)
            _set_part(s, h, pe, first, min(size, n - first))
            s.matches[events.tree + events.width + pe].time = s.pes[pe].asked
    play(s.matches, events.tree, events.width, p)


@leaf_kernel
def _count(h: Hunt, home: int, change: int) -> None:
    """Change the number of PEs of a node with iterations in their parts."""
    h.rich[home] += change
    h.rich[len(h.rich) - 1] += change


@leaf_kernel
def _set_part(s: State, h: Hunt, pe: int, first: int, size: int) -> None:
    """Set the part of a PE; the technique starts anew with it."""
    s.seats[pe].taken += 1
    if size > 0:
        _count(h, h.thieves[pe].home, 1)
        refill(s, s.queues[1 + pe], s.seats[pe].taken, first, size)


@leaf_kernel
def _act(s: State, h: Hunt, pe: int, now: float) -> float:
    """Process the next event of a PE; return the time of its following event [s]."""
    me, thief, q = s.pes[pe], h.thieves[pe], s.queues[1 + pe]
    thieving = s.costs.atomic + s.costs.assignment
    if thief.action == ASKS:
        thief.hop = 0
        thief.action = TAKES if q.position < q.end else DEPARTS
        return _wait(q, now, _taking(s, me)) if thief.action == TAKES else now
    if thief.action == TAKES:
        ready = now + _taking(s, me)
        thief.action = DEPARTS if q.position == q.end else ASKS
        return ready if thief.action == DEPARTS else _execute_next(s, h, me, pe, ready)
    if thief.action == DEPARTS:
        return _depart(s, h, thief, me, now)
    if thief.action == ARRIVES:
        if h.rich[thief.node] == 0:
            thief.hop += 1
            thief.action = DEPARTS
            return now + s.costs.atomic + thief.distance
        thief.victim = _richest(s, h.bounds[thief.node], h.bounds[thief.node + 1], pe)
        thief.action = STEALS
        return _wait(s.queues[1 + thief.victim], now, thieving)
    if thief.action == STEALS:
        victim = s.queues[1 + thief.victim]
        left = victim.end - victim.position
        thief.stolen = min(max((left + 1) // 2, s.inner.min_chunk), left)
        victim.end -= thief.stolen
        thief.first = victim.end
        if thief.stolen > 0:
            h.rich[len(h.rich) - 1] += 1
            if thief.stolen == left:
                _count(h, thief.node, -1)
        thief.action = RETURNS
        return now + thieving + thief.distance
    _set_part(s, h, pe, thief.first, thief.stolen)
    if thief.stolen > 0:
        h.rich[len(h.rich) - 1] -= 1
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
def _execute_next(s: State, h: Hunt, me: PE, pe: int, start: float) -> float:
    """Execute the next chunk of a PE's own part; return the time of its next request [s]."""
    q = s.queues[1 + pe]
    step = q.step
    size = take(s, q, pe)
    if size < 0:
        return WRONG
    if q.position == q.end:
        _count(h, h.thieves[pe].home, -1)
    if start >= s.until:
        notify(s, me, start)
        return np.inf
    return execute(s, me, pe, step, q.first, size, start)


@leaf_kernel
def _depart(s: State, h: Hunt, thief: Thief, me: PE, now: float) -> float:
    """Send a thief to the next node; return its arrival [s], infinity if it has visited all nodes."""
    nodes = len(h.far)
    begin, end = h.bounds[thief.home], h.bounds[thief.home + 1]
    if thief.hop == 0 and end - begin == 1:
        thief.hop = 1
    if thief.hop < nodes and h.rich[len(h.rich) - 1] == 0:
        near = s.pes[begin + 1].near if thief.hop == 0 else 0.0
        now = _visit_empty_nodes(s, thief, h.far, near, me.latency, now)
        thief.hop = nodes
    if thief.hop == nodes:
        notify(s, me, now)
        return np.inf
    thief.node = (thief.home + thief.hop) % nodes
    if thief.hop == 0:
        thief.distance = s.pes[begin + 1].near
    else:
        thief.distance = max(me.latency, h.far[thief.node])
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


MODEL = ModelEntry(
    name="steal",
    meaning="work stealing: every PE has an equal part of the loop, from whose front it takes chunks; a PE "
    "with none left steals half the rest of the richest PE of its node, or else of another node",
    reference="Hendler and Shavit 2002; Dinan et al. 2009; schedule(static_steal) of LLVM's OpenMP",
    properties=ModelProperties(
        nodes=True, adaptive=False, asking="own part", reads=("atomic_service", "start_up", "start_up_std")
    ),
    run=run,
)
