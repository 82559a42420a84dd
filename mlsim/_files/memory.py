"""How much memory this process may use, as far as the system says."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

__all__ = ["memory_limit"]

VARIABLE = "MLSIM_MEMORY"
_GROUPS = Path("/sys/fs/cgroup")
_UNKNOWN = 4 << 30
"""Taken where the system says nothing."""


def memory_limit() -> int:
    """Return the bytes that this process may use: $MLSIM_MEMORY (in GB), or else what the system allows.

    That is the least of the physical memory, the limit of each control group (versions 1 and 2) that the
    process is in, and the limit of its address space.
    """
    given = os.environ.get(VARIABLE, "")
    try:
        gigabytes = float(given)
    except ValueError:
        return _allowed()
    return int(gigabytes * 1e9) if 0 < gigabytes < 1e9 else _allowed()


@cache
def _allowed() -> int:
    return min([*_physical(), *_of_groups(), *_address_space()], default=_UNKNOWN)


def _physical() -> Iterator[int]:
    try:
        yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return  # this system does not say


def _address_space() -> Iterator[int]:
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY:
        yield soft


def _of_groups() -> Iterator[int]:
    """Yield the memory limit, in bytes, of every control group from the process' own to the root."""
    for group, name in _groups():
        for place in (group, *group.parents):
            if not place.is_relative_to(_GROUPS):
                break
            try:
                text = (place / name).read_text(encoding="ascii").strip()
            except (OSError, UnicodeDecodeError):
                continue  # no such file here: no limit at this level
            if text.isdecimal():
                yield int(text)


def _groups() -> Iterator[tuple[Path, str]]:
    """Yield the control groups that limit the process' memory: directory, and the limit's file name there."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return  # not Linux
    for line in lines:
        _, controllers, group = (line.split(":", 2) + ["", ""])[:3]
        if not controllers:
            yield _GROUPS / group.lstrip("/"), "memory.max"
        elif "memory" in controllers.split(","):
            yield _GROUPS / "memory" / group.lstrip("/"), "memory.limit_in_bytes"
