"""``mlsim workload eurora`` and ``kit``: a workload and a scenario that belong together."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("machine", "nodes"), [("eurora", "64 nodes, 1024 cores"), ("kit", "1173 nodes, 24048 cores")]
)
def test_the_scenario_fits_the_workload(mlsim, small: Path, machine, nodes):
    done = mlsim("workload", machine, "-o", "jobs.csv.gz", "--jobs", "300", "--seed", "4", "--load", "2")
    assert done.code == 0, done.err
    assert "300 jobs" in done.out
    checked = mlsim("check", "jobs.yaml")
    assert checked.code == 0, checked.err
    assert nodes in checked.out
    assert "300 jobs" in checked.out
    assert "seed 4, load 2" in (small / "jobs.yaml").read_text()


def test_calm_jobs_are_others_and_the_scenario_says_so(mlsim, small: Path):
    assert mlsim("workload", "eurora", "-o", "bursts.csv", "--jobs", "300").code == 0
    assert mlsim("workload", "eurora", "-o", "calm.csv", "--jobs", "300", "--calm").code == 0
    assert (small / "bursts.csv").read_text() != (small / "calm.csv").read_text()
    assert "load 1, calm" in (small / "calm.yaml").read_text()


def test_without_a_file_the_jobs_are_printed(mlsim):
    lines = mlsim("workload", "eurora", "--jobs", "5").out.splitlines()
    assert len(lines) == 6
    assert {"units", "request_memory", "request_gpu", "request_mic"} <= set(lines[0].split(","))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-o", "jobs.swf"], ".csv"),
        (["-o", "small.csv"], "already exists"),
        (["--jobs", "0"], "1 or more"),
        (["--load", "0"], "above 0"),
    ],
)
def test_senseless_arguments(mlsim, small: Path, arguments, words):
    before = sorted(small.iterdir())
    done = mlsim("workload", "kit", *arguments)
    assert done.code == 2
    assert words in done.err
    assert sorted(small.iterdir()) == before
