"""A heap of nodes by two keys, smaller first, the second where the first are equal; then in node order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import inner_kernel

__all__ = ["pop", "push"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@inner_kernel
def _before(a: int, b: int, keys: Floats, nodes: Ints) -> bool:
    for level in range(2):
        if keys[level, a] != keys[level, b]:
            return bool(keys[level, a] < keys[level, b])
    return bool(nodes[a] < nodes[b])


@inner_kernel
def _swap(a: int, b: int, keys: Floats, nodes: Ints) -> None:
    for level in range(2):
        keys[level, a], keys[level, b] = keys[level, b], keys[level, a]
    nodes[a], nodes[b] = nodes[b], nodes[a]


@inner_kernel
def push(n: int, key: float, second: float, node: int, keys: Floats, nodes: Ints) -> None:
    """Add a node to a heap of ``n``."""
    keys[0, n], keys[1, n], nodes[n] = key, second, node
    child = n
    while child > 0 and _before(child, (child - 1) // 2, keys, nodes):
        _swap(child, (child - 1) // 2, keys, nodes)
        child = (child - 1) // 2


@inner_kernel
def pop(n: int, keys: Floats, nodes: Ints) -> int:
    """Take the first node from a heap of ``n``."""
    first = nodes[0]
    _swap(0, n - 1, keys, nodes)
    parent, last = 0, n - 1
    while True:
        child = 2 * parent + 1
        if child >= last:
            break
        if child + 1 < last and _before(child + 1, child, keys, nodes):
            child += 1
        if not _before(child, parent, keys, nodes):
            break
        _swap(child, parent, keys, nodes)
        parent = child
    return int(first)
