"""Compiled kernels: one decorator, and one place that announces compilation.

With ``NUMBA_DISABLE_JIT=1`` kernels run as plain Python functions: slow, but a debugger stops in them,
they can print, and changing one compiles nothing. :mod:`mlsim._runtime.interpreted` then replaces operations
without a Python equivalent.
"""

from mlsim._jit.intrinsics import (
    PACKED_WORDS,
    borrowed,
    by_last_type,
    c_function,
    exchange,
    fetch_add,
    last_bit,
    load_acquire,
    next_bit,
    shared,
    store_release,
    unpacker,
    zeros,
)
from mlsim._jit.kernel_store import (
    compile_seconds,
    compiling,
    estimate_by,
    is_compiled,
    no_longer_elsewhere,
    quiet,
    while_elsewhere,
)
from mlsim._jit.kernels import apart_kernel, inlined, inner_kernel, kernel, leaf_kernel
from mlsim._jit.mode import INTERPRETED, require_numba
from mlsim._jit.object_cache import by_numba

__all__ = [
    "INTERPRETED",
    "PACKED_WORDS",
    "apart_kernel",
    "borrowed",
    "by_last_type",
    "by_numba",
    "c_function",
    "compile_seconds",
    "compiling",
    "estimate_by",
    "exchange",
    "fetch_add",
    "inlined",
    "inner_kernel",
    "is_compiled",
    "kernel",
    "last_bit",
    "leaf_kernel",
    "load_acquire",
    "next_bit",
    "no_longer_elsewhere",
    "quiet",
    "require_numba",
    "shared",
    "store_release",
    "unpacker",
    "while_elsewhere",
    "zeros",
]
