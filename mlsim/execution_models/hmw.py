"""Hierarchical master-worker: a global master, a local master per node, workers (Eleliemy 2021, §4.1).

Nodes interact through the global master only. So the event loop follows one master at a time: PE 0, and,
once it has answered a node, the local master there until that requests again.
"""

import numpy as np

from mlsim._jit import inlined, kernel, shared
from mlsim.execution_models import OF_MASTERS, OF_NODES, OF_QUEUES, ModelEntry, ModelProperties, cca
from mlsim.execution_models.chunk_execution import FAR, ask_first, ask_nodes, message, publish_node, refill
from mlsim.execution_models.event_queue import due_lowest_rank, move
from mlsim.execution_models.loop_state import Inputs, State, close_state, open_state


@kernel
def run(inputs: Inputs) -> int:
    """Simulate one loop; return the number of chunk rows, −1 or −2 if a technique is wrong."""
    owned = open_state(inputs)
    s = shared(owned)
    loop = s.queues[0]
    for v in range(loop.members):
        ask_first(s, s.queues[1 + v])
        loop.exhausted += s.pes[s.queues[1 + v].first_pe].notified_at >= 0.0
    ask_nodes(s, np.inf)
    error = _follow_masters(s)
    if error < 0:
        return error
    for v in range(loop.members):
        # ``exhausted`` of the loop's queue counts the nodes that will not ask the global master again.
        cca.end_master(s, s.queues[1 + v], v == 0 and loop.exhausted < loop.members)
    return close_state(owned.pes, owned.written, inputs.until, inputs.stats)


@inlined
def _follow_masters(s: State) -> int:
    """Follow one master after the other until all have finished; below 0: a technique is wrong."""
    loop = s.queues[0]
    closing = 0
    begun = 1  # nodes whose masters have started; PE 0 is last
    v = begun if begun < loop.members else 0
    attention = np.inf  # when the reply reaches the local master
    while True:
        m = s.queues[1 + v]
        doing = cca.attend(s, m, s.matches[loop.tree + 1].time if v == 0 else attention)
        if doing == cca.BAD_SIZE:
            return -1
        if doing == cca.DONE and (v == 0 or closing > 0):
            # PE 0 has finished; if the loop was aborted, other masters may be executing a chunk.
            closing += 1
            if closing >= loop.members:
                return 0
            v, attention = closing, np.inf
            continue
        if doing == cca.REFILL:
            m.awaiting = 1
            move(s.matches, loop.tree, loop.width, v, m.clock + message(s.pes[m.first_pe], FAR))
            if v == 0:
                continue
        if doing != cca.ATTENTION:
            if begun < loop.members:
                begun += 1
            v = begun if begun < loop.members else 0
            attention = np.inf
            continue
        asker = v
        if v == 0:
            asker = _serve_node(s)
            if asker < 0:
                return -2
            if asker > 0:
                v = asker
                attention = m.clock + message(s.pes[s.queues[1 + v].first_pe], FAR)
                continue
        _take_reply(s, asker)
        attention = np.inf


@inlined
def _serve_node(s: State) -> int:
    """Answer a node's request as the global master; return the node, or −1 if the technique is wrong."""
    loop, m = s.queues[0], s.queues[1]
    asker = s.matches[loop.tree + 1].rank
    if s.costs.lowest_rank:
        asker = due_lowest_rank(s.matches, loop.tree, loop.width, m.clock)
    move(s.matches, loop.tree, loop.width, asker, np.inf)
    publish_node(s, asker)
    loop.clock = m.clock
    got = cca.assign(s, loop, asker, asker)
    if got < 0:
        return -1
    if got > 0:
        cca.spend_serving(s, m)
    else:
        loop.exhausted += 1
    s.queues[1 + asker].reply_first, s.queues[1 + asker].got = loop.first, got
    return asker


@inlined
def _take_reply(s: State, v: int) -> None:
    """Fill a local master's queue with the global master's reply."""
    m = s.queues[1 + v]
    m.awaiting = 0
    if m.got == 0:
        m.exhausted = 1
    else:
        refill(s, m, s.seats[v].taken, m.reply_first, m.got)


MODEL = ModelEntry(
    name="hmw",
    meaning="hierarchical master-worker, X+Y: the first PE of every node is a local master, which serves its "
    "node by Y and asks PE 0, the global master, for the node's chunks by X",
    reference="Chronopoulos et al. 2005; Eleliemy 2021, §4.1",
    properties=ModelProperties(
        levels=2, nodes=True, releases=True, asking="node master", reads=(*OF_MASTERS, *OF_QUEUES, *OF_NODES)
    ),
    run=run,
    aliases=("hierarchical-master-worker",),
)
