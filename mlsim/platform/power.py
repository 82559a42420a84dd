"""Power of the nodes as columns: one entry a node, in allocation order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlsim.scenario import PlatformConfig

__all__ = ["PowerColumns", "power_of"]


class PowerColumns(NamedTuple):
    """Power of each node, in W, when no core is held, when all are, and when it is out of use."""

    idle: NDArray[np.float64]
    busy: NDArray[np.float64]
    off: NDArray[np.float64]


def power_of(config: PlatformConfig) -> PowerColumns | None:
    """Lay out the power of the node groups; None where the scenario gives none."""
    powers = [group.power for group in config.nodes]
    if any(power is None for power in powers):
        return None  # then it is None for all, as the section makes sure
    counts = [group.count for group in config.nodes]
    rows = [(power.idle, power.busy, power.off) for power in powers if power is not None]
    return PowerColumns(*np.repeat(np.array(rows, np.float64).T, counts, axis=1))
