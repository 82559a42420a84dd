"""Input, state and output of an event loop, for all execution models."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import inner_kernel, kernel, zeros
from mlsim._runtime.arrays import Floats, Ints
from mlsim.execution_models.event_queue import MATCH, Match, Records, dtype_of
from mlsim.execution_models.technique_state import Technique, open_technique
from mlsim.techniques.fixed import random_key
from mlsim.techniques.rule_layout import RuleSettings
from mlsim.techniques.technique_rules import SS, constant_size


@kernel
def lock_key(seed_low: int, seed_high: int, number: int) -> int:
    """Return the key of the random numbers of lock ``number``."""
    return random_key(seed_low, seed_high + ((number + 1) << 32))


TIMES = ("finish", "notified_at", "busy", "overhead", "idle", "last_start")
COUNTS = ("chunks", "last_first", "last_size")


class Costs(NamedTuple):
    """Costs and options of an execution model, see "Costs" in ``docs/reference/loops.md``; times in s."""

    calculation: float  # of a chunk size, at speed 1
    assignment: float  # at a queue
    atomic: float  # at a queue
    delay: float  # of the calculation, at any speed
    polling: bool  # waiting PEs poll the lock; else they are served in order of arrival
    retry: float  # between two attempts at a polled lock
    break_after: int  # iterations of a master's own chunk between breaks
    break_time: float
    break_every: float  # time between breaks if masters adapt it to the iterations, else 0
    piece_time: float  # overhead of each part of a chunk, at speed 1
    lowest_rank: bool  # masters serve the lowest rank first; else in order of arrival
    dedicated: bool  # masters execute no chunks
    inside: bool  # requests interrupt masters that execute
    threaded: bool  # a thread of each master answers while it executes
    thread_share: float  # of a master's speed that its thread takes
    nowait: bool  # threads continue without a barrier
    global_p: int  # P of the technique between nodes; 0: the number of nodes
    pushed: bool  # the master sends first chunks without requests
    choose_after: int  # executed iterations between two selections within the loop; 0: none
    ahead: int  # a worker requests this many iterations before its chunk ends; 0: after it
    seed_low: int  # the lower 32 bits of the seed
    seed_high: int
    iterations: int
    block: int  # iterations per entry of ``Inputs.prefix``; 0: linear costs, see ``pe_statistics``


class Perturbation(NamedTuple):
    """Speed factors of each PE over time [s from the loop's start].

    Each row of the table holds the factors of one node, or of none; PEs can share a row.
    """

    slow_of_pe: Ints  # int64[P]: row of each PE
    slow_index: Ints  # int64[rows + 1]: entries ``slow_index[r]`` to ``slow_index[r + 1] - 1`` are of row r
    slow_time: Floats
    """float64[m]: begin of the entry's factor, which holds until the next of its row; rising within a row.
    Times before the start of the loop are negative. Before a row's first entry the factor is 1.
    """
    slow_factor: Floats  # float64[m], more than 0 and finite: 0.5 is half as fast


def none(p: int) -> Perturbation:
    """Return the perturbation under which ``p`` PEs always run at their own speed."""
    return Perturbation(np.zeros(p, np.int64), np.zeros(2, np.int64), np.empty(0), np.empty(0))


@inner_kernel
def _entries_begun(slow_time: Floats, first: int, end: int, time: float) -> int:
    """Return the first entry of ``first`` to ``end`` that begins after ``time``; ``end`` if none does."""
    while first < end:
        middle = (first + end) // 2
        if slow_time[middle] <= time:
            first = middle + 1
        else:
            end = middle
    return first


@inner_kernel
def work_between(start: float, end: float, pe: int, slow: Perturbation) -> float:
    """Return the work [s at its own speed] that a PE does between two times [s]."""
    slow_time, row = slow.slow_time, slow.slow_of_pe[pe]
    first, last = slow.slow_index[row], slow.slow_index[row + 1]
    entry = _entries_begun(slow_time, first, last, start)
    factor = slow.slow_factor[entry - 1] if entry > first else 1.0
    now, work = start, 0.0
    while entry < last and slow_time[entry] < end:
        work += (slow_time[entry] - now) * factor
        now, factor = slow_time[entry], slow.slow_factor[entry]
        entry += 1
    return work + (end - now) * factor


@inner_kernel
def elapsed_time(seconds: float, start: float, pe: int, slow: Perturbation) -> float:
    """Return the time [s] from ``start`` in which a PE does ``seconds`` of work at its own speed."""
    slow_time, row = slow.slow_time, slow.slow_of_pe[pe]
    first, end = slow.slow_index[row], slow.slow_index[row + 1]
    if first == end:
        return seconds
    entry = _entries_begun(slow_time, first, end, start)
    factor = slow.slow_factor[entry - 1] if entry > first else 1.0
    now, left = start, seconds
    while entry < end and left > (slow_time[entry] - now) * factor:
        left -= (slow_time[entry] - now) * factor
        now, factor = slow_time[entry], slow.slow_factor[entry]
        entry += 1
    return (now - start) + left / factor


def work_done(perturbation: Perturbation, row: int, times: Floats) -> Floats:
    """Return the work done under one row from 0 to each of the times (>= 0), in s at undisturbed speed."""
    index = perturbation.slow_index
    begin = perturbation.slow_time[index[row] : index[row + 1]]
    factor = np.append(1.0, perturbation.slow_factor[index[row] : index[row + 1]])
    now = np.searchsorted(begin, 0.0, side="right")
    begin, factor = np.append(0.0, begin[now:]), factor[now:]
    done = np.append(0.0, np.cumsum(np.diff(begin) * factor[:-1]))
    entry = np.searchsorted(begin, times, side="right") - 1
    progress: Floats = done[entry] + (times - begin[entry]) * factor[entry]
    return progress


class Unavailability(NamedTuple):
    """Intervals in which PEs request no chunks [s from the loop's start].

    A PE that would request at a time in [begin, end) requests at ``end`` instead; infinity: it has left. It
    still executes the chunks that it holds or has requested.
    """

    entries: Ints
    """int64[P + 1]: spans ``entries[p]`` to ``entries[p + 1] - 1`` belong to PE p; a single 0 where all PEs
    are always available.
    """
    begin: Floats  # float64[m]: rising and disjoint within a PE
    end: Floats


def always_available() -> Unavailability:
    """Return the unavailability of PEs that never leave."""
    return Unavailability(np.zeros(1, np.int64), np.empty(0), np.empty(0))


def unavailability_of(node_of_pe: Ints, spans: Sequence[Sequence[tuple[float, float]]]) -> Unavailability:
    """Return the unavailability of PEs; ``spans``: the absences (begin, end) of each node."""
    of_pe = [spans[node] for node in node_of_pe.tolist()]
    flat = [span for own in of_pe for span in own]
    return Unavailability(
        entries=np.cumsum([0, *(len(own) for own in of_pe)], dtype=np.int64),
        begin=np.array([begin for begin, _ in flat], np.float64),
        end=np.array([end for _, end in flat], np.float64),
    )


class PEStats(NamedTuple):
    """Results per PE: ``times`` float64[6, P] in s (rows ``TIMES``), ``counts`` int64[3, P] (``COUNTS``)."""

    times: Floats
    counts: Ints


class Rows(NamedTuple):
    """Chunk rows that an event loop fills; arrays of length 0 if no rows are kept."""

    pe: NDArray[np.int32]
    numbers: Ints  # int64[3, n]: step, first iteration, size
    times: Floats  # float64[3, n] in s: requested, start, end
    since: float  # chunks that end at this time [s] or before have no row
    full: int
    """Address of a C function that is called with n when all n rows are filled: it copies them, and the loop
    overwrites them. 0: there are as many rows as chunks."""
    written: Ints
    """int64[3]: rows in total, rows since the last call of ``full``, and iterations assigned, from which
    other threads read the progress."""


class Inputs(NamedTuple):
    """Arguments of every model's ``run``; all arrays except those of ``stats`` and ``rows`` are read-only."""

    prefix: Floats
    """float64[N+1]: prefix sums of the iteration costs in s at speed 1, see ``pe_statistics``. With
    ``Costs.block`` > 1 there is one entry per block, for techniques that do not learn from iterations."""
    speed: Floats  # float64[P], P >= 1: relative speeds
    latency: Floats  # float64[P], in s: one-way time of a message to PE 0, 0 for PE 0
    first: Ints
    """int64[V+1]: node v has the PEs ``first[v]`` to ``first[v + 1] - 1``, one or more. [0]: no nodes."""
    near: Floats  # float64[P], in s: one-way time of a message to the first PE of its node, 0 for that PE
    request: Floats  # float64[P], in s: time of a PE to make a request
    ready: Floats  # float64[P], 0 or more, in s: when a PE has started
    outer: RuleSettings  # the technique at the loop's queue
    inner: RuleSettings
    """The technique inside a node, where weights sum up to the number of the node's executing PEs."""
    costs: Costs
    perturbation: Perturbation
    pe_unavailability: Unavailability
    until: float  # when the loop is aborted, in s; infinity: never
    stats: PEStats
    rows: Rows


class PE:
    """A PE; times in s. ``LoopOutcome`` documents the results among the fields."""

    speed: float
    latency: float  # as in ``Inputs``
    near: float  # as in ``Inputs``
    to_near: float  # from the begin of a request to its arrival at its node's first PE
    to_far: float  # the same to PE 0
    calculation: float  # of a chunk size
    thinking: float  # from an atomic's answer leaving the loop's queue to the arrival of the claim
    asked: float  # when it requested its chunk
    since: float  # start of the overhead until its next chunk
    pace: float  # speed at which it executed its last chunk, perturbation included
    spent: float  # execution of its last chunk
    waited: float  # from the request for its last chunk to the start
    took: float  # from the request for its last chunk to the end
    barrier: float  # when it arrived at the barrier
    finish: float
    notified_at: float
    busy: float
    overhead: float
    idle: float
    last_start: float
    chunks: int
    last_first: int
    last_size: int
    last_step: int  # scheduling step of its last chunk
    last_part: int  # iterations of its last chunk executed at a time, if ``piece_time`` > 0
    parts: int  # of a master's last chunk; 0: unknown
    squares: float  # Σ t_j²/n_j over these parts, in s²
    unreported: int  # 1: its queue has not learned from its last chunk; 2: it requested during that chunk


class Seat:
    """A PE or node at a queue."""

    claim: int  # size claimed; 0: none
    step: int  # scheduling step of the claim
    taken: int  # chunks taken
    waiter: int  # an entry of the queue's list of waiting ranks, see ``enter``


class Queue:
    """A queue of iterations, its members (PEs or nodes), its lock and its master; times in s."""

    number: int  # 0: the loop's queue; else that of node ``number - 1``
    position: int  # first iteration left
    end: int
    step: int  # next scheduling step
    constant: int  # the size of all chunks if they are equal, else 0
    first: int  # first iteration of the last chunk
    tree: int  # index of its events in ``State.matches``
    width: int  # leaves of its tree of events
    seats: int  # index of its first seat
    first_pe: int
    members: int
    masters: int  # members that execute no chunks
    weights: int  # index of the weights of the other members
    exhausted: int  # 1: no more iterations arrive
    holder: int  # the PE that refills it
    free: float  # when the lock is released
    waiting: int  # ranks that poll the lock
    draws: int  # random numbers drawn for the polled lock
    invited: int  # the rank drawn to try next; -1: none
    key: int  # of these random numbers
    clock: float  # the master's time, or when a size is calculated under the lock
    own_position: int  # first iteration left of the master's own chunk
    own_end: int
    own_step: int
    own_begun: int  # 1: the master has started its chunk
    own_seconds: float  # executed so far
    own_left: float  # to be executed, at the PE's speed, if requests interrupt it
    own_length: int  # most iterations of its next part
    own_parts: int
    own_squares: float
    awaiting: int  # 1: a request for a chunk of the node is pending
    reply_first: int  # first iteration of the answer
    got: int  # size of the answer
    begun: int  # first iteration of the current technique
    earlier: int  # scheduling steps of previous techniques
    executed: int  # iterations known to be executed
    choose_at: int  # executed iterations at which the next selection is due


PE_RECORD, SEAT, QUEUE = dtype_of(PE), dtype_of(Seat), dtype_of(Queue)


class State(NamedTuple):
    """State of an event loop: ``queues[0]`` is the loop's queue, ``queues[1 + v]`` that of node v."""

    prefix: Floats
    pes: Records[PE]
    queues: Records[Queue]
    seats: Records[Seat]
    matches: Records[Match]
    outer: Technique
    inner: Technique
    costs: Costs
    perturbation: Perturbation
    pe_unavailability: Unavailability
    until: float
    rows: Rows
    written: Ints  # ``rows.written``
    before: Records[PE]  # each PE's chunk before its last one, if PEs request ahead and techniques learn
    learns: bool


@kernel
def open_state(inputs: Inputs) -> State:
    """Prepare a loop without requests."""
    return open_queues(inputs, inputs.first)


@inner_kernel
def open_queues(inputs: Inputs, first: Ints) -> State:
    """Prepare a loop without requests, with a queue for each node: ``first`` as in :class:`Inputs`."""
    n, p, v_count = inputs.costs.iterations, len(inputs.speed), len(first) - 1
    inputs.rows.written[:] = 0
    queues, costs = zeros(1 + v_count, QUEUE), inputs.costs
    _lay_out(queues, first, p, costs)
    loop, last = queues[0], queues[v_count]
    counted = costs.global_p if costs.global_p > 0 else loop.members - loop.masters
    outer = open_technique(inputs.outer, n, 1, counted, v_count > 0)
    inner = outer
    if v_count > 0:
        most = 1
        for v in range(v_count):
            most = max(most, queues[1 + v].members)
        inner = open_technique(inputs.inner, n, v_count, most, False)
        for v in range(v_count):
            queues[1 + v].constant = inputs.inner.min_chunk if inner.code == SS else 0
    loop.end = n
    loop.constant = constant_size(outer.rules[0])
    loop.choose_at = costs.choose_after
    learns = outer.learns or inner.learns or costs.choose_after > 0
    pes = zeros(p, PE_RECORD)
    _introduce(pes, inputs, v_count > 0)
    if costs.threaded:
        for number in range(min(v_count, 1), 1 + v_count):
            master = pes[queues[number].first_pe]
            master.speed *= 1.0 - costs.thread_share
            master.pace = master.speed
    return State(
        inputs.prefix,
        pes,
        queues,
        zeros(last.seats + last.members, SEAT),
        zeros(last.tree + 2 * last.width, MATCH),
        outer,
        inner,
        costs,
        inputs.perturbation,
        inputs.pe_unavailability,
        inputs.until,
        inputs.rows,
        inputs.rows.written,
        zeros(p if costs.ahead > 0 and learns else 1, PE_RECORD),
        learns,
    )


@inner_kernel
def _lay_out(queues: Records[Queue], first: Ints, p: int, costs: Costs) -> None:
    """Set the members of each queue, and the indices of its events and seats."""
    v_count = len(first) - 1
    tree, seats = 0, 0
    for number in range(1 + v_count):
        q = queues[number]
        q.number = number
        q.members = p if v_count == 0 else v_count
        if number > 0:
            q.first_pe, q.members = first[number - 1], first[number] - first[number - 1]
        if costs.dedicated and q.members > 1 and (number > 0 or v_count == 0):
            q.masters = 1
        q.weights = q.first_pe + q.masters if number > 0 else 0
        q.tree, q.seats, q.width = tree, seats, 1
        while q.width < q.members:
            q.width *= 2
        tree += 2 * q.width
        seats += q.members
        q.invited = -1
        q.key = lock_key(costs.seed_low, costs.seed_high, number)


@inner_kernel
def _introduce(pes: Records[PE], inputs: Inputs, two_levels: bool) -> None:
    """Set each PE's speed, latencies and calculation times."""
    costs = inputs.costs
    for pe in range(len(pes)):
        me = pes[pe]
        me.speed, me.pace = inputs.speed[pe], inputs.speed[pe]
        me.latency = inputs.latency[pe]
        me.near = inputs.near[pe] if two_levels else me.latency
        me.to_near, me.to_far = inputs.request[pe] + me.near, inputs.request[pe] + me.latency
        me.asked = min(inputs.ready[pe], inputs.until)
        me.since, me.idle = me.asked, me.asked
        me.calculation = costs.calculation / me.speed + costs.delay
        me.thinking = 2.0 * me.latency + me.calculation
        if not two_levels:  # the order of additions decides the last bit of results
            me.thinking = 2.0 * me.latency + costs.calculation / me.speed + costs.delay
        me.notified_at = -1.0  # not yet


@inner_kernel
def close_state(pes: Records[PE], written: Ints, until: float, stats: PEStats) -> int:
    """Notify the remaining PEs at ``until`` and fill the results; return the number of chunk rows."""
    times, counts = stats.times, stats.counts
    for pe in range(len(pes)):
        me = pes[pe]
        if me.notified_at < 0.0:
            me.notified_at = until
            me.overhead += until - me.since
        times[0, pe], times[1, pe], times[2, pe] = me.finish, me.notified_at, me.busy
        times[3, pe], times[4, pe], times[5, pe] = me.overhead, me.idle, me.last_start
        counts[0, pe], counts[1, pe], counts[2, pe] = me.chunks, me.last_first, me.last_size
    return int(written[0])
