"""Return of unused memory of the process to the system."""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any


@contextmanager
def importing() -> Iterator[None]:
    """Collect no garbage in this block, which imports: modules make little, and looking takes long.

    To look for it takes a seventh of the time of a short run.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def load_for_good(*modules: str) -> None:
    """Import modules, and exclude all objects that exist then from garbage collection.

    For commands: what modules leave (140,000 objects with a simulation's) stays to the end of the process,
    and each collection would spend 0.1 s on it, a handful of times per run.
    """
    with importing():
        for module in modules:
            importlib.import_module(module)
        if not gc.get_freeze_count():  # once a process: garbage of earlier runs would be kept as well
            gc.freeze()


def keep_little() -> None:
    """Make Polars return freed memory at once, unless it is already loaded or configured otherwise.

    Its allocator (jemalloc) keeps about 20 MB of a run's otherwise, some for as long as the process lasts.
    """
    if "polars" not in sys.modules:
        os.environ.setdefault("_RJEM_MALLOC_CONF", "dirty_decay_ms:0,muzzy_decay_ms:0")


def start_no_threads() -> None:
    """Keep NumPy from starting threads for linear algebra, unless it is loaded or configured otherwise.

    For commands: mlsim has no use for them, and to start them takes 40 ms of CPU time on two cores. Processes
    that a command starts inherit it.
    """
    if "numpy" not in sys.modules and not any(name in os.environ for name in _THREADS):
        os.environ[_THREADS[0]] = "1"


def without_colours() -> None:
    """Keep Numba from writing colour codes, unless it is loaded or configured otherwise.

    For commands and ranks: where colorama is installed, Numba has it write such codes to a terminal when the
    process ends, also where a launcher gives each rank a terminal and forwards its output.
    """
    os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")


_THREADS = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")
"""Variables that OpenBLAS heeds, in this order."""


def let_go_of_freed() -> None:
    """Return freed memory that the allocator keeps to the system, where it supports that (glibc)."""
    if hasattr(_libc(), "malloc_trim"):
        _libc().malloc_trim(0)


def give_back(large: bool) -> None:
    """Release garbage and freed memory where there is much data; it takes long."""
    if large:
        gc.collect()
        let_go_of_freed()


@cache
def _libc() -> Any:
    return ctypes.CDLL(None)
