"""User-defined techniques: calls of compiled functions through their addresses."""

from __future__ import annotations

import numpy as np

from mlsim._jit import c_function, inner_kernel, kernel, zeros
from mlsim._runtime.arrays import Floats
from mlsim.techniques.technique_entry import RAISED, Rule

NUMBERS, BEGIN, SIZE_OF, LEARN = range(4)
"""Purpose of a call of a class's function."""
GATHERED = 5
SIZE, SECONDS, WAITED, SPREAD, PIECES = range(GATHERED)
MOST_NUMBERS = 1 << 27
_OF_NODE = -1

_call = c_function("int64", *["int64"] * 5)
_call_object = c_function("int64", "int64", "intp", *["int64"] * 7, *["float64"] * 3)


@inner_kernel
def user_size(address: int, n: int, p: int, remaining: int, i: int, pe: int) -> int:
    """Size a chunk by the function at an address; below 1 if the function is wrong."""
    return _call(address, n, p, remaining, i, pe)


@kernel
def memory_words(address: int, p: int) -> int:
    """Return the length of the memory of a class, including the element that marks a failure."""
    wanted = _call_object(address, NUMBERS, 0, 0, 0, p, 0, 0, 0, 0, 0.0, 0.0, 0.0)
    return wanted + 1 if 0 <= wanted <= MOST_NUMBERS else 1


@inner_kernel
def new_memory(address: int, p: int) -> tuple[Floats, Floats]:
    """Return the nodes' gathered times, and the memory of a class at a queue of up to ``p`` PEs or nodes."""
    return zeros((GATHERED, p), np.float64), zeros((1, memory_words(address, p)), np.float64)


@kernel
def begin_object(address: int, memory: Floats, n: int, p: int) -> None:
    """Call ``begin(n, p)`` of a user-defined class: its queue has new iterations."""
    words = memory.shape[1] - 1
    wanted = _call_object(address, NUMBERS, 0, 0, 0, p, 0, 0, 0, 0, 0.0, 0.0, 0.0)
    if not 0 <= wanted <= words:
        memory[0, words] = 1.0
        return
    if _call_object(address, BEGIN, memory.ctypes.data, words, n, p, 0, 0, 0, 0, 0.0, 0.0, 0.0) != 0:
        memory[0, words] = 1.0


@inner_kernel
def object_size(address: int, sums: Floats, n: int, p: int, remaining: int, i: int, pe: int) -> int:
    """Size a chunk by a class, whose memory is passed as ``sums``; below 1 if the class is wrong."""
    words = sums.shape[1] - 1
    if sums[0, words] != 0.0:
        return RAISED
    place = sums.ctypes.data
    return _call_object(address, SIZE_OF, place, words, n, p, remaining, i, pe, 0, 0.0, 0.0, 0.0)


@kernel
def learn_object(
    address: int,
    memory: Floats,
    n: int,
    p: int,
    pe: int,
    step: int,
    size: int,
    pieces: int,
    seconds: float,
    waited: float,
    spread: float,
) -> None:
    """Call ``learn`` of a class with an executed chunk, or with a node's; see ``Executed`` of the kit."""
    words, place = memory.shape[1] - 1, memory.ctypes.data
    failed = _call_object(address, LEARN, place, words, n, p, size, step, pe, pieces, seconds, waited, spread)
    if failed != 0:
        memory[0, words] = 1.0


@kernel
def gather_chunk(
    gathered: Floats, node: int, size: int, pieces: int, seconds: float, waited: float, spread: float
) -> None:
    """Add a chunk to a node's gathered times, in which the node counts as one PE."""
    before, both = gathered[SIZE, node], gathered[SIZE, node] + size
    if before > 0.0:
        shift = seconds / size - gathered[SECONDS, node] / before
        gathered[SPREAD, node] += shift * shift * before * (size / both)
    gathered[SIZE, node] = both
    gathered[SECONDS, node] += seconds
    gathered[WAITED, node] += waited
    gathered[SPREAD, node] += spread
    gathered[PIECES, node] += pieces


@kernel
def tell_of_node(address: int, gathered: Floats, memory: Floats, n: int, p: int, node: int) -> None:
    """Call ``learn`` of a class between nodes with a node's gathered times, and clear them."""
    if gathered[SIZE, node] > 0.0:
        learn_object(
            address,
            memory,
            n,
            p,
            node,
            _OF_NODE,
            int(gathered[SIZE, node]),
            int(gathered[PIECES, node]),
            gathered[SECONDS, node],
            gathered[WAITED, node],
            gathered[SPREAD, node],
        )
        gathered[:, node] = 0.0


USER_RULE = Rule(size=user_size)
USER_BY_STEP_RULE = Rule(size=user_size, size_by_step=user_size)
USER_OBJECT_RULE = Rule(size=object_size)  # learns by learn_object, not by the rule
