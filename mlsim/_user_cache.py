"""The user's cache directory, where one is known."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["user_cache"]


def user_cache() -> Path | None:
    """Return the directory for mlsim in $XDG_CACHE_HOME or ~/.cache; None where no home directory is known.

    A container's user may have neither the variable HOME nor an entry among the system's users.
    """
    place = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    found = os.path.expanduser(place)
    return Path(found, "mlsim") if os.path.isabs(found) else None
