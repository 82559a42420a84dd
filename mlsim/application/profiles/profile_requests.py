"""Requests of iteration costs, and the catalogue of profiles."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mlsim._runtime.arrays import Floats
from mlsim.scenario import CostsConfig, Quantity


@dataclass(frozen=True, slots=True)
class Request:
    """The costs of one loop's iterations."""

    config: CostsConfig
    """Section ``application.costs`` of the scenario."""
    n: int
    """Number of iterations."""
    seed: int
    reference_speed: float
    """FLOP/s that costs in FLOP are divided by."""
    path: Path | None = None
    """Location of the file of costs; None: ``config.path``."""

    def seconds(self, amount: Quantity | None) -> float:
        """Convert a cost to seconds at the reference speed; 0 for none."""
        if amount is None:
            return 0.0
        return amount.value / self.reference_speed if amount.unit == "FLOP" else amount.value

    @property
    def mean(self) -> float:
        """Mean cost in s; 0 if not set."""
        return self.seconds(self.config.mean)

    @property
    def std(self) -> float:
        """Standard deviation in s; 0 if not set."""
        return self.seconds(self.config.std)

    @property
    def low(self) -> float:
        """Lowest cost in s; 0 if not set."""
        return self.seconds(self.config.low)

    @property
    def high(self) -> float:
        """Highest cost in s; 0 if not set."""
        return self.seconds(self.config.high)

    def scaled(self, costs: Floats, own_mean: float) -> Floats:
        """Scale costs of mean ``own_mean`` to the configured mean, if any."""
        return costs * (self.mean / own_mean) if self.config.mean is not None else costs

    def counted(self, counts: Floats) -> Floats:
        """Convert counts to costs: by the cost per count, or scaled to the mean, or 1 s per count."""
        if self.config.unit_cost is not None:
            return counts * self.seconds(self.config.unit_cost)
        return self.scaled(counts, float(counts.mean()))


@dataclass(frozen=True, slots=True)
class ProfileEntry:
    """One profile of iteration costs."""

    name: str
    formula: str
    """Cost c_k of iteration k = 0 … N−1."""
    parameters: tuple[str, ...]
    """Its keys of ``application.costs``, besides ``calibrate``, which all but ``job`` have."""
    reference: str = ""
    """Its source; empty for a plain formula."""


PROFILES = (
    ProfileEntry(
        "job",
        "normal, cut at 0, with the job's own mean, run time·P/N, and σ = variation·mean; drawn for each job",
        ("variation",),
        "Eleliemy 2021, §3.4",
    ),
    ProfileEntry("constant", "mean", ("mean",)),
    ProfileEntry("uniform", "uniform from low to high", ("low", "high", "mean")),
    ProfileEntry("normal", "normal, with values not above 0 drawn again", ("mean", "std")),
    ProfileEntry("exponential", "exponential", ("mean",)),
    ProfileEntry("gamma", "gamma with shape (mean/std)² and scale std²/mean", ("mean", "std")),
    ProfileEntry(
        "lognormal", "exp of a normal with σ² = ln(1 + (std/mean)²) and μ = ln(mean) − σ²/2", ("mean", "std")
    ),
    ProfileEntry(
        "bimodal",
        "high with probability share, else low; around either normal with std, cut at 0",
        ("low", "high", "share", "std", "mean"),
    ),
    ProfileEntry("increasing", "low + (high − low)·k/(N−1)", ("low", "high", "mean")),
    ProfileEntry("decreasing", "high − (high − low)·k/(N−1)", ("low", "high", "mean")),
    ProfileEntry("file", "the k-th number of a .npy or .csv file, in s", ("path", "mean")),
    ProfileEntry(
        "mandelbrot",
        "steps of z ← z^exponent + c while fewer than limit and |z| < 2, for the c of pixel k; N = size²",
        (*(f"parameters.{name}" for name in ("size", "limit", "exponent", "window")), *("mean", "unit_cost")),
        "Mandelbrot 1980; Eleliemy 2021, Alg. 4.2",
    ),
    ProfileEntry(
        "psia",
        "points that fall into the spin image of point k, + scan_cost·points",
        (
            *(f"parameters.{name}" for name in ("points", "image_width", "bin_size", "support_angle")),
            *("parameters.cloud_seed", "parameters.scan_cost"),
            *("mean", "unit_cost"),
        ),
        "Johnson 1997; Eleliemy 2021, Alg. 4.1",
    ),
)
"""Every profile, in the order of :class:`mlsim.scenario.CostProfile`."""
