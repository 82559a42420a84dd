"""The Mandelbrot profile against plain Python, and its facts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mlsim.application import CostProfiles
from mlsim.application.profiles.counted_costs import MandelbrotImage, count_every_step, escape_counts
from mlsim.scenario.application_section import IterationsConfig
from mlsim.scenario.costs_section import CostsConfig
from tests.reference import applications as slow


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLSIM_CACHE", str(tmp_path_factory.mktemp("cache")))


edge = st.floats(-2.5, 2.5)


@settings(deadline=None, max_examples=120)
@given(
    size=st.integers(1, 8),
    limit=st.integers(1, 400),
    exponent=st.integers(2, 9),
    x=st.tuples(edge, edge).filter(lambda pair: pair[0] != pair[1]),
    y=st.tuples(edge, edge).filter(lambda pair: pair[0] != pair[1]),
)
def test_counts_are_those_of_the_algorithm(
    size: int, limit: int, exponent: int, x: tuple[float, float], y: tuple[float, float]
) -> None:
    image = MandelbrotImage(size, exponent, min(x), max(x), min(y), max(y))
    expected = slow.escape_counts(limit=limit, **image._asdict())
    assert escape_counts(image, limit).tolist() == expected
    assert _every_step(image, limit).reshape(-1).tolist() == expected


def _every_step(image: MandelbrotImage, limit: int) -> NDArray[np.int64]:
    """Count without looking for cycles, as the application does of which every step is done."""
    size, exponent, x_min, x_max, y_min, y_max = image
    imaginary = y_min + np.arange(size) * (y_max - y_min) / size
    counts = np.empty((size, size), np.int64)
    for x in range(size):
        count_every_step(x_min + x * (x_max - x_min) / size, imaginary, exponent, limit, counts[x])
    return counts


def test_points_that_never_escape_count_the_limit_however_large() -> None:
    # 0 and -1 are in the classic set, with cycles of one and two; without noticing them this takes ages.
    image = MandelbrotImage(2, 2, -1.0, 1.0, 0.0, 1e-12)
    assert escape_counts(image, 1_000_000_000).tolist()[::2] == [1_000_000_000] * 2


def test_a_lower_limit_cuts_the_counts() -> None:
    image = MandelbrotImage(40)
    many = escape_counts(image, 5000)
    for limit in (1, 10, 777):
        assert np.array_equal(escape_counts(image, limit), np.minimum(many, limit))


def test_real_parts_change_slowest_and_the_image_is_symmetric() -> None:
    counts = escape_counts(MandelbrotImage(64), 100).reshape(64, 64)
    # Row x is one real part; rows y and -y mirror each other, but the first, which is at -2.
    assert np.array_equal(counts[:, 1:], counts[:, :0:-1])
    assert not np.array_equal(counts[1:], counts[:0:-1])
    assert (counts[0] == 1).all()


def profile(iterations: IterationsConfig | None = None, **costs: Any) -> CostProfiles:
    return CostProfiles(CostsConfig(profile="mandelbrot", **costs), iterations, 1e9, 0)


def test_costs_are_counts_scaled_to_the_mean() -> None:
    costs = np.diff(profile(size=16, limit=50, mean="20 ms").prefix(1, 4, 0.0))
    counts = escape_counts(MandelbrotImage(16), 50)
    np.testing.assert_allclose(costs, counts * (0.02 / counts.mean()), rtol=1e-9)


def test_costs_are_counts_times_the_cost_of_one() -> None:
    prefix = profile(size=16, limit=50, unit_cost="2 kFLOP").prefix(1, 4, 0.0)
    np.testing.assert_allclose(np.diff(prefix), escape_counts(MandelbrotImage(16), 50) * 2e-6, rtol=1e-9)


def test_the_image_can_be_calibrated() -> None:
    prefix = profile(size=16, calibrate="run-time").prefix(1, 4, 30.0)
    assert prefix[-1] == pytest.approx(120.0)


def test_window_and_exponent_are_read() -> None:
    window = {"x_min": -0.5, "x_max": 0.25, "y_min": 0.1, "y_max": 1.0}
    prefix = profile(size=8, limit=30, exponent=3, window=window, unit_cost="1 s").prefix(1, 4, 0.0)
    assert np.diff(prefix).tolist() == slow.escape_counts(8, 30, 3, **window)


def test_the_image_is_as_large_as_its_size_or_the_iterations_say() -> None:
    assert profile(size=16, mean=1).iterations(99) == 256
    assert profile(IterationsConfig(count=400), mean=1).iterations(99) == 400
    assert profile(mean=1).iterations(99) == 1152**2


def test_jobs_share_the_costs(tmp_path: Path) -> None:
    costs = profile(size=16, mean=1)
    assert costs.prefix(1, 4, 9.0) is costs.prefix(2, 7, 5.0)
