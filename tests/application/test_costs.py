"""Iteration costs: profiles, sharing, calibration, files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlsim.application import CostProfiles
from mlsim.application.costs import read_costs, truncated_normal
from mlsim.errors import InputError
from mlsim.scenario import CostsConfig, IterationsConfig


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


def test_truncated_normal_draws_again_below_zero() -> None:
    values = truncated_normal(np.random.default_rng(1), 1.0, 2.0, 200_000)
    assert values.min() > 0.0
    # Mean of a normal(1, 2) above 0: 1 + 2·φ(1/2)/Φ(1/2)
    assert values.mean() == pytest.approx(1.0 + 2.0 * 0.352065 / 0.691462, rel=0.01)


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


@pytest.mark.parametrize("text", ["cost\n1.5\n2\n", "1.5,2", "1.5\n\n2\n", '"seconds"\n 1.5 , 2,\n'])
def test_csv_files(tmp_path: Path, text: str) -> None:
    path = tmp_path / "costs.csv"
    path.write_text(text, encoding="utf-8")
    assert read_costs(path).tolist() == [1.5, 2.0]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("costs.csv", b"1\nx\n", r"costs.csv:2: 'x' is not a number"),
        ("costs.csv", b"1,x\n2\n", r"costs.csv:1: 'x' is not a number"),
        ("costs.csv", b"", "holds no costs"),
        ("costs.csv", b"cost\n", "holds no costs"),
        ("costs.csv", b"1\n-2\n", r"iteration 1 is -2.0 \(1 of 2"),
        ("costs.csv", b"nan\n", "iteration 0 is nan"),
        ("costs.csv", b"inf\n", "iteration 0 is inf"),
        ("costs.csv", b"\xff\xfe", "not a text file"),
        ("costs.npy", b"1\n", "not a NumPy file"),
        ("costs.npy", b"", "not a NumPy file"),
        ("costs.txt", b"1\n", "allowed: .npy, .csv"),
    ],
)
def test_unusable_files_are_named(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=words) as error:
        read_costs(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("values", [np.ones((2, 2)), np.array(["a"]), np.array([1 + 2j]), np.array(3.0)])
def test_npy_files_of_another_shape_or_type(tmp_path: Path, values: np.ndarray[Any, Any]) -> None:
    np.save(tmp_path / "costs.npy", values)
    with pytest.raises(InputError, match="one column of real numbers"):
        read_costs(tmp_path / "costs.npy")


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_costs(tmp_path / "costs.csv")
