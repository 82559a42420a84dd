"""Energy profiles: cleaning, the three tests, and synthetic profiles of known classes."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from mlsim.errors import InputError
from mlsim.learning.energy import EnergyClass, Tree, classify, cleaned, read_profiles

N = 300
BOUNDS = {"low": np.full(20, 100.0), "high": np.full(20, 500.0)}
"""Jobs that make the scale that of the platform, 100 to 500 W."""


def synthetic(kind, rng):
    noise = rng.normal(0, 8, N)
    level = rng.uniform(220, 380)
    if kind is EnergyClass.CONSTANT:
        return level + noise
    if kind is EnergyClass.PERIODIC:
        period, phase = rng.uniform(8, 40), rng.uniform(0, 2 * np.pi)
        wave = np.sin(2 * np.pi * np.arange(N) / period + phase)
        return level + rng.uniform(75, 110) * (np.sign(wave) if rng.random() < 0.5 else 1.2 * wave) + noise
    if kind is EnergyClass.APERIODIC:
        return level + rng.normal(0, rng.uniform(48, 60), N)
    step = np.where(np.arange(N) < rng.integers(N // 4, 3 * N // 4), -1, 1)
    return level + rng.uniform(75, 110) * step + noise


def test_synthetic_profiles_of_known_classes_are_found():
    rng = np.random.default_rng(3)
    kinds = [kind for kind in EnergyClass if kind is not EnergyClass.TOO_SHORT]
    made = {f"{kind} {k}": np.clip(synthetic(kind, rng), 100, 500) for kind in kinds for k in range(100)}
    found = classify({**made, **BOUNDS})
    right = np.mean([job.rsplit(" ", 1)[0] == found[job].kind for job in made])
    assert right >= 0.99, right


@pytest.mark.parametrize("period", [6, 10, 25])
def test_the_period_is_that_of_the_wave(period):
    wave = 300 + 150 * np.sin(2 * np.pi * np.arange(N) / period)
    found = classify({"wave": wave, **BOUNDS})["wave"]
    assert found.kind is EnergyClass.PERIODIC
    assert found.period == pytest.approx(period)
    amplitude = 150 / 400
    assert found.density == pytest.approx(N * amplitude**2 / 4, rel=1e-6)  # |X|² / n of a sine


def test_thresholds_decide():
    rng = np.random.default_rng(1)
    jobs = {"noise": 300 + rng.normal(0, 50, N), **BOUNDS}
    assert classify(jobs)["noise"].kind is EnergyClass.APERIODIC
    assert classify(jobs, Tree(constant=0.2))["noise"].kind is EnergyClass.CONSTANT
    assert classify(jobs, Tree(periodic=0.001))["noise"].kind is EnergyClass.PERIODIC
    assert classify(jobs, Tree(stationary=0.0))["noise"].kind is EnergyClass.NON_STATIONARY
    assert classify({"short": np.ones(11), **BOUNDS})["short"].kind is EnergyClass.TOO_SHORT
    assert classify({"none": np.empty(0)})["none"].samples == 0


def test_cleaning_takes_means_and_drops_ends_and_outliers():
    raw = np.repeat(np.r_[np.full(2, 900.0), np.tile([100.0, 102.0], 20), 5000.0, np.full(3, 7.0)], 4)
    found = cleaned(np.r_[raw, 1.0], group=4, head=2, tail=3)
    assert found.tolist() == [100.0, 102.0] * 20
    assert cleaned(np.arange(10.0), group=4, head=1, tail=1).size == 0
    assert cleaned(np.full(40, 3.0), group=2, head=0, tail=0).tolist() == [3.0] * 20


def test_the_command_reads_and_writes_csv(tmp_path):
    from mlsim.cli.main import app

    wave = 300 + 150 * np.sign(np.sin(2 * np.pi * np.arange(N) / 20 + 0.1))
    rows = [f"a{k % 2},{k // 2},{power if k % 2 else 300}" for k, power in enumerate(np.repeat(wave, 2))]
    (tmp_path / "samples.csv").write_text("job_id,time,power\n" + "\n".join(reversed(rows)) + "\n")
    out = tmp_path / "classes.csv"
    words = ["learn", "energy", str(tmp_path / "samples.csv"), "--group", "1", "--csv", str(out)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    kinds = dict(line.split(",")[:2] for line in out.read_text().splitlines()[1:])
    assert kinds == {"a0": "constant", "a1": "periodic"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("job_id,time\n1,2\n", "no column power"),
        ("job_id,time,power\n1,2,3\n1,3,many\n", ":3: time or power"),
    ],
)
def test_broken_files_are_refused(text, message, tmp_path):
    (tmp_path / "samples.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        read_profiles(tmp_path / "samples.csv")
