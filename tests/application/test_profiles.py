"""Profiles of iteration costs: distributions, and costs along the loop."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.application.profiles.profile_costs import PROFILES, Request, iteration_costs, truncated_normal
from mlsim.scenario.costs_section import PROFILE_KEYS, CostsConfig
from mlsim.scenario.words import CostProfile

MANY = 400_000


def drawn(n: int = MANY, seed: int = 5, **costs: Any) -> Any:
    return iteration_costs(Request(CostsConfig(**costs), n, seed, reference_speed=2e9))


def test_truncated_normal_draws_again_below_zero() -> None:
    values = truncated_normal(np.random.default_rng(1), 1.0, 2.0, 200_000)
    assert values.min() > 0.0
    # Mean of a normal(1, 2) above 0: 1 + 2·φ(1/2)/Φ(1/2)
    assert values.mean() == pytest.approx(1.0 + 2.0 * 0.352065 / 0.691462, rel=0.01)


def test_truncated_normal_takes_a_mean_for_each() -> None:
    means = np.repeat([1.0, 100.0], 50_000)
    values = truncated_normal(np.random.default_rng(1), means, 0.5, 100_000)
    assert values.min() > 0.0
    assert values[50_000:].mean() == pytest.approx(100.0, rel=1e-3)


# Mean, standard deviation, skewness of each distribution, from its textbook formula.
BIMODAL_STD = math.sqrt(0.25 * 0.75 * 2.0**2 + 0.1**2)
MOMENTS = [
    ({"profile": "uniform", "low": 1, "high": 4}, 2.5, 3 / math.sqrt(12), 0.0),
    ({"profile": "uniform", "high": 4, "mean": 10}, 10.0, 20 / math.sqrt(12), 0.0),
    ({"profile": "normal", "mean": 10, "std": 1}, 10.0, 1.0, 0.0),
    ({"profile": "exponential", "mean": 3}, 3.0, 3.0, 2.0),
    ({"profile": "gamma", "mean": 3, "std": 2}, 3.0, 2.0, 4 / 3),
    ({"profile": "lognormal", "mean": 3, "std": 1}, 3.0, 1.0, (10 / 9 + 2) * math.sqrt(1 / 9)),
    ({"profile": "bimodal", "low": 2, "high": 4, "share": 0.25, "std": 0.1}, 2.5, BIMODAL_STD, None),
    ({"profile": "bimodal", "low": 2, "high": 4, "mean": 1}, 1.0, 1 / 3, 0.0),
    ({"profile": "increasing", "low": 1, "high": 4}, 2.5, 3 / math.sqrt(12), 0.0),
    ({"profile": "decreasing", "high": 4, "mean": 1}, 1.0, 2 / math.sqrt(12), 0.0),
]


@pytest.mark.parametrize(("costs", "mean", "std", "skewness"), MOMENTS)
def test_moments_are_those_of_the_distribution(
    costs: dict[str, Any], mean: float, std: float, skewness: float | None
) -> None:
    values = drawn(**costs)
    assert values.min() >= 0.0
    assert values.mean() == pytest.approx(mean, rel=0.01)
    assert values.std() == pytest.approx(std, rel=0.01)
    if skewness is not None:
        assert (((values - mean) / std) ** 3).mean() == pytest.approx(skewness, abs=0.1)


@pytest.mark.parametrize("profile", ["normal", "gamma", "lognormal"])
def test_without_deviation_all_costs_are_the_mean(profile: str) -> None:
    np.testing.assert_allclose(drawn(100, profile=profile, mean="2 ms", std=0), 0.002, rtol=1e-14)


def test_modes_without_deviation_are_two_costs() -> None:
    values = drawn(profile="bimodal", low=0, high="3 ms", share=0.2)
    assert set(values.tolist()) == {0.0, 0.003}
    assert (values > 0).mean() == pytest.approx(0.2, abs=0.01)


def test_flop_become_seconds() -> None:
    values = drawn(5, profile="increasing", low="2 GFLOP", high="6 GFLOP")
    assert values.tolist() == [1.0, 1.5, 2.0, 2.5, 3.0]


def test_lines_have_their_ends_and_the_middle_where_there_is_one_iteration() -> None:
    assert drawn(4, profile="increasing", high=3).tolist() == [0.0, 1.0, 2.0, 3.0]
    assert drawn(4, profile="decreasing", low=1, high=7).tolist() == [7.0, 5.0, 3.0, 1.0]
    assert drawn(1, profile="decreasing", low=1, high=7).tolist() == [4.0]
    assert drawn(3, profile="constant", mean=2).tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("costs", [row[0] for row in MOMENTS])
def test_the_seed_decides(costs: dict[str, Any]) -> None:
    random = costs["profile"] not in ("increasing", "decreasing")
    assert drawn(50, 1, **costs).tobytes() == drawn(50, 1, **costs).tobytes()
    assert (drawn(50, 1, **costs).tobytes() != drawn(50, 2, **costs).tobytes()) is random


amount = st.floats(1e-9, 1e9)


@settings(deadline=None, max_examples=60)
@given(n=st.integers(1, 50), mean=amount, ratio=st.floats(0, 3), low=st.floats(0, 1), share=st.floats(0, 1))
def test_costs_are_never_negative(n: int, mean: float, ratio: float, low: float, share: float) -> None:
    for profile in ("normal", "gamma", "lognormal"):
        values = drawn(n, profile=profile, mean=mean, std=ratio * mean)
        assert len(values) == n
        assert np.isfinite(values).all()
        assert values.min() >= 0.0
    for profile in ("uniform", "bimodal", "increasing", "decreasing"):
        extra = {"share": share} if profile == "bimodal" else {}
        values = drawn(n, profile=profile, low=low * mean, high=mean, **extra)
        assert len(values) == n
        assert values.min() >= low * mean * (1 - 1e-15)
        assert values.max() <= mean * (1 + 1e-15)


def test_the_registry_has_every_profile_with_its_keys() -> None:
    assert [entry.name for entry in PROFILES] == list(CostProfile)
    for entry in PROFILES:
        keys = set(PROFILE_KEYS[CostProfile(entry.name)].possible) - {"calibrate", "calibrate_to"}
        assert set(entry.parameters) == keys
