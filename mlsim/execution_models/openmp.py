"""MPI+OpenMP: one process per node, whose threads share every chunk that it obtains (Eleliemy 2021, §5.3).

The process obtains chunks as under DCA. STATIC is OpenMP's schedule ``static``, one part per thread, CYCLIC
``static,k``, parts of k round robin. SS and GSS are ``dynamic,1`` and ``guided,1``, which take iterations
from a counter. With ``nowait``, STATIC and CYCLIC cannot be combined with adaptive techniques between nodes.
"""

import numpy as np

from mlsim._jit import inner_kernel, kernel, leaf_kernel, shared
from mlsim.execution_models import OF_LOCKS, OF_NODES, OF_QUEUES, ModelEntry, ModelProperties
from mlsim.execution_models import chunk_execution as chunks
from mlsim.execution_models.chunk_execution import FAR, message
from mlsim.execution_models.dca import BAD, answer_node
from mlsim.execution_models.event_queue import due_of, move
from mlsim.execution_models.loop_state import Inputs, Queue, State, close_state, open_state
from mlsim.techniques.fixed import begin_of_part, static_size
from mlsim.techniques.guided import guided_recursive_size
from mlsim.techniques.technique_rules import CYCLIC, GSS, STATIC_CODES


@kernel
def run(inputs: Inputs) -> int:
    """Simulate one loop; return the number of chunk rows, −2 if the technique is wrong."""
    owned = open_state(inputs)
    s = shared(owned)
    window = s.queues[0]
    for v in range(window.members):
        q = s.queues[1 + v]
        chunks.ask_first(s, q)
    chunks.ask_nodes(s, 0.0)
    while True:
        v = answer_node(s)
        if v < 0:
            if v == BAD:
                return -2
            break
        q = s.queues[1 + v]
        following = np.inf
        answer = window.free + message(s.pes[q.holder], FAR)
        if answer < s.until:
            following = _share(s, v, window.first, q.got, answer)
        move(s.matches, window.tree, window.width, v, following)
    return close_state(owned.pes, owned.written, inputs.until, inputs.stats)


@inner_kernel
def _share(s: State, v: int, first: int, got: int, answer: float) -> float:
    """Execute a chunk with a node's threads; return the next arrival of a thread at the loop's window [s]."""
    q, static, nowait = s.queues[1 + v], s.inner.code in STATIC_CODES, s.costs.nowait
    if got == 0:
        q.exhausted = 1
    if got == 0 and (static or not nowait):
        for rank in range(q.members):
            # Without a barrier, a thread may still execute an earlier chunk.
            behind = due_of(s.matches, q.tree, q.width, rank) if nowait else answer
            chunks.notify(s, s.pes[q.first_pe + rank], max(behind, answer))
        return np.inf
    q.position, q.end, q.step = first, first + got, 0
    q.free, q.clock = answer, answer  # times of the counter and of the barrier
    if not nowait:
        for rank in range(q.members):
            move(s.matches, q.tree, q.width, rank, answer)
    if static:
        _execute_parts(s, q, answer)
    else:
        asks = _count_down(s, q, got, answer)
        if nowait:
            return asks
    return _first_ready(s, q) if nowait else _meet(s, q)


@leaf_kernel
def _execute_parts(s: State, q: Queue, answer: float) -> None:
    """Execute a chunk in one part per thread (``static``), or in parts round robin (``static,k``)."""
    part = s.inner.min_chunk
    if s.inner.code != CYCLIC:
        part = max(static_size(q.end - q.position, q.members), part)
    for rank in range(q.members):
        due = max(due_of(s.matches, q.tree, q.width, rank), answer)
        if due == np.inf:
            continue
        me = s.pes[q.first_pe + rank]
        chunks.report(s, q, me, rank)
        number, start = rank, due + me.calculation
        first = begin_of_part(q.position, q.end, number, part)
        further = begin_of_part(q.position, q.end, number + q.members, part)
        while further < q.end and start < s.until:  # static,k
            start = chunks.execute(s, me, q.first_pe + rank, number, first, part, start)
            chunks.report(s, q, me, rank)
            first, number = further, number + q.members
            further = begin_of_part(q.position, q.end, number + q.members, part)
        _execute_part(s, q, rank, number, first, min(part, q.end - first), start)
        if s.inner.code == CYCLIC:
            chunks.report(s, q, me, rank)  # with the thread's other parts


@leaf_kernel
def _count_down(s: State, q: Queue, got: int, answer: float) -> float:
    """Execute a chunk by the counter; return the arrival of a thread at the window, infinity at a barrier."""
    guided, part = s.inner.code == GSS, s.inner.min_chunk
    goes_ahead = s.costs.nowait  # the thread that obtained the chunk is the first at the counter
    while True:
        match = s.matches[q.tree + 1]
        rank, due = match.rank, match.time
        if goes_ahead:
            rank, due, goes_ahead = q.holder - q.first_pe, answer, False
            if got == 0:
                chunks.notify(s, s.pes[q.holder], answer)
                move(s.matches, q.tree, q.width, rank, np.inf)
                continue
        if due == np.inf:
            return np.inf
        me = s.pes[q.first_pe + rank]
        chunks.report(s, q, me, rank)
        first, size = q.position, 0
        q.free = max(due, q.free) + s.costs.atomic
        if first < q.end:
            if guided:
                part = max(guided_recursive_size(q.end - first, q.members), s.inner.min_chunk)
                q.free += me.calculation
            q.free += s.costs.assignment
            size = min(part, q.end - first)
            q.position += size
        elif s.costs.nowait:
            back = chunks.back_at(s, q, q.free)
            if back == q.free:
                q.holder = q.first_pe + rank
                return q.free + me.to_far
            move(s.matches, q.tree, q.width, rank, chunks.leave(s, me, q.free, back))
            continue
        _execute_part(s, q, rank, q.step, first, size, q.free)


@leaf_kernel
def _execute_part(s: State, q: Queue, rank: int, step: int, first: int, size: int, start: float) -> None:
    """Execute a thread's part (size >= 0) and schedule its return, or its arrival at the barrier."""
    me, following, ends = s.pes[q.first_pe + rank], start, size == 0
    if size > 0:
        following = np.inf
        if start < s.until:
            q.step += 1
            following = chunks.execute(s, me, q.first_pe + rank, step, first, size, start)
        ends = following == np.inf or s.inner.code in STATIC_CODES
    if ends and not s.costs.nowait:
        me.barrier = following
        q.clock = max(q.clock, following)
        following = np.inf
    move(s.matches, q.tree, q.width, rank, following)


@leaf_kernel
def _first_ready(s: State, q: Queue) -> float:
    """Find the first thread without parts, which refills the node; return its arrival at the window [s]."""
    while True:
        ready = s.matches[q.tree + 1]
        rank, now = ready.rank, ready.time
        q.holder = q.first_pe + rank
        me = s.pes[q.holder]
        back = chunks.back_at(s, q, now)
        if back == now:
            return now + me.to_far
        move(s.matches, q.tree, q.width, rank, chunks.leave(s, me, now, back))


@leaf_kernel
def _meet(s: State, q: Queue) -> float:
    """Wait at the barrier for the last thread; return the first thread's next arrival at the window [s]."""
    for rank in range(q.members):
        me = s.pes[q.first_pe + rank]
        if me.barrier < s.until:
            me.overhead += me.barrier - me.since
            me.since = min(q.clock, s.until)
            me.idle += me.since - me.barrier
        chunks.report(s, q, me, rank)
    q.holder = q.first_pe
    asked, back = q.clock, chunks.back_at(s, q, q.clock)
    if back > q.clock:
        for pe in range(q.first_pe, q.first_pe + q.members):
            asked = chunks.leave(s, s.pes[pe], q.clock, back)
    return asked + s.pes[q.first_pe].to_far


MODEL = ModelEntry(
    name="mpi+openmp",
    meaning="X+Y: one process per node obtains chunks as under dca by X; its threads execute them by "
    "schedule(static), (static,k), (dynamic,1) or (guided,1), which is Y = STATIC, CYCLIC, SS or GSS, and "
    "meet at a barrier after each, or not with nowait",
    reference="Eleliemy 2021, §5.3, Table 5.1",
    properties=ModelProperties(
        levels=2,
        nodes=True,
        releases=True,
        asking="threads",
        reads=(*OF_LOCKS, *OF_QUEUES, *OF_NODES, "nowait"),
    ),
    run=run,
)
