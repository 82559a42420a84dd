"""Synthetic jobs of published machines have the published figures."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import yaml

import mlsim
from mlsim.analysis.job_metrics import accuracy
from mlsim.batch.predictors.offline import History, predictions, read_history
from mlsim.errors import InputError
from mlsim.workload import job_mix
from mlsim.workload.campaigns import machine_jobs
from mlsim.workload.csv_log import write_csv
from mlsim.workload.job_mix import read_mix
from mlsim.workload.log_fields import HOUR

N = 60_000
EURORA, KIT = read_mix("eurora"), read_mix("forhlr2")


def eurora(jobs=None, **options):
    return machine_jobs("eurora", jobs, **options)


def kit(jobs=None, **options):
    return machine_jobs("forhlr2", jobs, **options)


@pytest.fixture(scope="module")
def like_eurora():
    return eurora(N, seed=3)


@pytest.fixture(scope="module")
def like_kit():
    return kit(N, seed=3)


def lengths(jobs):
    return np.digitize(jobs.run_time, [HOUR, 5 * HOUR])


def test_eurora_has_the_published_lengths(like_eurora):
    """Galleguillos 2020, §2.1.4: shares of jobs, shares of 121,885 job-hours of 404,866 jobs."""
    jobs = like_eurora.jobs
    assert len(jobs) == N
    length = lengths(jobs)
    assert np.bincount(length) / N == pytest.approx([0.9215, 0.0707, 0.0078], abs=2e-4)
    hours = np.bincount(length, jobs.run_time) / jobs.run_time.sum()
    assert hours == pytest.approx([0.0894, 0.7043, 0.2063], abs=0.02)
    assert jobs.run_time.mean() == pytest.approx(121_885 * HOUR / 404_866, rel=0.04)


def test_eurora_has_the_published_classes(like_eurora):
    """The counts and mean run times of Table 2.1."""
    jobs = like_eurora.jobs
    assert jobs.asked is not None
    assert jobs.asked.names == ("memory", "gpu", "mic")
    _, gpu, mic = jobs.asked.totals.T
    masks = {"gpu": gpu > 0, "mic": mic > 0, "cpu": (gpu == 0) & (mic == 0)}
    counts = {"gpu": 302_625, "mic": 2_810, "cpu": 99_431}
    means = {"gpu": 446, "mic": 3342, "cpu": 2959}
    for name, mask in masks.items():
        assert mask.sum() / N == pytest.approx(counts[name] / 404_866, abs=2e-4)
        assert jobs.run_time[mask].mean() == pytest.approx(means[name], rel=0.25 if name == "mic" else 0.08)
    assert not (masks["gpu"] & masks["mic"]).any()


def test_eurora_has_the_published_walltimes(like_eurora):
    """Mean absolute error 225 min, 3.6 % too short, less than 10 % within a quarter (§4.1.2)."""
    jobs = like_eurora.jobs
    row = accuracy(jobs.walltime, jobs.run_time)
    assert row["mae"] / 60 == pytest.approx(225, abs=3)
    assert row["under"]["share"] == pytest.approx(0.036, abs=0.003)
    assert row["within_25"] < 0.10


def test_kit_has_the_published_lengths(like_kit):
    """§2.1.4: shares of jobs and of 562,772 job-hours of 114,355 jobs; highly parallel jobs."""
    jobs = like_kit.jobs
    length = lengths(jobs)
    assert np.bincount(length) / N == pytest.approx([0.6626, 0.1119, 0.2255], abs=2e-4)
    hours = np.bincount(length, jobs.run_time) / jobs.run_time.sum()
    assert hours == pytest.approx([0.0204, 0.0588, 0.9208], abs=0.01)
    assert jobs.run_time.mean() == pytest.approx(562_772 * HOUR / 114_355, rel=0.04)
    assert jobs.asked.units.max() == 1152


def test_users_are_as_published():
    jobs = eurora(None, seed=1).jobs
    counts = np.bincount(jobs.user)[1:]
    assert len(counts) == 360
    assert np.mean(counts > 1) == pytest.approx(0.92, abs=0.01)
    assert len(jobs) == 404_866
    assert jobs.submit_time[-1] == pytest.approx(EURORA.period, rel=0.01)


@pytest.mark.parametrize(("mix", "make"), [(EURORA, eurora), (KIT, kit)])
def test_every_request_fits_and_divides(mix, make):
    nodes = {"eurora": (16, 16_000, 2, 2), "kit": (20, 64_000)}[make.__name__]
    jobs = make(2_000, seed=7).jobs
    per_unit = np.column_stack([jobs.processors, jobs.asked.totals]) / jobs.asked.units[:, None]
    assert (per_unit == np.round(per_unit)).all()
    assert (per_unit <= nodes).all()
    assert (per_unit[:, :2] >= 1).all()
    assert sum(sum(each.shares) for each in mix.classes) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("make", [eurora, kit])
def test_the_same_arguments_give_the_same_jobs(make):
    one, same, other = make(500, seed=1), make(500, seed=1), make(500, seed=2)
    for name in ("submit_time", "run_time", "walltime", "processors", "user", "executable", "queue"):
        np.testing.assert_array_equal(getattr(one.jobs, name), getattr(same.jobs, name))
    assert one.header == same.header
    assert one.jobs.run_time.tolist() != other.jobs.run_time.tolist()


@pytest.mark.parametrize("make", [eurora, kit])
@pytest.mark.parametrize("jobs", [1, 2, 3, 10, 77])
def test_few_jobs(make, jobs):
    made = make(jobs, seed=5).jobs
    assert len(made) == jobs
    assert made.submit_time[0] == 0.0
    assert made.is_ordered()
    assert (made.run_time >= 1).all()
    assert (made.walltime >= 60).all()


def test_load_brings_jobs_faster():
    once, twice = eurora(3000, seed=1), eurora(3000, seed=1, load=2.0)
    assert twice.jobs.submit_time[-1] == pytest.approx(once.jobs.submit_time[-1] / 2, rel=0.2)
    assert sorted(twice.jobs.run_time.tolist()) == sorted(once.jobs.run_time.tolist())


@pytest.mark.parametrize(("jobs", "load"), [(0, 1.0), (-4, 1.0), (10, 0.0), (10, -1.0), (10, float("nan"))])
def test_senseless_arguments(jobs, load):
    with pytest.raises(InputError, match="allowed"):
        eurora(jobs, load=load)


def errors_of(made):
    """Return the mean absolute error of each sort of estimate, each job ending after its run time."""
    jobs, header = made
    history = History(
        jobs, jobs.submit_time + jobs.run_time, list(header["executable_names"]), jobs.submit_time, 0
    )
    return {
        name: accuracy(predictions(history, name), jobs.run_time)["mae"] for name in ("walltime", "D", "L2")
    }


@pytest.mark.slow
@pytest.mark.parametrize("make", [eurora, kit])
def test_history_helps(make):
    """Users repeat themselves: who learns from them is far nearer than their walltimes."""
    mae = errors_of(make(N, seed=3, calm=True))
    assert mae["D"] < mae["L2"] < 0.6 * mae["walltime"]


@pytest.mark.slow
def test_history_helps_as_it_did_on_eurora_where_jobs_come_in_bursts(like_eurora, like_kit):
    """Galleguillos 2020, §4.1.2: 40 min with D, 225 min with walltimes; L2's 227 min do not come out."""
    mae = errors_of(like_eurora)
    assert mae["D"] / 60 == pytest.approx(40, rel=0.25)
    assert mae["L2"] < 0.6 * mae["walltime"]
    mae = errors_of(like_kit)
    assert mae["D"] < 0.6 * mae["walltime"]
    assert mae["L2"] < 0.6 * mae["walltime"]


def test_what_is_written_reads_back(tmp_path):
    made = eurora(400, seed=2)
    write_csv(tmp_path / "jobs.csv.gz", made.jobs, made.header)
    history = read_history(tmp_path / "jobs.csv.gz")
    for name in (
        "job_id",
        "submit_time",
        "run_time",
        "walltime",
        "processors",
        "user",
        "executable",
        "queue",
    ):
        np.testing.assert_array_equal(getattr(history.jobs, name), getattr(made.jobs, name))
    assert history.executable_names == made.header["executable_names"]
    assert history.jobs.asked is not None
    assert made.jobs.asked is not None
    np.testing.assert_array_equal(history.jobs.asked.units, made.jobs.asked.units)
    np.testing.assert_array_equal(history.jobs.asked.totals, made.jobs.asked.totals)


def jobs_at_passes(tmp_path, seed, calm, predictor):
    """Return the jobs that wait or run at a pass with a queue under a greedy priority rule, in the mean."""
    made = eurora(3_000, seed=seed, calm=calm)
    path = tmp_path / f"{seed}-{calm}.csv"
    write_csv(path, made.jobs, made.header)
    scenario = yaml.safe_load(EURORA.scenario) | {
        "workload": {"path": str(path), "mapping": "core"},
        "batch": {"dispatcher": "prb", "on_overrun": "extend", "predictor": predictor},
        "output": {"passes": True},
    }
    passes = mlsim.run(scenario).passes.filter(pl.col("queue_length") > 0)
    there = passes["queue_length"] + passes["running"] - passes["started"]
    return float(there.mean())


def test_jobs_queue_as_in_the_models_of_the_thesis(tmp_path):
    """Table 5.3: 51 to 100 jobs in a model in the mean of passes, 379 where none is left out."""
    bursts = [jobs_at_passes(tmp_path, seed, False, "actual") for seed in range(71, 76)]
    calm = [jobs_at_passes(tmp_path, seed, True, "actual") for seed in range(71, 73)]
    assert 51 < np.median(bursts) < 379
    assert min(bursts) > max(calm)
    assert max(calm) < 51


def test_even_sizes_add_up_and_differ_little(like_eurora):
    rng = np.random.default_rng(5)
    for jobs, mean in ((0, 10.0), (1, 10.0), (7, 200.0), (5000, 10.0)):
        sizes = job_mix._even_sizes(jobs, mean, rng)
        assert sizes.sum() == jobs
        assert (sizes > 0).all()
    largest = [job_mix._even_sizes(5000, 10.0, rng).max() for _ in range(20)]
    drawn = [job_mix._sizes(5000, 10.0, rng).max() for _ in range(20)]
    assert np.std(largest) < np.std(drawn)
