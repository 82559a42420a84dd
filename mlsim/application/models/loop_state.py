"""Input, state and output of an event loop, for all execution models."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Floats, Ints
from mlsim._jit import inner_kernel, kernel, zeros
from mlsim.application.event_queue import MATCH, Match, Records, dtype_of
from mlsim.application.pe_speeds import Perturbation, Unavailability
from mlsim.application.technique_state import Technique, open_technique
from mlsim.techniques.fixed import random_key, random_size
from mlsim.techniques.technique_entry import RuleSettings
from mlsim.techniques.technique_rules import SS, constant_size

_STEPS = 1 << 16
_BITS = 1 << 53


@kernel
def lock_key(seed_low: int, seed_high: int, number: int) -> int:
    """Return the key of one lock's random numbers."""
    return random_key(seed_low, seed_high + ((number + 1) << 32))


@kernel
def next_attempt(key: int, draw: int, waiting: int, interval: float) -> tuple[int, float]:
    """Draw which of those that wait tries next, and how long after the lock was freed, in s.

    The time is rounded down to the 65,536th part of the interval, so that mathematical libraries that
    differ in the last digit give the same.
    """
    who = random_size(2 * draw, 1, waiting, key) - 1
    u = (random_size(2 * draw + 1, 1, _BITS, key) - 1) / _BITS
    share = 1.0 - (1.0 - u) ** (1.0 / waiting)
    return who, interval * (int(share * _STEPS) / _STEPS)


TIMES = ("finish", "notified_at", "busy", "overhead", "idle", "last_start")
COUNTS = ("chunks", "last_first", "last_size")


class Costs(NamedTuple):
    """Costs and options of an execution model, as in ``docs/reference/loops.md``, "Costs"; times in seconds.

    ``calculation`` and ``piece_time``, which each part of a chunk takes besides its iterations, hold at
    speed 1, ``delay`` at any; ``assignment`` and ``atomic`` are times at a queue. ``polling``,
    ``lowest_rank``: otherwise in order of arrival. ``retry``: between two attempts at a polled lock.
    ``break_every``: how long parts between breaks take that masters choose themselves, 0: they do not.
    ``nowait``: threads go on without a barrier. ``global_p``: what the technique between nodes takes for P,
    0: their number. ``pushed``: the master sends first chunks unasked. ``choose_after``: iterations executed
    between two choices of a technique amid the loop, 0: none is made. ``ahead``: so many iterations before
    its chunk ends a worker asks for the next one, 0: after it. ``seed_low``: the seed's lower 32 bits.
    ``iterations``, ``block``: of the loop, and how many of them share an entry of ``Inputs.prefix``; 0: their
    costs are linear in the index, and ``prefix`` is that of :mod:`mlsim.application.iteration_costs`.
    """

    calculation: float
    assignment: float
    atomic: float
    delay: float
    polling: bool
    retry: float
    break_after: int
    break_time: float
    break_every: float
    piece_time: float
    lowest_rank: bool
    dedicated: bool
    nowait: bool
    global_p: int
    pushed: bool
    choose_after: int
    ahead: int
    seed_low: int
    seed_high: int
    iterations: int
    block: int


class PEStats(NamedTuple):
    """Results of the PEs: ``times`` float64[6, P] in s, ``counts`` int64[3, P]; rows as named above."""

    times: Floats
    counts: Ints


class Rows(NamedTuple):
    """Chunk rows an event loop fills: as many as there are chunks, or 0 where none are kept.

    ``pe`` is int32[n]; ``numbers`` int64[3, n]: step, first, size; ``times`` float64[3, n]: requested, start,
    end. Chunks that end at ``since`` (s) or before have none. ``full`` is the address of a C function that is
    called with n where there is no room for a row: it takes the n rows, and the next ones overwrite them. 0:
    there is always room. ``written``, int64[3]: how many rows in all, and how many since there was no room
    the last time; iterations that were handed out, by which other threads know how far the loop is.
    """

    pe: NDArray[np.int32]
    numbers: Ints
    times: Floats
    since: float
    full: int
    written: Ints


class Inputs(NamedTuple):
    """What ``run`` of every model takes; arrays but those of ``stats`` and ``rows`` are read-only."""

    prefix: Floats
    """float64[N+1], prefix sums of the iteration costs in s at speed 1; of ``Costs.block`` iterations each,
    where more than one share an entry: only for techniques that do not learn from single iterations."""
    speed: Floats
    """float64[P], P >= 1: relative speeds."""
    latency: Floats
    """float64[P], in s: one-way time of a message to PE 0, 0 for PE 0."""
    first: Ints
    """int64[V+1]: node v has the PEs ``first[v]`` to ``first[v + 1] - 1``, one or more. [0]: no nodes."""
    near: Floats
    """float64[P], in s: one-way time of a message to the first PE of its node, 0 for that PE."""
    outer: RuleSettings
    """The technique between whoever comes to the loop's queue."""
    inner: RuleSettings
    """The one inside a node, where weights sum up to the number of its PEs that execute."""
    costs: Costs
    perturbation: Perturbation
    pe_unavailability: Unavailability
    until: float
    """When the loop is ended whatever remains, in s; infinity: never."""
    stats: PEStats
    rows: Rows


class PE:
    """A PE; times in s. See ``LoopOutcome`` for those that are results.

    ``latency``, ``near``: as in ``Inputs``. ``calculation``: of a chunk size. ``thinking``: from an
    atomic's answer leaving the loop's queue to the arrival of the claim that builds on it.
    ``asked``: when it asked for its chunk. ``since``: from when waiting for it is counted. ``pace``: speed
    at which it executed its last chunk, perturbation included. ``spent``, ``waited``, ``took``: executing
    its last chunk, from asking to its start, and from asking to its end. ``barrier``: when it came there.
    ``last_step``: the scheduling step of its last chunk; ``last_part``: iterations of its
    last chunk that were executed at a time, where ``piece_time`` counts; ``parts``, ``squares``: how many
    parts a master's last chunk had, and Σ t_j²/n_j over them (s²), 0: not kept; ``unreported``: 1 if its
    queue does not yet know of that chunk, 2 if the PE was executing it when it asked for another one.
    """

    speed: float
    latency: float
    near: float
    calculation: float
    thinking: float
    asked: float
    since: float
    pace: float
    spent: float
    waited: float
    took: float
    barrier: float
    finish: float
    notified_at: float
    busy: float
    overhead: float
    idle: float
    last_start: float
    chunks: int
    last_first: int
    last_size: int
    last_step: int
    last_part: int
    parts: int
    squares: float
    unreported: int


class Seat:
    """A PE or node at a queue: size claimed (0: none), its step, chunks taken; ``waiter``: see ``enter``."""

    claim: int
    step: int
    taken: int
    waiter: int


class Queue:
    """A queue of iterations, who comes to it, its lock, and the master that serves it; times in s.

    ``number``: 0: the loop's; else node ``number - 1``. ``position``, ``end``, ``step``: what is left,
    and the next scheduling step. ``constant``: the size of chunks if all are equal. ``first``: of the last
    chunk. ``tree``, ``width``, ``seats``: where its events and seats begin. ``first_pe``, ``members``: who
    comes. ``masters``: of them, who do not execute; the others' ``weights`` begin there. ``exhausted``:
    nothing comes any more. ``holder``: PE that refills. ``free``: when its lock is. ``waiting``, ``draws``,
    ``invited``, ``key``: of a polled lock. ``clock``: the master's, or when a size is
    calculated under the lock. ``own_...``: what is left of the master's own chunk, how it was
    executed, and how long its next part may be. ``awaiting``: it has asked
    for a chunk of the node; ``reply_first``, ``got``: the answer.
    ``begun``, ``earlier``: first iteration of the technique at work, and scheduling steps of those before.
    ``executed``, ``choose_at``: iterations known to be executed, and how many make the next choice due.
    """

    number: int
    position: int
    end: int
    step: int
    constant: int
    first: int
    tree: int
    width: int
    seats: int
    first_pe: int
    members: int
    masters: int
    weights: int
    exhausted: int
    holder: int
    free: float
    waiting: int
    draws: int
    invited: int
    key: int
    clock: float
    own_position: int
    own_end: int
    own_step: int
    own_begun: int
    own_seconds: float
    own_length: int
    own_parts: int
    own_squares: float
    awaiting: int
    reply_first: int
    got: int
    begun: int
    earlier: int
    executed: int
    choose_at: int


PE_RECORD, SEAT, QUEUE = dtype_of(PE), dtype_of(Seat), dtype_of(Queue)


class State(NamedTuple):
    """All that an event loop reads and changes. ``queues[0]`` is the loop's, ``queues[1 + v]`` node v's."""

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
    written: Ints
    """That of ``rows``."""
    before: Records[PE]
    """Of each PE the chunk before its last one, where PEs ask ahead and techniques learn."""
    learns: bool


@kernel
def open_state(inputs: Inputs) -> State:
    """Prepare a loop whose PEs have not asked yet."""
    n, p, v_count = inputs.costs.iterations, len(inputs.speed), len(inputs.first) - 1
    inputs.rows.written[:] = 0
    queues, costs = zeros(1 + v_count, QUEUE), inputs.costs
    _lay_out(queues, inputs.first, p, costs)
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
    _introduce(pes, inputs)
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
    """Set who comes to which queue, and where its events and seats are."""
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
def _introduce(pes: Records[PE], inputs: Inputs) -> None:
    """Set what each PE is like."""
    costs, two_levels = inputs.costs, len(inputs.first) > 1
    for pe in range(len(pes)):
        me = pes[pe]
        me.speed, me.pace = inputs.speed[pe], inputs.speed[pe]
        me.latency = inputs.latency[pe]
        me.near = inputs.near[pe] if two_levels else me.latency
        me.calculation = costs.calculation / me.speed + costs.delay
        me.thinking = 2.0 * me.latency + me.calculation
        if not two_levels:  # added up in this order
            me.thinking = 2.0 * me.latency + costs.calculation / me.speed + costs.delay
        me.notified_at = -1.0  # not yet


@inner_kernel
def close_state(pes: Records[PE], written: Ints, until: float, stats: PEStats) -> int:
    """Notify the PEs that were not before that the loop is ended; return how many rows there are."""
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
