"""The ``application.costs`` section: what the iterations of a loop cost."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, NamedTuple

from pydantic import Field

from mlsim.scenario.values.amounts import PositiveWork, Work
from mlsim.scenario.values.field_types import Line, Natural, Number, OneOf, Whole
from mlsim.scenario.values.section import Section, Violation
from mlsim.scenario.words import Calibration, CostProfile

__all__ = ["MOST_LISTED", "PROFILE_KEYS", "CostsConfig", "ImageWindow", "ProfileKeys", "has_linear_costs"]

MOST_LISTED = 100_000_000
"""Iterations of a loop up to which each has a cost of its own in memory, whatever the profile."""

Coordinate = Annotated[float, Number(-100, 100)]


class ImageWindow(Section):
    """The part of the complex plane that an image shows."""

    x_min: Coordinate = -2.0
    """Least real part of c. For mandelbrot; default ours."""
    x_max: Coordinate = 2.0
    """Real part that c stays below. For mandelbrot; default ours."""
    y_min: Coordinate = -2.0
    """Least imaginary part of c. For mandelbrot; default ours."""
    y_max: Coordinate = 2.0
    """Imaginary part that c stays below. For mandelbrot; default ours."""

    def broken_rules(self) -> Iterator[Violation]:
        """Check that the window is not empty."""
        for low, high in (("x_min", "x_max"), ("y_min", "y_max")):
            if getattr(self, low) >= getattr(self, high):
                message = f"{getattr(self, high)} is not above {low}, {getattr(self, low)}; allowed: more"
                yield Violation(high, message, (low,))


class CostsConfig(Section):
    """What the iterations cost."""

    profile: OneOf[CostProfile] = CostProfile.JOB
    """What the iterations cost: job (normal around the job's run time divided by its iterations a PE;
    Eleliemy 2021, §3.4), a distribution, increasing or decreasing along the loop, a file, or an application:
    mandelbrot or psia (Eleliemy 2021, §4.4). `mlsim list profiles` explains each. Never negative.
    """
    variation: Annotated[float, Number(0, 1, high_belongs=False)] = 0.0
    """Standard deviation / mean of the profile job (Eleliemy 2021, §3.4). For job only."""
    mean: PositiveWork | None = Field(None, examples=["2 ms"])
    """Mean cost of an iteration (s at the reference speed, or FLOP). constant, normal, exponential, gamma and
    lognormal need it; the costs of all others but job are scaled to it. Eleliemy 2021, §4.4 has 0.2 s for
    psia and 20 ms for mandelbrot.
    """
    std: Work | None = Field(None, examples=["0.5 ms"])
    """Standard deviation of the cost, in the unit of mean. For normal, gamma and lognormal, which need it,
    and for bimodal around either mode, 0 by default.
    """
    low: Work | None = Field(None, examples=["1 ms"])
    """Least cost, in the unit of high. For uniform, increasing and decreasing, 0 by default, and for bimodal,
    which needs it: the lower mode.
    """
    high: PositiveWork | None = Field(None, examples=["3 ms"])
    """Largest cost (s at the reference speed, or FLOP). For uniform, increasing and decreasing, and for
    bimodal the upper mode; all need it.
    """
    share: Annotated[float, Number(0, 1)] = 0.5
    """Share of the iterations that cost high. For bimodal."""
    path: Line | None = Field(None, examples=["costs.npy"])
    """File of costs (s at the reference speed), one an iteration: .npy or .csv. For file, which needs it.
    Looked up like workload.path.
    """
    size: Annotated[int, Whole(1, 31_622)] | None = Field(None, examples=[1152])
    """Width and height of the image (pixels); a pixel is an iteration. For mandelbrot. Default: the root of
    iterations.count if that is given, else 1152 (Eleliemy 2021, Table 4.1).
    """
    limit: Annotated[int, Whole(1, 1_000_000_000)] = 1000
    """Steps of z after which a pixel counts as one of the set. For mandelbrot. Default: Eleliemy 2021, Table
    4.1.
    """
    exponent: Annotated[int, Whole(2, 64)] = 4
    """e of z^e + c. For mandelbrot. Default: Eleliemy 2021, Table 4.1."""
    window: ImageWindow = Field(default_factory=ImageWindow)
    """What the image shows. For mandelbrot."""
    points: Annotated[int, Whole(1, 10_000_000)] = 800_000
    """Oriented points of the cloud. For psia: iteration i makes the image of point i, and after the last
    point begins again. Default: Eleliemy 2021, Table 4.1.
    """
    image_width: Annotated[int, Whole(2, 1000)] = 5
    """Width and height of a spin image (bins). For psia. Default: Eleliemy 2021, Table 4.1."""
    bin_size: Annotated[float, Number(0, 1, low_belongs=False)] = 0.01
    """Width of a bin, as a share of the cloud's largest extent. For psia. Default: Eleliemy 2021, Table
    4.1.
    """
    support_angle: Annotated[float, Number(0, math.pi, low_belongs=False)] = 2.0
    """Largest angle between the normals of two points of one image (rad). For psia. Default: Eleliemy 2021,
    Table 4.1.
    """
    cloud_seed: Natural = 0
    """Seed of the generated cloud, which does not depend on the scenario's seed. For psia."""
    scan_cost: Annotated[float, Number(0)] = 0.0
    """Cost of looking at one point of the cloud, whether it belongs to the image or not, as a share of the
    cost of counting one that does. For psia.
    """
    unit_cost: PositiveWork | None = Field(None, examples=["1 us"])
    """Cost of one step of z (mandelbrot) or of one counted point (psia), as an alternative to mean (s at the
    reference speed, or FLOP).
    """
    calibrate: OneOf[Calibration] = Calibration.NONE
    """run-time scales the costs so that a perfectly balanced loop on the job's PEs takes the run time of the
    log; none keeps them. Not for job, which is made from the run time.
    """

    def broken_rules(self) -> Iterator[Violation]:
        """Check that the profile has the keys it needs and no others, and that they fit together."""
        given = {key for key in self.model_fields_set if getattr(self, key) is not None} - {"profile"}
        yield from self._wrong_keys(given)
        yield from self._wrong_units()
        if self.low is not None and self.high is not None and self.low.value > self.high.value:
            yield Violation("low", "is more than high; allowed: high or less", ("high", "profile"))
        if self.mean is not None and self.std is not None and self.std.value > 1000 * self.mean.value:
            yield Violation("std", "is more than 1000 means; allowed: less", ("mean", "profile"))
        if self.profile in COUNTED:
            yield from self._wrong_scale()

    def _wrong_keys(self, given: set[str]) -> Iterator[Violation]:
        keys = PROFILE_KEYS[self.profile]
        for key in keys.needed:
            if key not in given:
                yield Violation(key, f"missing; profile: {self.profile} needs it", ("profile",))
        for key in CostsConfig.model_fields:
            if key in given and key not in keys.possible:
                owners = ", ".join(name for name, other in PROFILE_KEYS.items() if key in other.possible)
                allowed = ", ".join(keys.possible)
                message = (
                    f"not for profile: {self.profile}, which takes {allowed}; profiles with {key}: {owners}"
                )
                yield Violation(key, message, ("profile",))

    def _wrong_units(self) -> Iterator[Violation]:
        amounts = {key: getattr(self, key) for key in ("mean", "high", "low", "std")}
        given = [(key, amount) for key, amount in amounts.items() if amount is not None]
        for key, amount in given[1:]:
            first, reference = given[0]
            if amount.unit != reference.unit:
                message = (
                    f"is in {amount.unit} but {first} is in {reference.unit}; allowed: one unit for both"
                )
                yield Violation(key, message, (first, "profile"))

    def _wrong_scale(self) -> Iterator[Violation]:
        """Check that counts become times in exactly one way."""
        if self.mean is not None and self.unit_cost is not None:
            yield Violation("unit_cost", "given together with mean; give one of them", ("mean", "profile"))
        if self.mean is None and self.unit_cost is None and self.calibrate is Calibration.NONE:
            message = (
                f"missing; profile: {self.profile} needs one of mean: {TYPICAL[self.profile]}, "
                "unit_cost, and calibrate: run-time"
            )
            yield Violation("mean", message, ("unit_cost", "calibrate", "profile"))


class ProfileKeys(NamedTuple):
    """The keys of a profile: those it needs, and all it may have."""

    needed: tuple[str, ...]
    possible: tuple[str, ...]


def _keys(needed: str = "", optional: str = "", calibrate: bool = True) -> ProfileKeys:
    must = tuple(needed.split())
    return ProfileKeys(must, (*must, *optional.split(), *(("calibrate",) if calibrate else ())))


PROFILE_KEYS: dict[CostProfile, ProfileKeys] = {
    CostProfile.JOB: _keys("", "variation", calibrate=False),
    CostProfile.CONSTANT: _keys("mean"),
    CostProfile.UNIFORM: _keys("high", "low mean"),
    CostProfile.NORMAL: _keys("mean std"),
    CostProfile.EXPONENTIAL: _keys("mean"),
    CostProfile.GAMMA: _keys("mean std"),
    CostProfile.LOGNORMAL: _keys("mean std"),
    CostProfile.BIMODAL: _keys("low high", "share std mean"),
    CostProfile.INCREASING: _keys("high", "low mean"),
    CostProfile.DECREASING: _keys("high", "low mean"),
    CostProfile.FILE: _keys("path", "mean"),
    CostProfile.MANDELBROT: _keys("", "size limit exponent window mean unit_cost"),
    CostProfile.PSIA: _keys(
        "", "points image_width bin_size support_angle cloud_seed scan_cost mean unit_cost"
    ),
}

COUNTED = (CostProfile.MANDELBROT, CostProfile.PSIA)
"""Profiles whose costs are counts, which need a scale."""

TYPICAL = {CostProfile.MANDELBROT: "20 ms", CostProfile.PSIA: "0.2 s"}

OWN_LENGTH = (CostProfile.FILE, CostProfile.MANDELBROT)
"""Profiles that decide themselves how long the loop is."""


def has_linear_costs(costs: CostsConfig, n: int) -> bool:
    """Whether a loop of n iterations needs no list of costs: it is long, and they are linear in the index.

    Shorter loops have one all the same: their sums are rounded as ever.
    """
    linear = (CostProfile.CONSTANT, CostProfile.INCREASING, CostProfile.DECREASING)
    of_job = costs.profile is CostProfile.JOB and costs.variation == 0.0
    return n > MOST_LISTED and (of_job or costs.profile in linear)
