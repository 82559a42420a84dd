"""HDCA, hierarchical distributed chunk calculation (MPI+MPI; Eleliemy 2021, ch. 5).

Nodes interact through refills only. So the event loop processes the refills in the order of their arrivals
at the loop's window, and after each of them all events of that node up to its next refill.
"""

import numpy as np

from mlsim._jit import inlined, kernel, shared
from mlsim.execution_models import OF_LOCKS, OF_NODES, OF_QUEUES, ModelEntry, ModelProperties
from mlsim.execution_models import chunk_execution as chunks
from mlsim.execution_models.chunk_execution import FAR, NEAR, WRONG, message
from mlsim.execution_models.dca import BAD, NOBODY, answer_node, enter
from mlsim.execution_models.event_queue import due_of, move
from mlsim.execution_models.loop_state import Inputs, Queue, State, close_state, open_state


@kernel
def run(inputs: Inputs) -> int:
    """Simulate one loop; return the number of chunk rows, −1 or −2 if a technique is wrong."""
    owned = open_state(inputs)
    s = shared(owned)
    window = s.queues[0]
    for v in range(window.members):
        q = s.queues[1 + v]
        chunks.ask_first(s, q)
        q.free = s.matches[q.tree + 1].time + s.costs.atomic
    chunks.ask_nodes(s, s.costs.atomic)
    while True:
        v = answer_node(s)
        if v < 0:
            if v == BAD:
                return -2
            break
        q = s.queues[1 + v]
        me = s.pes[q.holder]
        answer = window.free + message(me, FAR)
        if q.got > 0:
            chunks.refill(s, q, s.seats[v].taken, window.first, q.got)
        else:
            q.exhausted = 1
            chunks.notify(s, me, answer)
            q.free = answer + message(me, NEAR) + s.costs.atomic
            move(s.matches, q.tree, q.width, q.holder - q.first_pe, np.inf)
            q.holder = NOBODY
        arrival = _follow(s, q, answer)
        if arrival == WRONG:
            return -1
        move(s.matches, window.tree, window.width, v, arrival)
    return close_state(owned.pes, owned.written, inputs.until, inputs.stats)


@inlined
def _follow(s: State, q: Queue, ready: float) -> float:
    """Follow a node's PEs to its next refill; return the arrival [s] of the refilling PE at the window.

    A PE that already holds the lock can write to the queue at ``ready`` [s].
    """
    while True:
        pe = q.holder
        if pe == NOBODY:
            rank = enter(s, q)
            if rank == NOBODY:
                return np.inf
            pe = q.first_pe + rank
            me = s.pes[pe]
            q.free = max(due_of(s.matches, q.tree, q.width, rank), q.free) + s.costs.atomic
            chunks.report(s, q, me, rank)
            ready = q.free + message(me, NEAR)
            if q.position == q.end:
                back = chunks.back_at(s, q, q.free)
                if back > q.free:
                    asked = chunks.leave(s, me, ready, back)
                    move(s.matches, q.tree, q.width, rank, asked + me.to_near)
                    continue
                q.holder = pe
                return ready + message(me, FAR)
        q.holder = NOBODY
        me, step = s.pes[pe], q.step
        q.clock = ready
        size = chunks.take(s, q, pe)
        if size < 0:
            return WRONG
        q.free = ready + me.calculation + message(me, NEAR) + s.costs.atomic + s.costs.assignment
        start = q.free + message(me, NEAR)
        following = np.inf
        if start < s.until:
            end = chunks.execute(s, me, pe, step, q.first, size, start)
            following = end + me.to_near
        move(s.matches, q.tree, q.width, pe - q.first_pe, following)


MODEL = ModelEntry(
    name="hdca",
    meaning="hierarchical distributed (MPI+MPI), X+Y: PEs take sub-chunks by Y from their node's queue, "
    "under its lock; the PE that finds it empty refills it as under dca by X",
    reference="Eleliemy 2021, §5.2",
    properties=ModelProperties(
        levels=2, nodes=True, releases=True, asking="node window", reads=(*OF_LOCKS, *OF_QUEUES, *OF_NODES)
    ),
    run=run,
    aliases=("hierarchical",),
)
