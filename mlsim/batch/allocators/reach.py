"""How far into the announced drains a job would run."""

from __future__ import annotations

from mlsim._jit import leaf_kernel
from mlsim.batch.allocators.nodes import DRAINS, Nodes
from mlsim.batch.columns.columns import Columns
from mlsim.batch.columns.table import ESTIMATE
from mlsim.batch.columns.times import stay_end

__all__ = ["reach"]


@leaf_kernel
def reach(slot: int, now: float, columns: Columns, nodes: Nodes) -> int:
    """Count the announced drains that begin before a job that starts now is expected to end.

    They are the first ones, so a job with a larger reach has fewer nodes to choose from.
    """
    if nodes.settings[DRAINS] == 0:
        return 0
    end, n = stay_end(now, columns.floats[ESTIMATE, slot]), 0
    while n < nodes.settings[DRAINS] and nodes.drain_times[0, n] < end:
        n += 1
    return n
