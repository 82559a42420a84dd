"""State of a technique at its queues: in a simulation, and in a real run as blocks that ranks pass on."""

from typing import NamedTuple, Protocol

import numpy as np

from mlsim._jit import inlined, inner_kernel, intrinsics, kernel, leaf_kernel, zeros
from mlsim._runtime.arrays import Floats, Ints
from mlsim.techniques import pe_statistics as stats
from mlsim.techniques import rule_layout as layout
from mlsim.techniques import technique_rules as rules
from mlsim.techniques.fixed import random_key
from mlsim.techniques.guided import FRACTION_WORDS, new_guide
from mlsim.techniques.rule_layout import ITERATIONS, KEY, MEMORY, PES, RULE_REALS, USER_OBJECT, USERS

Asker = tuple[int, int, int, int]
"""A request for a chunk: PEs, technique, the requesting PE, and the address of a user-defined technique in
its process."""

Done = tuple[int, float, float, float, int, int]
"""An executed chunk: its size (0: none), its seconds, the seconds between its request
and its start, Σ t_j²/n_j over its pieces of n_j iterations and t_j seconds (0 if not
divided), the number of pieces, its scheduling step."""

NOTHING: Done = (0, 0.0, 0.0, 0.0, 0, 0)
"""No chunk."""

TURN, STEP, POSITION, END, REFILLS, RULE = 0, 1, 2, 3, 4, 5
REALS = RULE + layout.RULE_NUMBERS
NOT_YET, EMPTY = -(1 << 62), -(1 << 62) - 1
"""In place of a size: it is not the PE's turn; it is, and the PE must refill the queue."""
LAST = -1  # in place of the number of refills of a queue: no refill follows
KNOWN, ANY = -1, -2
"""In place of a turn: the PE holds the block; no ticket was drawn."""
_LOOKS = 2_000  # polls of a lock, about 2 µs: enough for another rank to finish its turn, if it has a core
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


@inner_kernel
def _seal_of(block: Ints) -> np.int64:
    """Checksum of all numbers but the last; even and odd places are mixed independently, for speed."""
    even = np.uint64(len(block))
    odd = _FACTOR
    last = len(block) - 1
    for k in range(0, last - 1, 2):
        even = (even ^ np.uint64(block[k])) * _FACTOR
        odd = (odd ^ np.uint64(block[k + 1])) * _FACTOR
        even ^= even >> np.uint64(29)
        odd ^= odd >> np.uint64(29)
    if last % 2 == 1:
        even = (even ^ np.uint64(block[last - 1])) * _FACTOR
    return np.int64(even ^ (odd * _FACTOR))


@kernel
def seal(block: Ints, turn: int) -> None:
    """Mark the block as that of a turn, with its checksum."""
    block[TURN] = turn
    block[len(block) - 1] = _seal_of(block)


@kernel
def is_turn(block: Ints, turn: int) -> bool:
    """Whether the block is complete, and of this turn."""
    return bool(block[TURN] == turn and block[len(block) - 1] == _seal_of(block))


@kernel
def spread_of(done: Done) -> float:
    """Return Σ n_j·(x_j − x̄)² over the pieces of an executed chunk, in s²."""
    size, seconds, squares = done[0], done[1], done[3]
    return max(squares - seconds * (seconds / size), 0.0)


@kernel
def learn_done(
    code: int, measured: Floats, sums: Floats, weights: Floats, pe: int, share: float, done: Done
) -> None:
    """Update an adaptive technique with an executed chunk; ``share``: part of the seconds that counts."""
    size, seconds, waited, pieces = done[0], done[1], done[2], done[4]
    if size == 0:
        return
    seconds += waited if rules.counts_overhead(code) else 0.0
    between = spread_of(done) * share * share if rules.times_iterations(code) else 0.0
    mean = seconds / size * share
    rules.learn_measured(code, measured, sums, weights, pe, size, pieces, seconds * share, mean, between)


@kernel(inline="always")
def _take(block: Ints, asker: Asker, done: Done, now: float) -> tuple[int, int, int]:
    """Take a chunk from a block that the PE holds."""
    p, code, pe, address = asker
    step, first, end = block[STEP], block[POSITION], block[END]
    size = 0
    if first == end:
        step = -1
    else:
        columns = p if rules.remembers(code) else 1
        width = 1
        while width < columns:
            width *= 2
        rule = block[RULE:REALS]
        reals = block[REALS : len(block) - 1].view(np.float64)
        at = RULE_REALS + p
        weights = reals[RULE_REALS:at]
        measured = reals[at : at + stats.ROWS * columns].reshape(stats.ROWS, columns)
        at += stats.ROWS * columns
        if address != 0:
            rule[USERS] = address
        rows, wide = 2, 2 * width
        if code == USER_OBJECT:
            rows, wide = 1, rule[MEMORY]
        sums = reals[at : at + rows * wide].reshape(rows, wide)
        if code == USER_OBJECT:
            size, seconds, waited, _, pieces, last = done
            if size > 0:
                chunk = rules.Executed(pe, last, size, pieces, seconds, waited, spread_of(done))
                rules.learn_object(address, sums, rule[ITERATIONS], rule[PES], chunk)
        elif rules.is_adaptive(code):
            learn_done(code, measured, sums, weights, pe, 1.0, done)
        size = rules.recursive_size(
            rule, reals[:RULE_REALS], weights, measured, sums, step, end - first, pe, now
        )
        if size > 0:
            block[POSITION] = first + size
            block[STEP] = step + 1
    return first, size, step


@kernel
def take_from_copy(block: Ints, asker: Asker, turn: int, done: Done, now: float) -> tuple[int, int, int]:
    """Take a chunk for a PE from a copy of the block of ``turn``, and make it the block of the next turn.

    ``turn`` may be ``KNOWN``; ``done`` is the chunk that the PE executed since its last request, ``now`` the
    time on the clock of all ranks, in s, where the technique follows chunks. Returns first iteration, size
    and step; if nothing is left, size 0 and step -1. A size below 1 with another step is an error of a
    user-defined technique. If it is not the turn, the block is unchanged: the turn and ``NOT_YET``.
    """
    if turn != KNOWN and not is_turn(block, turn):
        return turn, NOT_YET, 0
    chunk = _take(block, asker, done, now)
    seal(block, block[TURN] + 1)
    return chunk


@kernel
def draw_ticket(memory: Ints) -> int:
    """Draw a ticket for a block in shared memory; the number of the next ticket precedes the block."""
    return intrinsics.fetch_add(memory.ctypes.data, 1)


@kernel(inline="always")
def _try(memory: Ints, turn: int) -> bool:
    """Lock a shared block if it is free and no earlier ticket is waiting."""
    tickets = memory.ctypes.data
    served, held = tickets + 8 * (1 + TURN), tickets + 8 * (len(memory) - 1)
    # The block shares a cache line with the tickets: reading these at each poll would delay the holder.
    if intrinsics.load_acquire(held) != 0 or intrinsics.load_acquire(served) != (
        intrinsics.load_acquire(tickets) if turn == ANY else turn
    ):
        return False
    if intrinsics.exchange(held, 1) == 0:
        if turn != ANY:
            intrinsics.store_release(served, turn + 1)
        return True
    return False


@kernel
def seize(memory: Ints, turn: int) -> bool:
    """Lock a shared block, with a ticket or ``ANY``; return False if that takes long."""
    looks = 0
    while not _try(memory, turn):
        looks += 1
        if looks == _LOOKS:
            return False
    return True


@kernel
def release(memory: Ints) -> None:
    """Unlock a shared block."""
    intrinsics.store_release(memory.ctypes.data + 8 * (len(memory) - 1), 0)


@kernel
def take_shared(memory: Ints, asker: Asker, turn: int, done: Done, now: float) -> tuple[int, int, int]:
    """Take a chunk for a PE from a block in shared memory, and unlock the block.

    ``memory`` is ``[ticket, block...]``, shared by ranks. ``turn``: a ticket, ``ANY``, or ``KNOWN`` if the
    PE holds the block. The rest is as in :func:`take_from_copy`. After ``EMPTY`` the PE holds the block until
    it has refilled the queue, or noted that no refill follows, and calls this again.
    """
    if turn != KNOWN and not seize(memory, turn):
        return turn, NOT_YET, 0
    block = memory[1:]
    if block[POSITION] == block[END] and block[REFILLS] != LAST:
        return 0, EMPTY, 0
    chunk = _take(block, asker, done, now)
    release(memory)
    return chunk


_NUMBERS = 32


class Executor(Protocol):
    """The executor of a chunk: its speed, its last chunk, and the times of that in s."""

    pace: float
    spent: float
    waited: float
    last_first: int
    last_size: int
    last_step: int
    last_part: int
    parts: int
    squares: float


class Technique(NamedTuple):
    """A technique; the arrays of ``rules``, ``reals``, ``measured``, ``sums`` have an entry per queue."""

    code: int  # this and the next three as in ``RuleSettings``
    min_chunk: int
    parameters: Floats
    bad_size: Ints
    locks: bool  # reads the remaining iterations
    learns: bool  # within a loop
    remembers: bool  # has numbers for every PE
    whole: bool  # learns from the time since the request
    rules: Ints  # this and the next two: see ``reset_rule``
    reals: Floats
    guide: Ints
    weights: Floats  # of the executors
    measured: Floats  # statistics known at a queue
    sums: Floats
    own_measured: Floats  # those that nodes have measured but not yet published; without nodes the same
    own_sums: Floats


@inner_kernel
def open_technique(
    settings: layout.RuleSettings, n: int, queues: int, most: int, by_nodes: bool
) -> Technique:
    """Initialise a technique at queues of n iterations with at most ``most`` executors."""
    code, knows = settings.code, rules.remembers(settings.code)
    rule, reals = rules.new_rule()
    one_measured, one_sums = stats.new_measurements(most if knows else 1)
    if code == USER_OBJECT:
        one_measured, one_sums = rules.new_memory(int(settings.parameters[layout.ADDRESS]), most)
    kept = queues if knows else 1
    measured = zeros((kept, one_measured.shape[0], one_measured.shape[1]), np.float64)
    sums = zeros((kept, one_sums.shape[0], one_sums.shape[1]), np.float64)
    numbers, all_reals = zeros((queues, len(rule)), np.int64), zeros((queues, len(reals)), np.float64)
    rules.reset_rule(numbers[0], all_reals[0], code, n, most, settings.min_chunk, settings.parameters)
    if code == USER_OBJECT and n > 0:
        rules.begin_object(numbers[0, USERS], sums[0], n, most)
    return Technique(
        code,
        settings.min_chunk,
        settings.parameters,
        settings.bad_size,
        rules.needs_remaining(code),
        rules.is_adaptive(code),
        knows,
        rules.counts_overhead(code),
        numbers,
        all_reals,
        new_guide(FRACTION_WORDS),
        settings.weights.copy(),
        measured,
        sums,
        zeros(measured.shape, np.float64) if by_nodes else measured,
        zeros(sums.shape, np.float64) if by_nodes else sums,
    )


@inlined
def size_from_rest(
    t: Technique, queue: int, weights: Floats, step: int, remaining: int, executor: int, now: float
) -> int:
    """Size the next chunk of a queue from the remaining iterations; below 1: a wrong user-defined size."""
    known = queue if t.remembers else 0
    rule, reals, measured, sums = t.rules[queue], t.reals[queue], t.measured[known], t.sums[known]
    return rules.recursive_size(rule, reals, weights, measured, sums, step, remaining, executor, now)


class Learned(NamedTuple):
    """The statistics of a technique at one queue that a chunk changes."""

    measured: Floats
    sums: Floats
    weights: Floats
    rule: Ints
    gathers: bool  # whether a node gathers chunks for its next report, so that a class learns later


@leaf_kernel
def learn_chunk(
    t: Technique,
    known: Learned,
    executor: int,
    me: Executor,
    prefix: Floats,
    each: float,
    share: float,
    seconds: float,
) -> None:
    """Learn from a PE's last chunk, as from one of an executor ``share`` times as fast.

    ``each``: time per part of the chunk besides its iterations, in s at speed 1; 0: parts were not recorded.
    """
    pieces, size, rule = int(t.parameters[layout.PIECES]), me.last_size, known.rule
    done = size, me.spent, me.waited, me.squares, me.parts, me.last_step
    if me.parts > 0 and pieces > 0 and rules.times_iterations(t.code):
        learn_done(t.code, known.measured, known.sums, known.weights, executor, 1.0 / share, done)
        return
    length = me.last_part if each > 0.0 else stats.timed_length(size, pieces)
    if t.code != USER_OBJECT:
        pace = me.pace * share
        chunk = stats.SimulatedChunk(prefix, pace, me.last_first, size, seconds / share, pieces, length, each)
        rules.learn(t.code, known.measured, known.sums, known.weights, executor, chunk)
        return
    if me.parts > 0:
        parts, spread, pace = me.parts, spread_of(done), share
    else:
        parts, spread = stats.spread_of_parts(prefix, me.last_first, size, length, each)
        pace = me.pace * share
    spread /= pace * pace
    executed = rules.Executed(
        executor, me.last_step, size, parts, me.spent / share, me.waited / share, spread
    )
    if known.gathers:
        rules.gather_chunk(known.measured, executed)
    else:
        rules.learn_object(rule[USERS], known.sums, rule[ITERATIONS], rule[PES], executed)


@leaf_kernel
def note_bad_size(t: Technique, step: int, executor: int, size: int) -> None:
    """Record where a user-defined technique returned a size below 1."""
    t.bad_size[0], t.bad_size[1], t.bad_size[2] = step, executor, size


@leaf_kernel
def publish_gathered(t: Technique, node: int) -> None:
    """Report to a user-defined class between nodes the chunks that a node has gathered."""
    rule = t.rules[0]
    rules.tell_of_node(rule[USERS], t.own_measured[0], t.sums[0], rule[ITERATIONS], rule[PES], node)


@kernel
def publish(
    own: Floats, own_sums: Floats, measured: Floats, sums: Floats, weights: Floats, node: int
) -> None:
    """Publish the measurements (``own``) of a node."""
    leaf = sums.shape[1] // 2 + node
    if own_sums[stats.RATE, leaf] > 0.0:
        if sums[stats.RATE, leaf] == 0.0:
            sums[0, 0] += 1.0
            sums[1, 0] += weights[node]
        stats.put(sums, stats.RATE, node, own_sums[stats.RATE, leaf])
        stats.put(sums, stats.RISK, node, own_sums[stats.RISK, leaf])
    for row in range(len(measured)):
        measured[row, node] = own[row, node]


@kernel
def refill_rule(
    rule: Ints,
    reals: Floats,
    code: int,
    n: int,
    p: int,
    min_chunk: int,
    parameters: Floats,
    node: int,
    number: int,
) -> None:
    """Prepare the inside technique for the ``number``-th chunk of a node, of n iterations.

    RND gets its own random numbers for each chunk.
    """
    rules.reset_rule(rule, reals, code, n, p, min_chunk, parameters)
    rule[KEY] = random_key(rule[KEY], (node << _NUMBERS) + number)


@kernel
def take_refilled(
    memory: Ints,
    asker: Asker,
    min_chunk: int,
    parameters: Floats,
    node: int,
    first: int,
    size: int,
    now: float,
) -> tuple[int, int, int]:
    """Refill the queue of a block in shared memory with a chunk of the node, and take a chunk for a PE.

    The PE must hold the block, and releases it; see ``take_shared``.
    """
    p, code, _, address = asker
    block = memory[1:]
    block[STEP], block[POSITION], block[END] = 0, first, first + size
    block[REFILLS] += 1
    rule, reals = block[RULE:REALS], block[REALS : len(block) - 1].view(np.float64)
    refill_rule(rule, reals[:RULE_REALS], code, size, p, min_chunk, parameters, node, block[REFILLS])
    if code == USER_OBJECT:
        kept = reals[RULE_REALS + p + stats.ROWS * (p if rules.remembers(code) else 1) :]
        rule[MEMORY] = len(kept)
        rules.begin_object(address, kept.reshape(1, len(kept)), size, p)
    return take_shared(memory, asker, KNOWN, NOTHING, now)
