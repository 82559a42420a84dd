"""Copies of arrays in kernels: what ``target[:] = source`` does, which takes half a second to compile."""

from __future__ import annotations

from mlsim._jit import apart_kernel
from mlsim.batch.columns.packing import IntColumns, Ints

__all__ = ["copy_columns", "copy_ints"]


@apart_kernel
def copy_ints(target: Ints, source: Ints, n: int) -> None:
    """Copy the first ``n`` numbers."""
    for k in range(n):
        target[k] = source[k]


@apart_kernel
def copy_columns(target: IntColumns, source: IntColumns) -> None:
    """Copy an array, for instance what each node has of each resource."""
    copy_ints(target.ravel(), source.ravel(), source.size)
