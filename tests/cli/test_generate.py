"""``mlsim workload generate`` as a user sees it."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
from typer.testing import CliRunner

from mlsim.cli.main import app
from mlsim.cli.workload_commands import Kinds
from mlsim.scenario.words import JobKinds


def test_a_workload_that_can_be_run(mlsim, small: Path):
    options = ("--jobs", "300", "--processors", "32", "--seed", "3", "--estimates", "1:4")
    done = mlsim("workload", "generate", "lublin", *options, "-o", "made.swf")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("made.swf: 300 jobs in ")
    again = mlsim("workload", "generate", "lublin", *options, "-o", "again.swf")
    assert again.code == 0, again.err
    assert (small / "made.swf").read_bytes() == (small / "again.swf").read_bytes()
    check = mlsim("check", "small.yaml", "--set", "workload.path=made.swf")
    assert check.code == 0, check.err
    assert mlsim("workload", "convert", "made.swf", "made.parquet").code == 0


def test_parameters(mlsim, small: Path):
    options = (
        "--days",
        "2",
        "--kinds",
        "batch",
        "--set",
        "batch.serial_prob=1",
        "--set",
        "batch.pow2_prob=0",
    )
    done = mlsim("workload", "generate", "lublin", *options, "-o", "serial.swf")
    assert done.code == 0, done.err
    lines = [line.split() for line in (small / "serial.swf").read_text().splitlines() if line[0] != ";"]
    assert lines
    assert {line[7] for line in lines} == {"1"}
    assert {line[14] for line in lines} == {"1"}
    assert float(lines[-1][1]) < 2 * 86400


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--jobs", "5", "-o", "made.json"), "made.json: its suffix is none of .csv, .parquet, .swf, each"),
        (("-o", "made.swf"), "jobs and days: neither is given"),
        (("--jobs", "0", "-o", "made.swf"), "jobs: 0; allowed: 1 to"),
        (("--days", "0.000001", "-o", "made.swf"), "--days 1e-06: no job comes in this time"),
        (
            ("--jobs", "5", "--estimates", "much", "-o", "made.swf"),
            "--estimates much; allowed: FACTOR or LOW:HIGH",
        ),
        (("--jobs", "5", "--set", "aarr=7", "-o", "made.swf"), "--set aarr=7; allowed: KIND.NAME=VALUE"),
        (("--jobs", "5", "--set", "batch.arr=7", "-o", "made.swf"), "batch.arr: unknown"),
    ],
)
def test_mistakes(mlsim, small: Path, options: tuple[str, ...], words: str):
    done = mlsim("workload", "generate", "lublin", *options)
    assert done.code == 2
    assert words in done.err
    assert not list(small.glob("*made*"))


def test_the_options_are_those_of_the_model():
    assert [*get_args(Kinds)] == [str(kind) for kind in JobKinds]


@pytest.mark.parametrize("suffix", [".swf.gz", ".csv.xz", ".parquet.zst", ".swf.bz2", ".week.28.swf"])
def test_files_may_be_compressed(suffix, tmp_path):
    out = tmp_path / f"lublin{suffix}"
    done = CliRunner().invoke(app, ["workload", "generate", "lublin", "--jobs", "20", "-o", str(out)])
    assert done.exit_code == 0, (done.output, done.exception)
    plain = tmp_path / "plain.swf"
    assert CliRunner().invoke(app, ["workload", "convert", str(out), str(plain)]).exit_code == 0
    assert sum(line[0] != ";" for line in plain.read_text().splitlines()) == 20
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([out.name, "plain.swf"])
