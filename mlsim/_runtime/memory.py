"""Memory and threads of the process: libraries are kept from taking more, unused memory is returned."""

import ctypes
import gc
import os
import sys

_THREADS = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")
"""Variables that OpenBLAS reads, in this order."""


def keep_little() -> None:
    """Make Polars' allocator (jemalloc) return freed memory (20 MB per run), unless it is configured."""
    if "polars" not in sys.modules:
        os.environ.setdefault("_RJEM_MALLOC_CONF", "dirty_decay_ms:0,muzzy_decay_ms:0")


def start_no_threads() -> None:
    """Keep NumPy from starting threads for linear algebra, unless it is loaded or configured otherwise.

    For commands and their processes: mlsim has no use for threads, and starting them takes 40 ms of CPU time.
    """
    if "numpy" not in sys.modules and not any(name in os.environ for name in _THREADS):
        os.environ[_THREADS[0]] = "1"


def without_colours() -> None:
    """Keep Numba from writing colour codes, unless it is configured otherwise.

    For commands and ranks: colorama writes such codes when the process ends, also to a launcher's terminal.
    """
    os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")


def let_go_of_freed() -> None:
    """Return freed memory that the allocator keeps to the system, where it supports that (glibc)."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)


def give_back(large: bool) -> None:
    """Release garbage and freed memory where there is much data; it takes long."""
    if large:
        gc.collect()
        let_go_of_freed()
