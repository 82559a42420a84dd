"""The running jobs, kept in order of the end that the dispatcher expects."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import inner_kernel, kernel
from mlsim.batch.columns.table import EXPECTED, NUMBER

__all__ = ["add_running", "first_after", "remove_running"]


@inner_kernel
def _goes_before(a: int, b: int, ints: NDArray[np.int64], floats: NDArray[np.float64]) -> bool:
    if floats[EXPECTED, a] != floats[EXPECTED, b]:
        return bool(floats[EXPECTED, a] < floats[EXPECTED, b])
    return bool(ints[NUMBER, a] < ints[NUMBER, b])


@inner_kernel
def _position(
    slot: int, running: NDArray[np.int64], n: int, ints: NDArray[np.int64], floats: NDArray[np.float64]
) -> int:
    """Find how many of the running jobs go before this one."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if _goes_before(running[middle], slot, ints, floats):
            low = middle + 1
        else:
            high = middle
    return low


@inner_kernel
def first_after(time: float, running: NDArray[np.int64], n: int, floats: NDArray[np.float64]) -> int:
    """Find the first running job whose expected end lies after ``time``."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if floats[EXPECTED, running[middle]] <= time:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def add_running(
    slot: int, running: NDArray[np.int64], n: int, ints: NDArray[np.int64], floats: NDArray[np.float64]
) -> None:
    """Put a job among the ``n`` running ones."""
    place = _position(slot, running, n, ints, floats)
    for k in range(n, place, -1):
        running[k] = running[k - 1]
    running[place] = slot


@kernel
def remove_running(
    slot: int, running: NDArray[np.int64], n: int, ints: NDArray[np.int64], floats: NDArray[np.float64]
) -> None:
    """Take a job out of the ``n`` running ones."""
    for k in range(_position(slot, running, n, ints, floats), n - 1):
        running[k] = running[k + 1]
