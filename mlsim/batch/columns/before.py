"""Which of two jobs goes before the other."""

from __future__ import annotations

from mlsim._arrays import Floats, Ints
from mlsim._jit import leaf_kernel
from mlsim.batch.columns.table import NUMBER

__all__ = ["goes_before"]


@leaf_kernel
def goes_before(a: int, b: int, column: int, ints: Ints, floats: Floats) -> bool:
    """Whether a job goes before another one by a column; equal ones go in order of arrival."""
    if floats[column, a] != floats[column, b]:
        return bool(floats[column, a] < floats[column, b])
    return bool(ints[NUMBER, a] < ints[NUMBER, b])
