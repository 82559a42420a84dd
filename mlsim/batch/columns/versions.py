"""The version of the room: one number by which what is kept between passes tells whether it still holds.

Every step that changes who holds what, what is in use or when it is expected back makes a new version. What
is kept carries the version that it is of, and is out of date unless whoever changes the room also changes it,
and says so with :func:`keep_profile`.
"""

from __future__ import annotations

from mlsim._jit import leaf_kernel
from mlsim.batch.columns.columns import KEPT, ROOM, Columns

__all__ = ["change_room", "forget_profile", "is_profile_kept", "keep_profile"]


@leaf_kernel
def change_room(columns: Columns) -> None:
    """Make a new version of the room."""
    columns.counts[ROOM] += 1


@leaf_kernel
def keep_profile(columns: Columns) -> None:
    """Have the profile be of the room as it is now."""
    columns.counts[KEPT] = columns.counts[ROOM] + 1  # 0 is that of no profile


@leaf_kernel
def forget_profile(columns: Columns) -> None:
    """Have the profile be of no room."""
    columns.counts[KEPT] = 0


@leaf_kernel
def is_profile_kept(columns: Columns) -> bool:
    """Whether the profile is of the room as it is now."""
    return bool(columns.counts[KEPT] == columns.counts[ROOM] + 1)
