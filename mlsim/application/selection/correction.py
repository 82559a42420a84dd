"""How far simulations of techniques were off, and what that makes of the next ones.

A simulation knows costs and speeds, not all that a machine does: ranks that share a core are not
simulated, nor is the network's traffic. What it misses, it misses each time: a technique whose time steps
took 8 % longer than simulated will take longer again.
"""

from __future__ import annotations

import math

__all__ = ["Correction"]

_FORGOTTEN = 0.1
"""Share of what is known of the other techniques that is forgotten with each time step, so that one whose
time step was disturbed once is tried again some time."""
_NEW = 0.5
"""How much the last time step of a technique counts against those before."""
_NEW_OF_ALL = 0.3
"""How much the last time step counts in what is known of all techniques together."""
_LARGEST_ERROR = 0.3
"""A prediction that is farther off tells of a change of the machine, not of how good predictions are."""


class Correction:
    """Measured times as shares of simulated ones.

    A technique that has not been executed yet is expected to be as far off as others were of late.

    Attributes
    ----------
    error
        How far predictions were off of late, as a share, up or down: what is better by less than that is
        not better for sure.
    """

    def __init__(self) -> None:
        self._ratio: dict[str, float] = {}
        self._of_all = 1.0
        self.error = 0.0

    def of(self, name: str) -> float:
        """Return what a simulated time of a technique is to be multiplied by."""
        return self._ratio.get(name, self._of_all)

    def learn(self, name: str, measured: float, simulated: float) -> None:
        """Note what a time step took, and what simulation says that it should have taken, both in s."""
        if measured <= 0.0 or simulated <= 0.0:
            return
        for other in self._ratio.keys() - {name}:
            self._ratio[other] += _FORGOTTEN * (1.0 - self._ratio[other])
        ratio = measured / simulated
        self._ratio[name] = ratio + (1.0 - _NEW) * (self._ratio.get(name, ratio) - ratio)
        self._of_all *= (ratio / self._of_all) ** _NEW_OF_ALL

    def judge(self, measured: float, predicted: float) -> None:
        """Note what a time step took, and what was predicted for it beforehand, both in s."""
        if measured <= 0.0 or predicted <= 0.0:
            return
        error = min(abs(math.log(measured / predicted)), _LARGEST_ERROR)
        self.error += _NEW_OF_ALL * (error - self.error)
