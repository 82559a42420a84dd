"""Memory that the process has and does not need any more, given back to the system."""

from __future__ import annotations

import ctypes
import gc
import mmap
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["give_back", "let_go_of_compiler", "let_go_of_freed"]


def let_go_of_compiler() -> None:
    """Give back the memory in which the compiler's own code stands (about 50 MB), on Linux.

    It is in memory since kernels were loaded, and is hardly needed after that. Whatever is needed again comes
    back from its file by itself: only code, which is never written, is let go of.
    """
    libc = _libc()
    try:
        mappings = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    except OSError:
        return  # another system; the code stays where it is
    for mapping in mappings:
        parts = mapping.split(maxsplit=5)
        if len(parts) == 6 and parts[1] == "r-xp" and Path(parts[5]).name.startswith("libllvmlite"):
            first, end = (int(address, 16) for address in parts[0].split("-"))
            libc.madvise(ctypes.c_void_p(first), ctypes.c_size_t(end - first), mmap.MADV_DONTNEED)


def let_go_of_freed() -> None:
    """Give back what the allocator keeps of freed memory, where it can be told to (glibc)."""
    if hasattr(_libc(), "malloc_trim"):
        _libc().malloc_trim(0)


def give_back() -> None:
    """Give back the compiler's code, and the memory of everything that nobody refers to any more."""
    let_go_of_compiler()
    gc.collect()
    let_go_of_freed()


@cache
def _libc() -> Any:
    return ctypes.CDLL(None)
