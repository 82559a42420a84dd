"""What a cap on unequal power leaves for jobs whose nodes are not known: limits that forbid no plan.

The first is that each job adds at least what it would alone on an empty machine. But not all jobs can be on
the nodes that add least. For some power, let a unit on a node that adds less count as if it added that, and
raise the cap by the difference for all that fits on such nodes: a plan that keeps to the cap keeps to this.
There is such a limit for each power that nodes add.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from mlsim._arrays import Ints
from mlsim.batch.cp.problem.instance import Instance

__all__ = ["PoolLimit", "pool_limits"]

_MOST_LEVELS = 8
"""Powers that limits are made for; of more, these are spread evenly."""


class PoolLimit(NamedTuple):
    """So much of something at every time, wherever jobs are placed."""

    asked: Ints
    """int64[n]: what each queued job takes."""
    held: Ints
    """int64[b]: what is held already."""
    remaining: Ints
    """int64[b]: for how many seconds."""
    total: int
    """How much there is."""


def pool_limits(instance: Instance, horizon: int) -> Iterator[PoolLimit]:
    """Yield limits on the power of jobs whose nodes are not known, in a measure of each, rounded down.

    Parameters
    ----------
    instance
        With a cap on unequal power.
    horizon
        Seconds that plans may take.
    """
    power, queued, running = instance.power, instance.queued, instance.running
    measure = power.measure(horizon)
    yield PoolLimit(power.least // measure, power.held // measure, power.remaining, power.capacity // measure)
    # A type of which each unit takes no less than it counts for power says how many fit on a node.
    counting = np.flatnonzero((queued.request >= power.counts[:, None]).all(axis=0))
    if not len(counting):
        return
    sizes, amounts = instance.capacity[:, counting[0]], running.request[:, counting[0]] * running.units
    counts = queued.units * power.counts
    for level in _levels(power.of_node[sizes > 0]):
        overstated = np.where(sizes > 0, np.maximum(level - power.of_node, 0), 0)
        more = int(overstated @ sizes)
        measure = power.measure(horizon, more)
        yield PoolLimit(
            np.maximum(power.least, level * counts) // measure,
            np.concatenate((power.held, overstated[running.node] * amounts)) // measure,
            np.concatenate((power.remaining, running.remaining)),
            (power.capacity + more) // measure,
        )


def _levels(of_node: Ints) -> list[int]:
    """Return the powers above the least, or some of them."""
    above = np.unique(of_node)[1:]
    if len(above) > _MOST_LEVELS:
        above = above[np.linspace(0, len(above) - 1, _MOST_LEVELS).astype(np.int64)]
    levels: list[int] = above.tolist()
    return levels
