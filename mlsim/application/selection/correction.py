"""How far simulations of techniques were off, and what that makes of the next ones.

A simulation knows costs and speeds, not all that a machine does: ranks that share a core are not
simulated, nor is the network's traffic. What it misses, it misses each time: a technique whose time steps
took 8 % longer than simulated will take longer again.
"""

from __future__ import annotations

__all__ = ["Correction"]

_FORGOTTEN = 0.1
"""Share of what is known of the other techniques that is forgotten with each time step, so that one whose
time step was disturbed once is tried again some time."""
_NEW = 0.5
"""How much the last time step of a technique counts against those before."""


class Correction:
    """Measured times as shares of simulated ones.

    A technique that has not been executed yet is taken at the word of its simulation, so that it is tried
    where that promises more than those tried have kept.
    """

    def __init__(self) -> None:
        self._ratio: dict[str, float] = {}

    def of(self, name: str) -> float:
        """Return what a simulated time of a technique is to be multiplied by."""
        return self._ratio.get(name, 1.0)

    def learn(self, name: str, measured: float, simulated: float) -> None:
        """Note what a time step took, and what simulation says that it should have taken, both in s."""
        if measured <= 0.0 or simulated <= 0.0:
            return
        for other in self._ratio.keys() - {name}:
            self._ratio[other] += _FORGOTTEN * (1.0 - self._ratio[other])
        ratio = measured / simulated
        self._ratio[name] = ratio + (1.0 - _NEW) * (self._ratio.get(name, ratio) - ratio)
