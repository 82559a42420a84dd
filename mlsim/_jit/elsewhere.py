"""Rooms whose kernels another process is compiling: who needs one of them waits, and finds it on disk."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from mlsim._jit.announcing import announcer
from mlsim._jit.mode import INTERPRETED, is_usual
from mlsim._jit.store import is_kept, is_shared

__all__ = ["is_compiled", "no_longer_elsewhere", "room_of", "wait_for_room", "while_elsewhere"]

_waits: dict[str, Callable[[], object]] = {}


def is_compiled(room: str, kernel: str) -> bool:
    """Whether a kernel of a room (``FOLDERS.MODULE.NAME`` in it) need not be compiled ahead.

    It is on disk, or this process would not look for it there.
    """
    if INTERPRETED or not is_usual() or not is_shared():
        return True
    module, _, name = f"mlsim.{room}.{kernel}".rpartition(".")
    key = getattr(import_module(module), name).key
    return key is None or is_kept(module, name, key)


def room_of(function: Any) -> str:
    """Return the folder of the package in which a function is written."""
    parts = function.__module__.split(".")
    return parts[1] if parts[0] == "mlsim" and len(parts) > 2 else ""


def while_elsewhere(room: str, wait: Callable[[], object]) -> None:
    """Have the first who needs a kernel of a room that is not on disk call ``wait``."""
    _waits[room] = wait


def no_longer_elsewhere(room: str) -> None:
    """Have nobody wait for a room."""
    _waits.pop(room, None)


def wait_for_room(room: str) -> bool:
    """Wait for those who compile the kernels of a room; whether there were any."""
    wait = _waits.pop(room, None)
    if wait is None:
        return False
    announcer.begin()
    try:
        wait()
    finally:
        announcer.end()
    return True
