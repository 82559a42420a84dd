"""Which of two jobs goes before the other."""

from __future__ import annotations

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim._jit import leaf_kernel
from mlsim.batch.columns.table import NUMBER, SUBMIT

__all__ = ["goes_before"]


@leaf_kernel
def goes_before(a: int, b: int, column: int, ints: Ints, floats: Floats) -> bool:
    """Whether a job goes before another one by a column; equal ones go by their places in the log.

    Those past the threshold, whose key is minus infinity, go by the time that they have been in the queue
    first: a job that had to wait for others may have come after ones that the log has later.
    """
    if floats[column, a] != floats[column, b]:
        return bool(floats[column, a] < floats[column, b])
    if floats[column, a] == -np.inf and floats[SUBMIT, a] != floats[SUBMIT, b]:
        return bool(floats[SUBMIT, a] < floats[SUBMIT, b])
    return bool(ints[NUMBER, a] < ints[NUMBER, b])
