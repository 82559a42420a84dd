"""The profile where units are only counted: how many are expected to be free from which time on."""

from __future__ import annotations

from mlsim._jit import leaf_kernel
from mlsim.batch.columns.columns import FREE, SEGMENTS, Columns
from mlsim.batch.columns.table import HELD, UNITS

__all__ = [
    "change_segments",
    "copy_segment",
    "expect_held",
    "fits_segment",
    "is_alike",
    "is_sound",
    "open_profile",
]


@leaf_kernel
def open_profile(columns: Columns) -> None:
    """Begin with what is free now."""
    columns.profile_free[0] = columns.counts[FREE]


@leaf_kernel
def copy_segment(segment: int, source: int, columns: Columns) -> None:
    """Have as many units free in a segment as in another."""
    columns.profile_free[segment] = columns.profile_free[source]


@leaf_kernel
def expect_held(slot: int, segment: int, columns: Columns) -> None:
    """Expect back in a segment what a job still holds: not again what it has released early."""
    columns.profile_free[segment] += columns.ints[HELD, slot]


@leaf_kernel
def is_alike(segment: int, other: int, columns: Columns) -> bool:
    """Whether as many units are free in two segments."""
    return bool(columns.profile_free[segment] == columns.profile_free[other])


@leaf_kernel
def fits_segment(slot: int, segment: int, columns: Columns) -> bool:
    """Whether enough units for a job are free in a segment."""
    return bool(columns.ints[UNITS, slot] <= columns.profile_free[segment])


@leaf_kernel
def change_segments(slot: int, first: int, last: int, sign: int, columns: Columns) -> None:
    """Add the units of a job to segments (sign 1), or take them (-1)."""
    units = sign * columns.ints[UNITS, slot]
    for segment in range(first, last):
        columns.profile_free[segment] += units


@leaf_kernel
def is_sound(columns: Columns) -> bool:
    """Whether the profile is non-negative."""
    for segment in range(columns.counts[SEGMENTS]):  # noqa: SIM110  # a kernel knows no generators
        if columns.profile_free[segment] < 0:
            return False
    return True
