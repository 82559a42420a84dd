"""A cap on the power of the machine, as a number of units."""

import math

import numpy as np
from numpy.typing import NDArray

from mlsim.platform.machine import PowerColumns

_ROUNDING = 1e-6  # units by which the power of held units may exceed the cap through rounding errors


class PowerCap:
    """The power that a cap leaves to jobs; counts of units make sense only if all units add the same.

    A unit is a node if ``exclusive``, else a core. ``levels`` are (time [s], cap [W]) in order of time.
    """

    def __init__(
        self,
        power: PowerColumns,
        cores: NDArray[np.int64],
        exclusive: bool,
        levels: tuple[tuple[float, float], ...],
    ) -> None:
        self._power = power
        # What each node, or each of its cores where these are allocated singly, adds when it is held [W].
        self.of_each = (power.busy - power.idle) / (1 if exclusive else cores)
        self.of_waking = power.idle - power.off  # what each node adds when it returns to service [W]
        self._of_a_unit = float(self.of_each[0])
        self._units = len(cores) if exclusive else int(cores.sum())
        self.levels = levels
        self.watts = math.inf if levels[0][0] > 0.0 else levels[0][1]  # the cap now

    @property
    def is_even(self) -> bool:
        """Whether every node, or core, adds the same."""
        return bool((self.of_each == self.of_each[0]).all())

    @property
    def highest(self) -> float:
        """Power that jobs may add when all nodes are in use and the cap is at its highest, in W."""
        # Before the first level there is no cap.
        most = math.inf if self.levels[0][0] > 0.0 else max(watts for _, watts in self.levels)
        return most - float(self._power.idle.sum())

    def left(self, is_on: NDArray[np.bool_]) -> float:
        """Return what jobs may add to the power of nodes that are on, in W; below 0 if nothing."""
        return self.watts - float(np.where(is_on, self._power.idle, self._power.off).sum())

    @property
    def largest(self) -> int:
        """Units that jobs may hold when all nodes are in use and the cap is at its highest."""
        return self._units_under(self.highest)

    def units(self, is_on: NDArray[np.bool_]) -> int:
        """Return the units that jobs may hold now; ``is_on``: nodes that are in use, or held all the same."""
        return self._units_under(self.left(is_on))

    def _units_under(self, left: float) -> int:
        """Units that may be held where they may add so much."""
        if self._of_a_unit == 0.0 or left == math.inf:
            return self._units if left >= 0.0 else 0
        return min(math.floor(left / self._of_a_unit + _ROUNDING), self._units)
