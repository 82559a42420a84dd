"""State of a technique in a real run: blocks of 8-byte numbers that ranks pass on."""

import numpy as np

from mlsim._jit import exchange, fetch_add, inner_kernel, kernel, load_acquire, store_release
from mlsim._runtime.arrays import Floats, Ints
from mlsim.techniques.pe_statistics import ROWS
from mlsim.techniques.technique_entry import (
    ITERATIONS,
    MEMORY,
    PES,
    RULE_NUMBERS,
    RULE_REALS,
    USER_OBJECT,
    USERS,
)
from mlsim.techniques.technique_rules import (
    Executed,
    counts_overhead,
    is_adaptive,
    learn_measured,
    learn_object,
    recursive_size,
    remembers,
    times_iterations,
)

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
REALS = RULE + RULE_NUMBERS
NOT_YET, EMPTY = -(1 << 62), -(1 << 62) - 1
"""In place of a size: it is not the PE's turn; it is, and the PE must refill the queue."""
LAST = -1  # in place of the number of refills of a queue: no refill follows
KNOWN, ANY = -1, -2
"""In place of a turn: the PE holds the block; no ticket was drawn."""
_LOOKS = 2_000  # polls of a lock, about 2 µs: enough for another rank to finish its turn, if it has a core
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


@inner_kernel
def _seal_of(block: Ints) -> int:
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
    return np.int64(even ^ (odd * _FACTOR))  # type: ignore[return-value]  # an int to kernels


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
    seconds += waited if counts_overhead(code) else 0.0
    between = spread_of(done) * share * share if times_iterations(code) else 0.0
    mean = seconds / size * share
    learn_measured(code, measured, sums, weights, pe, size, pieces, seconds * share, mean, between)


@kernel(inline="always")
def _take(block: Ints, asker: Asker, done: Done, now: float) -> tuple[int, int, int]:
    """Take a chunk from a block that the PE holds."""
    p, code, pe, address = asker
    step, first, end = block[STEP], block[POSITION], block[END]
    size = 0
    if first == end:
        step = -1
    else:
        columns = p if remembers(code) else 1
        width = 1
        while width < columns:
            width *= 2
        rule = block[RULE:REALS]
        reals = block[REALS : len(block) - 1].view(np.float64)
        at = RULE_REALS + p
        weights = reals[RULE_REALS:at]
        measured = reals[at : at + ROWS * columns].reshape(ROWS, columns)
        at += ROWS * columns
        if address != 0:
            rule[USERS] = address
        rows, wide = 2, 2 * width
        if code == USER_OBJECT:
            rows, wide = 1, rule[MEMORY]
        sums = reals[at : at + rows * wide].reshape(rows, wide)
        if code == USER_OBJECT:
            size, seconds, waited, _, pieces, last = done
            if size > 0:
                chunk = Executed(pe, last, size, pieces, seconds, waited, spread_of(done))
                learn_object(address, sums, rule[ITERATIONS], rule[PES], chunk)
        elif is_adaptive(code):
            learn_done(code, measured, sums, weights, pe, 1.0, done)
        size = recursive_size(rule, reals[:RULE_REALS], weights, measured, sums, step, end - first, pe, now)
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
    return fetch_add(memory.ctypes.data, 1)


@kernel(inline="always")
def _try(memory: Ints, turn: int) -> bool:
    """Lock a shared block if it is free and no earlier ticket is waiting."""
    tickets = memory.ctypes.data
    served, held = tickets + 8 * (1 + TURN), tickets + 8 * (len(memory) - 1)
    # The block shares a cache line with the tickets: reading these at each poll would delay the holder.
    if load_acquire(held) != 0 or load_acquire(served) != (load_acquire(tickets) if turn == ANY else turn):
        return False
    if exchange(held, 1) == 0:
        if turn != ANY:
            store_release(served, turn + 1)
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
    store_release(memory.ctypes.data + 8 * (len(memory) - 1), 0)


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
