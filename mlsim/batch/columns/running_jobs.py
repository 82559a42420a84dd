"""The running jobs, in order of their expected ends."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import apart_kernel, kernel, leaf_kernel
from mlsim._runtime.arrays import Ints
from mlsim.batch.columns import job_columns as col
from mlsim.batch.columns.job_columns import Columns, change_room, columns_at, goes_before

_SHIFT: Final = 7
_SIZE: Final = 1 << _SHIFT
_MASK: Final = _SIZE - 1
_ORDER, _HELD = range(2)


def running_arrays(capacity: int, old: Mapping[str, NDArray[Any]] | None = None) -> dict[str, NDArray[Any]]:
    """Return the arrays of running jobs that are fields of :class:`mlsim.batch.columns.col.Columns`.

    They hold ``capacity`` jobs; the content of ``old`` arrays is kept.
    """
    n_blocks = 4 * capacity // _SIZE + 4
    running, blocks = np.empty(n_blocks * _SIZE, np.int64), np.zeros((2, n_blocks), np.int64)
    blocks[_ORDER] = np.arange(n_blocks)
    if old:
        running[: len(old["running"])] = old["running"]
        blocks[:, : old["blocks"].shape[1]] = old["blocks"]
    return {"running": running, "blocks": blocks}


def running_slots(columns: Columns) -> Ints:
    """Return the slots of the running jobs, in order of expected end."""
    order, held = columns.blocks[_ORDER, : columns.counts[col.BLOCKS]], columns.blocks[_HELD]
    slots: Ints = columns.running.reshape(-1, _SIZE)[order][np.arange(_SIZE) < held[order, None]]
    return slots


# Going through them


@leaf_kernel
def running_at(place: int, columns: Columns) -> int:
    """Return the slot of the running job at a place."""
    block = columns.blocks[_ORDER, place >> _SHIFT]
    return int(columns.running[(block << _SHIFT) + (place & _MASK)])


@leaf_kernel
def next_running(place: int, columns: Columns) -> int:
    """Return the place after a place."""
    at = place >> _SHIFT
    if (place & _MASK) + 1 < columns.blocks[_HELD, columns.blocks[_ORDER, at]]:
        return place + 1
    return (at + 1) << _SHIFT


@leaf_kernel
def end_of_running(columns: Columns) -> int:
    """Return the place after the last one; the first one is 0."""
    return int(columns.counts[col.BLOCKS] << _SHIFT)


@apart_kernel
def first_after(time: float, columns: Columns) -> int:
    """Find the place of the first running job whose expected end lies after ``time``."""
    low, high = 0, columns.counts[col.BLOCKS]
    while low < high:  # blocks that begin up to the time
        middle = (low + high) >> 1
        if columns.floats[col.EXPECTED, running_at(middle << _SHIFT, columns)] <= time:
            low = middle + 1
        else:
            high = middle
    if low == 0:
        return 0
    begin = (low - 1) << _SHIFT
    low, high = 1, columns.blocks[_HELD, columns.blocks[_ORDER, low - 1]]
    end = high
    while low < high:
        middle = (low + high) >> 1
        if columns.floats[col.EXPECTED, running_at(begin + middle, columns)] <= time:
            low = middle + 1
        else:
            high = middle
    return int(begin + low if low < end else begin + _SIZE)


@leaf_kernel
def is_due(slot: int, now: float, columns: Columns) -> bool:
    """Whether a running job whose expected end has come has not outlived it: it ends at this very time.

    Its end has only not been handled yet, as with ``ties: ends-first``; or it starts now, for no time.
    """
    return bool(columns.floats[col.PLANNED, slot] == now or columns.floats[col.START, slot] == now)


# Changing them


@apart_kernel
def _block_of(slot: int, columns: Columns) -> int:
    """Find which block in their order a job belongs to."""
    low, high = 1, columns.counts[col.BLOCKS]
    while low < high:
        middle = (low + high) >> 1
        if goes_before(
            slot, running_at(middle << _SHIFT, columns), col.EXPECTED, columns.ints, columns.floats
        ):
            high = middle
        else:
            low = middle + 1
    return int(low - 1)


@apart_kernel
def _place_in(at: int, slot: int, columns: Columns) -> int:
    """Find how many jobs of a block go before this one."""
    low, high = 0, columns.blocks[_HELD, columns.blocks[_ORDER, at]]
    while low < high:
        middle = (low + high) >> 1
        other = running_at((at << _SHIFT) + middle, columns)
        if goes_before(other, slot, col.EXPECTED, columns.ints, columns.floats):
            low = middle + 1
        else:
            high = middle
    return int(low)


@apart_kernel
def _open_block(at: int, columns: Columns) -> int:
    """Insert an empty block at a place in the order; return it."""
    n, order = columns.counts[col.BLOCKS], columns.blocks[_ORDER]
    block = order[n]
    for k in range(n, at, -1):
        order[k] = order[k - 1]
    order[at], columns.blocks[_HELD, block] = block, 0
    columns.counts[col.BLOCKS] = n + 1
    return int(block)


@apart_kernel
def _close_block(at: int, columns: Columns) -> None:
    """Remove a block from the order."""
    n, order = columns.counts[col.BLOCKS] - 1, columns.blocks[_ORDER]
    block = order[at]
    for k in range(at, n):
        order[k] = order[k + 1]
    order[n] = block
    columns.counts[col.BLOCKS] = n


@apart_kernel
def _move(block: int, first: int, other: int, columns: Columns) -> None:
    """Move the jobs of a block, from one on, behind those of another block."""
    held, source = columns.blocks[_HELD], (block << _SHIFT) + first
    target, count = (other << _SHIFT) + held[other], held[block] - first
    for k in range(count):
        columns.running[target + k] = columns.running[source + k]
    held[block] -= count
    held[other] += count


@apart_kernel
def _join(at: int, columns: Columns) -> None:
    """Join a block with the next one, if they hold few jobs."""
    if at < 0 or at + 1 >= columns.counts[col.BLOCKS]:
        return
    block, other = columns.blocks[_ORDER, at], columns.blocks[_ORDER, at + 1]
    if columns.blocks[_HELD, block] + columns.blocks[_HELD, other] <= _SIZE // 2:
        _move(other, 0, block, columns)
        _close_block(at + 1, columns)


@apart_kernel
def add_running(slot: int, columns: Columns) -> None:
    """Add a job to the running ones."""
    if columns.counts[col.BLOCKS] == 0:
        _open_block(0, columns)
    at = _block_of(slot, columns)
    block = columns.blocks[_ORDER, at]
    if columns.blocks[_HELD, block] == _SIZE:
        _move(block, _SIZE // 2, _open_block(at + 1, columns), columns)
        at = _block_of(slot, columns)
        block = columns.blocks[_ORDER, at]
    first = block << _SHIFT
    place = first + _place_in(at, slot, columns)
    for k in range(first + columns.blocks[_HELD, block], place, -1):
        columns.running[k] = columns.running[k - 1]
    columns.running[place] = slot
    columns.blocks[_HELD, block] += 1


@apart_kernel
def remove_running(slot: int, columns: Columns) -> None:
    """Remove a job from the running ones."""
    at = _block_of(slot, columns)
    block = columns.blocks[_ORDER, at]
    first, held = block << _SHIFT, columns.blocks[_HELD, block] - 1
    for k in range(first + _place_in(at, slot, columns), first + held):
        columns.running[k] = columns.running[k + 1]
    columns.blocks[_HELD, block] = held
    if held == 0:
        _close_block(at, columns)
    elif held <= _SIZE // 2:
        _join(at, columns)
        _join(at - 1, columns)


@kernel
def expect_end(slot: int, end: float, address: int) -> None:
    """Expect a running job to end at another time (s)."""
    columns = columns_at(address)
    remove_running(slot, columns)
    columns.floats[col.EXPECTED, slot] = end
    change_room(columns)
    add_running(slot, columns)


OVERDUE_GRACE = 1.0  # seconds after now at which a job that outlived its estimate is expected to end


@kernel
def leave_time(end: float, start: float, walltime: float, kills: bool) -> float:
    """Return when a job leaves that would end by itself at ``end`` (s): before that, if it is killed.

    The limit is the walltime, what the user asked; the dispatcher may see a shorter estimate. A job that ends
    exactly at the limit completes.
    """
    limit = start + walltime
    return limit if kills and end > limit else end


@leaf_kernel
def overdue_end(now: float, columns: Columns) -> float:
    """Return when jobs that outlived their estimates are expected to end; AccaSim believes in their past."""
    return now if columns.rules[col.EASY_AS] == col.ACCASIM else now + OVERDUE_GRACE


@leaf_kernel
def reserved_time(slot: int, columns: Columns) -> float:
    """Return for how long (s) a waiting job asks for room: its estimate, or how long it will run (cqsim)."""
    if columns.rules[col.EASY_AS] != col.CQSIM:
        return float(columns.floats[col.ESTIMATE, slot])
    kills = columns.rules[col.KILLS] != 0
    return leave_time(columns.floats[col.RUN, slot], 0.0, columns.floats[col.WALLTIME, slot], kills)


@leaf_kernel
def stay_end(begin: float, duration: float) -> float:
    """Return when a stay of so long (s) is over, later than its begin even where rounding loses its length.

    Else two jobs of hardly any length could have the same units.
    """
    end = begin + duration
    return end if end > begin else float(np.nextafter(begin, np.inf))


@leaf_kernel
def open_profile(segment: int, columns: Columns) -> None:
    """Begin with what is free now."""
    columns.profile_free[segment] = columns.counts[col.FREE]


@leaf_kernel
def copy_segment(segment: int, source: int, columns: Columns) -> None:
    """Copy the free units of a segment."""
    columns.profile_free[segment] = columns.profile_free[source]


@leaf_kernel
def expect_held(slot: int, segment: int, columns: Columns) -> None:
    """Add to a segment the units that a job still holds: not again those that it has released early."""
    columns.profile_free[segment] += columns.ints[col.HELD, slot]


@leaf_kernel
def fits_segment(slot: int, segment: int, columns: Columns) -> bool:
    """Whether enough units for a job are free in a segment."""
    return bool(columns.ints[col.UNITS, slot] <= columns.profile_free[segment])


@leaf_kernel
def change_segments(slot: int, first: int, last: int, sign: int, columns: Columns) -> None:
    """Add the units of a job to segments, up to the last one (sign 1), or take them (-1)."""
    units, segment = sign * columns.ints[col.UNITS, slot], first
    while segment != last:
        columns.profile_free[segment] += units
        segment = columns.profile_next[segment]


@leaf_kernel
def is_sound(segment: int, columns: Columns) -> bool:
    """Whether a segment is non-negative."""
    return bool(columns.profile_free[segment] >= 0)
