"""Compiled kernels: one decorator, one place that says when a machine compiles them.

With ``NUMBA_DISABLE_JIT=1`` kernels are the Python functions that they were written as: slow, but a
debugger stops in them, they can print, and a change of one compiles nothing. What Python has no
equivalent of is then done by :mod:`mlsim._interpreted`.
"""

from mlsim._jit.announcing import compile_seconds, compiling, quiet
from mlsim._jit.arrays import borrowed, zeros
from mlsim._jit.atomics import exchange, fetch_add, load_acquire, store_release
from mlsim._jit.bits import last_bit, next_bit
from mlsim._jit.c_functions import c_function
from mlsim._jit.choice import by_last_type
from mlsim._jit.elsewhere import is_compiled, no_longer_elsewhere, while_elsewhere
from mlsim._jit.kept import by_numba
from mlsim._jit.kernels import apart_kernel, inlined, inner_kernel, kernel, leaf_kernel
from mlsim._jit.mode import INTERPRETED, in_python
from mlsim._jit.named_tuples import PACKED_WORDS, shared, unpacker

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
    "exchange",
    "fetch_add",
    "in_python",
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
    "shared",
    "store_release",
    "unpacker",
    "while_elsewhere",
    "zeros",
]
