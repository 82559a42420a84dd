"""How far into the announced drains a job would run."""

from __future__ import annotations

from mlsim._jit import kernel
from mlsim.batch.columns.arrays import Arrays
from mlsim.batch.columns.table import ESTIMATE
from mlsim.batch.room.grid import DRAINS, Grid

__all__ = ["reach"]


@kernel(forceinline=True)
def reach(slot: int, now: float, s: Arrays, g: Grid) -> int:
    """Count the announced drains that begin before a job that starts now is expected to end.

    They are the first ones, so a job with a larger reach has fewer nodes to choose from.
    """
    if g.settings[DRAINS] == 0:
        return 0
    end, n = now + s.floats[ESTIMATE, slot], 0
    while n < g.settings[DRAINS] and g.drain_times[0, n] < end:
        n += 1
    return n
