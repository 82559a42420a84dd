"""Iteration costs: profiles, sharing, calibration, files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlsim.application import CostProfiles
from mlsim.errors import InputError
from mlsim.scenario.application_section import IterationsConfig
from mlsim.scenario.costs_section import CostsConfig


def profiles(iterations: dict[str, int] | None, seed: int = 7, **costs: Any) -> CostProfiles:
    length = None if iterations is None else IterationsConfig(**iterations)
    return CostProfiles(CostsConfig(**costs), length, reference_speed=2e9, seed=seed)


def test_job_profile_has_the_mean_of_the_job() -> None:
    costs = profiles({"per_pe": 3}, profile="job")
    np.testing.assert_allclose(costs.prefix(1, 2, 30.0), np.arange(7) * 10.0)
    assert costs.iterations(2) == 6


def test_job_profile_with_a_count_balances_to_the_run_time() -> None:
    prefix = profiles({"count": 1000}, profile="job").prefix(1, 8, 50.0)
    assert prefix[-1] == pytest.approx(50.0 * 8)


def test_job_profile_varies_by_seed_and_job_only() -> None:
    def drawn(seed: int, job: int) -> bytes:
        return profiles({"per_pe": 4}, seed, variation=0.25).prefix(job, 16, 60.0).tobytes()

    assert drawn(1, 5) == drawn(1, 5)
    assert len({drawn(1, 5), drawn(1, 6), drawn(2, 5), drawn(1, 0), drawn(1, -1)}) == 5


def test_job_profile_has_the_asked_deviation() -> None:
    costs = np.diff(profiles({"per_pe": 100}, variation=0.2).prefix(1, 500, 100.0))
    assert costs.mean() == pytest.approx(1.0, rel=0.01)
    assert costs.std() == pytest.approx(0.2, rel=0.02)
    assert costs.min() > 0.0


def test_job_without_run_time_costs_nothing() -> None:
    assert profiles({"per_pe": 2}, variation=0.2).prefix(1, 2, 0.0).tolist() == [0.0] * 5


def test_flop_become_seconds_at_the_reference_speed() -> None:
    prefix = profiles({"count": 4}, profile="constant", mean="1 GFLOP").prefix(1, 2, 0.0)
    assert prefix.tolist() == [0.0, 0.5, 1.0, 1.5, 2.0]
    normal = profiles({"count": 4}, profile="normal", mean="2 GFLOP", std="0 FLOP").prefix(1, 2, 0.0)
    assert normal.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_profiles_are_shared_by_jobs_of_one_length() -> None:
    costs = profiles({"per_pe": 10}, profile="exponential", mean="2 s")
    assert costs.prefix(1, 4, 9.0) is costs.prefix(2, 4, 5.0)
    assert len(costs.prefix(1, 5, 9.0)) == 51
    large = profiles({"count": 100_000}, profile="exponential", mean="2 s").prefix(1, 1, 1.0)
    assert large[-1] / 100_000 == pytest.approx(2.0, rel=0.02)


def test_calibration_makes_the_ideal_time_the_run_time() -> None:
    costs = profiles({"count": 1000}, profile="exponential", mean="3 s", calibrate="run-time")
    for pes, run_time in ((4, 100.0), (8, 7.0)):
        assert costs.prefix(1, pes, run_time)[-1] == pytest.approx(pes * run_time)


def test_calibration_of_costs_that_are_all_zero_is_an_error(tmp_path: Path) -> None:
    np.save(tmp_path / "zero.npy", np.zeros(3))
    config = CostsConfig(profile="file", path=str(tmp_path / "zero.npy"), calibrate="run-time")
    costs = CostProfiles(config, None, 1e9, 0, tmp_path / "zero.npy")
    with pytest.raises(InputError, match=r"job 9 ran for 20\.0 PE-seconds, but all 3 iterations cost 0"):
        costs.prefix(9, 2, 10.0)


def test_length_of_a_file_is_the_length_of_the_loop(tmp_path: Path) -> None:
    path = tmp_path / "costs.npy"
    np.save(path, np.array([1, 2, 3], dtype=np.int32))
    costs = CostProfiles(CostsConfig(profile="file", path=str(path)), None, 1e9, 0, path)
    assert costs.iterations(99) == 3
    assert costs.prefix(1, 99, 5.0).tolist() == [0.0, 1.0, 3.0, 6.0]


def test_jobs_with_loops_of_their_own_have_their_length() -> None:
    costs = profiles({"count": 5}, profile="exponential", mean="2 s")
    assert len(costs.prefix(1, 4, 9.0)) == 6
    assert len(costs.prefix(2, 4, 9.0, iterations=8)) == 9
    assert costs.prefix(3, 2, 1.0, iterations=8) is costs.prefix(4, 4, 9.0, iterations=8)
    assert costs.iterations(4) == 5
    assert costs.iterations(4, 8) == 8
    assert len(profiles(None, profile="job").prefix(1, 4, 9.0, iterations=12)) == 13


def test_mandelbrot_jobs_have_limits_of_their_own() -> None:
    costs = profiles(None, profile="mandelbrot", size=16, limit=50, unit_cost="1 s")
    counts = np.diff(costs.prefix(1, 4, 9.0))
    assert len(counts) == 256
    assert counts.max() == 50.0
    np.testing.assert_array_equal(
        np.diff(costs.prefix(2, 4, 9.0, iterations=256, limit=20)), np.minimum(counts, 20)
    )
    assert len(costs.prefix(3, 4, 9.0, iterations=64)) == 65
    assert costs.prefix(4, 4, 9.0, limit=20) is costs.prefix(5, 2, 1.0, iterations=256, limit=20)


def test_loops_of_their_own_are_scaled_to_the_run_time() -> None:
    costs = profiles(None, profile="mandelbrot", size=16, calibrate="run-time")
    for iterations, limit in ((256, 20), (64, 100_000), (-1, -1)):
        assert costs.prefix(1, 8, 30.0, iterations, limit)[-1] == pytest.approx(240.0)


def test_loops_of_their_own_that_a_profile_cannot_have(tmp_path: Path) -> None:
    np.save(tmp_path / "costs.npy", np.ones(5))
    file = profiles(None, profile="file", path=str(tmp_path / "costs.npy"))
    assert len(file.prefix(1, 2, 1.0, iterations=5)) == 6
    with pytest.raises(InputError, match=r"job 7: loop_iterations 6, .* is file; allowed: 5, as many"):
        file.prefix(7, 2, 1.0, iterations=6)
    with pytest.raises(InputError, match=r"job 7: loop_iterations 50, .* mandelbrot; allowed: the square"):
        profiles(None, profile="mandelbrot", unit_cost="1 s").prefix(7, 2, 1.0, iterations=50)
