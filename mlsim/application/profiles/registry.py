"""The profiles of iteration costs, in plain strings."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PROFILES", "ProfileEntry"]


@dataclass(frozen=True, slots=True)
class ProfileEntry:
    """One profile of iteration costs."""

    name: str
    """The word in a scenario file."""
    formula: str
    """Cost c_k of iteration k = 0 … N−1."""
    parameters: tuple[str, ...]
    """Its keys of ``application.costs``, besides ``calibrate``, which all but ``job`` have."""
    reference: str = ""
    """Where it comes from; empty for a plain formula."""


PROFILES = (
    ProfileEntry(
        "job",
        "normal, cut at 0, with the job's own mean, run time·P/N, and σ = variation·mean; drawn for each job",
        ("variation",),
        "Eleliemy 2021, §3.4",
    ),
    ProfileEntry("constant", "mean", ("mean",)),
    ProfileEntry("uniform", "uniform from low to high", ("low", "high", "mean")),
    ProfileEntry("normal", "normal, what is not above 0 drawn again", ("mean", "std")),
    ProfileEntry("exponential", "exponential", ("mean",)),
    ProfileEntry("gamma", "gamma with shape (mean/std)² and scale std²/mean", ("mean", "std")),
    ProfileEntry(
        "lognormal",
        "exp of a normal with σ² = ln(1 + (std/mean)²) and μ = ln(mean) − σ²/2",
        ("mean", "std"),
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
        ("size", "limit", "exponent", "window", "mean", "unit_cost"),
        "Mandelbrot 1980; Eleliemy 2021, Alg. 4.2",
    ),
    ProfileEntry(
        "psia",
        "points that fall into the spin image of point k, + scan_cost·points",
        (
            *("points", "image_width", "bin_size", "support_angle", "cloud_seed", "scan_cost"),
            *("mean", "unit_cost"),
        ),
        "Johnson 1997; Eleliemy 2021, Alg. 4.1",
    ),
)
"""Every profile, in the order of :class:`mlsim.scenario.CostProfile`."""
