"""The profile where units are only counted: how many are expected to be free from which time on."""

from __future__ import annotations

from mlsim._jit import leaf_kernel
from mlsim.batch.columns.columns import FREE, Columns
from mlsim.batch.columns.table import HELD, UNITS

__all__ = [
    "change_segments",
    "copy_segment",
    "expect_held",
    "fits_segment",
    "is_sound",
    "open_profile",
]


@leaf_kernel
def open_profile(segment: int, columns: Columns) -> None:
    """Begin with what is free now."""
    columns.profile_free[segment] = columns.counts[FREE]


@leaf_kernel
def copy_segment(segment: int, source: int, columns: Columns) -> None:
    """Have as many units free in a segment as in another."""
    columns.profile_free[segment] = columns.profile_free[source]


@leaf_kernel
def expect_held(slot: int, segment: int, columns: Columns) -> None:
    """Expect back in a segment what a job still holds: not again what it has released early."""
    columns.profile_free[segment] += columns.ints[HELD, slot]


@leaf_kernel
def fits_segment(slot: int, segment: int, columns: Columns) -> bool:
    """Whether enough units for a job are free in a segment."""
    return bool(columns.ints[UNITS, slot] <= columns.profile_free[segment])


@leaf_kernel
def change_segments(slot: int, first: int, last: int, sign: int, columns: Columns) -> None:
    """Add the units of a job to segments, up to the last one (sign 1), or take them (-1)."""
    units, segment = sign * columns.ints[UNITS, slot], first
    while segment != last:
        columns.profile_free[segment] += units
        segment = columns.profile_next[segment]


@leaf_kernel
def is_sound(segment: int, columns: Columns) -> bool:
    """Whether a segment is non-negative."""
    return bool(columns.profile_free[segment] >= 0)
