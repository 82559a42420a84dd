"""``mlsim workload esp`` as a user sees it."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import polars as pl

from mlsim.cli.workload_commands import Application, Calibration
from mlsim.workload.esp_workload import EspApplication, EspCalibration


def test_a_workload_that_can_be_run(mlsim, small: Path):
    done = mlsim("workload", "esp", "--application", "psia", "--nodes", "8", "-o", "esp.csv")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("esp.csv: 230 jobs, ideally ")
    jobs = pl.read_csv(small / "esp.csv")
    assert jobs.columns[-2:] == ["executable", "loop_iterations"]
    assert jobs["processors"].max() == 8
    check = mlsim("check", "small.yaml", "--set", "workload.path=esp.csv")
    assert check.code == 0, check.err


def test_standard_output_and_options(mlsim):
    options = ("--seed", "4", "--fixed-g", "--initial", "0", "--interval", "7", "--estimate-factor", "1:2")
    one, again = (mlsim("workload", "esp", "--application", "mandelbrot", *options) for _ in range(2))
    assert one.code == 0, one.err
    assert one.out == again.out
    lines = one.out.splitlines()
    assert lines[0].endswith("executable,loop_iterations,loop_limit")
    assert lines[1].startswith("1,7,")
    assert len(lines) == 231
    assert {line.rsplit(",", 1)[1] for line in lines if ",G," in line} == {"10000000"}


def test_mistakes(mlsim, small: Path):
    (small / "esp.csv").write_text("mine")
    for options, words in (
        (("-o", "esp.csv"), "esp.csv: already exists"),
        (("--estimate-factor", "much"), "--estimate-factor much; allowed: FACTOR or LOW:HIGH"),
        (("--estimate-factor", "2:1"), "estimate factor: 2:1"),
        (("--nodes", "0"), "nodes: 0; allowed: 1 or more"),
    ):
        done = mlsim("workload", "esp", "--application", "psia", *options)
        assert done.code == 2
        assert words in done.err
    assert (small / "esp.csv").read_text() == "mine"


def test_the_words_are_those_of_the_workloads():
    assert [*get_args(Application)] == [*EspApplication]
    assert [*get_args(Calibration)] == [*EspCalibration]
