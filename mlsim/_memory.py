"""Memory that the process has and does not need any more, given back to the system."""

from __future__ import annotations

import ctypes
import gc
import importlib
import mmap
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

__all__ = [
    "give_back",
    "importing",
    "keep_little",
    "let_go_of_compiler",
    "let_go_of_freed",
    "load_for_good",
    "start_no_threads",
    "without_colours",
]


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
    """Import modules, and let searches for garbage pass over everything that is there then.

    For commands: what modules leave (140,000 objects with a simulation's) stays to the end of the process,
    and looking through it takes 0.1 s each time, of which a run has a handful.
    """
    with importing():
        for module in modules:
            importlib.import_module(module)
        if not gc.get_freeze_count():  # once a process: garbage of earlier runs would be kept as well
            gc.freeze()


def keep_little() -> None:
    """Have Polars give freed memory back at once, if it is not loaded yet and nobody has told it otherwise.

    Its allocator (jemalloc) keeps about 20 MB of a run's otherwise, some for as long as the process lasts.
    """
    if "polars" not in sys.modules:
        os.environ.setdefault("_RJEM_MALLOC_CONF", "dirty_decay_ms:0,muzzy_decay_ms:0")


def start_no_threads() -> None:
    """Have NumPy start no threads for linear algebra, if it is not loaded yet and nobody said otherwise.

    For commands: mlsim has no use for them, and to start them takes 40 ms of CPU time on two cores. Processes
    that a command starts inherit it.
    """
    if "numpy" not in sys.modules and not any(name in os.environ for name in _THREADS):
        os.environ[_THREADS[0]] = "1"


def without_colours() -> None:
    """Have Numba write no codes for colours, if it is not loaded yet and nobody said otherwise.

    For commands and ranks: where colorama is installed, Numba has it write such codes to a terminal when the
    process ends, also where a launcher gives each rank a terminal and hands on what it gets.
    """
    os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")


_THREADS = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")
"""Variables that OpenBLAS heeds, in this order."""


def let_go_of_compiler() -> None:
    """Release the memory of the compiler's own code and constants (about 65 MB), on Linux.

    They are in memory since kernels were loaded, and are hardly needed after that. Whatever is needed again
    comes back from its file by itself: only what was never written is let go of.
    """
    if "llvmlite.binding" not in sys.modules:
        return
    for first, end in _compiler():
        _libc().madvise(ctypes.c_void_p(first), ctypes.c_size_t(end - first), mmap.MADV_DONTNEED)


@cache
def _compiler() -> list[tuple[int, int]]:
    """Find the compiler's mappings, once a process."""
    try:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []  # another system; the code stays where it is
    return list(_unwritten(lines, "libllvmlite"))


def _unwritten(lines: list[str], library: str) -> Iterator[tuple[int, int]]:
    """Find the addresses of what is in memory of a library just as it is in its file.

    The loader writes addresses into the data and into a read-only part right before the data.
    """
    parts = [line.split(maxsplit=5) for line in lines]
    own = [part for part in parts if len(part) == 6 and Path(part[5]).name.startswith(library)]
    for (span, access, *_), (following, next_access, *_) in pairwise(own):
        first, _, end = span.partition("-")
        before_data = "w" in next_access and following.startswith(f"{end}-")
        if "w" not in access and not before_data:
            yield int(first, 16), int(end, 16)


def let_go_of_freed() -> None:
    """Return freed memory that the allocator keeps to the system, where it can be told to (glibc)."""
    if hasattr(_libc(), "malloc_trim"):
        _libc().malloc_trim(0)


def give_back(large: bool = True) -> None:
    """Release the compiler's code; where there is much data, also garbage, which takes long."""
    let_go_of_compiler()
    if large:
        gc.collect()
        let_go_of_freed()


@cache
def _libc() -> Any:
    return ctypes.CDLL(None)
