"""Requests of iteration costs from a profile."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mlsim._arrays import Floats
from mlsim.scenario import CostsConfig, Quantity

__all__ = ["Request"]


@dataclass(frozen=True, slots=True)
class Request:
    """The costs of one loop's iterations."""

    config: CostsConfig
    """Section ``application.costs`` of the scenario."""
    n: int
    """How many iterations."""
    seed: int
    """Seed of the scenario."""
    reference_speed: float
    """FLOP/s that costs in FLOP are divided by."""
    path: Path | None = None
    """Where the file of costs was found; None: at ``config.path``."""

    def seconds(self, amount: Quantity | None) -> float:
        """Convert a cost to seconds at the reference speed; 0 for none."""
        if amount is None:
            return 0.0
        return amount.value / self.reference_speed if amount.unit == "FLOP" else amount.value

    @property
    def mean(self) -> float:
        """Mean cost in s; 0 if none was given."""
        return self.seconds(self.config.mean)

    @property
    def std(self) -> float:
        """Standard deviation in s; 0 if none was given."""
        return self.seconds(self.config.std)

    @property
    def low(self) -> float:
        """Least cost in s; 0 if none was given."""
        return self.seconds(self.config.low)

    @property
    def high(self) -> float:
        """Largest cost in s; 0 if none was given."""
        return self.seconds(self.config.high)

    def scaled(self, costs: Floats, own_mean: float) -> Floats:
        """Scale costs with the mean ``own_mean`` to the mean that was given; without one keep them."""
        return costs * (self.mean / own_mean) if self.config.mean is not None else costs

    def counted(self, counts: Floats) -> Floats:
        """Turn counts into costs: to the mean that was given, or by the cost of one, or as s."""
        if self.config.unit_cost is not None:
            return counts * self.seconds(self.config.unit_cost)
        return self.scaled(counts, float(counts.mean()))
