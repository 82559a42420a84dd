"""``mlsim workload profile``: files of costs, pictures of them, and what is refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from mlsim.cli.main import app
from mlsim.errors import MlsimError
from tests.cli.conftest import COMMAND, REPOSITORY, Ended
from tests.reference.applications import escape_counts


@pytest.fixture
def profile(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    """Run the command in the small scenario's directory, in this process, with a cache of its own."""
    monkeypatch.chdir(small)
    monkeypatch.setenv("MLSIM_CACHE", str(tmp_path / "cache"))

    def run(*arguments: str) -> Ended:
        code, message = 0, ""
        try:
            app(["workload", "profile", *arguments], standalone_mode=False)
        except MlsimError as error:
            code, message = error.exit_code, str(error)
        return Ended(code, capsys.readouterr().out, message)

    return run


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()} - {"small.yaml", "small.csv", "cache"}


def test_an_image_is_written_counted_and_drawn(profile, small):
    done = profile("mandelbrot", "--size", "24", "--limit", "60", "--exponent", "3", "-o", "m.npy")
    assert done.code == 0, done.err
    counts = escape_counts(24, 60, 3, -2.0, 2.0, -2.0, 2.0)
    assert np.load(small / "m.npy").tolist() == counts
    assert f"count 576  mean {np.mean(counts):.6g}  std {np.std(counts):.6g}  min 1  max 60" in done.out
    assert f"c.o.v. {np.std(counts) / np.mean(counts):.4g}" in done.out
    assert "steps of z" in done.out
    assert names(small) == {"m.npy", "m.png"}
    picture = imread(small / "m.png")
    assert picture.shape[1] == 1500
    assert picture.std() > 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("constant", "--mean", "2ms"),
        ("uniform", "--low", "1 ms", "--high", "3 ms"),
        ("normal", "--mean", "2", "--std", "0.5"),
        ("exponential", "--mean", "2 GFLOP", "--reference-speed", "2 GFLOP/s"),
        ("gamma", "--mean", "2", "--std", "0.5"),
        ("lognormal", "--mean", "2", "--std", "30"),
        ("bimodal", "--low", "0", "--high", "3 ms", "--share", "0.1"),
        ("increasing", "--high", "3 ms", "--mean", "1 s"),
        ("Decreasing", "--high", "3 ms"),
        ("psia", "--points", "300", "--image-width", "4", "--bin-size", "0.1", "--support-angle", "1"),
        ("psia", "--points", "300", "--cloud-seed", "3", "--scan-cost", "0.5", "--unit-cost", "1 us"),
    ],
)
def test_every_profile(profile, small, arguments):
    done = profile(*arguments, "--iterations", "500", "--seed", "4", "--out", "c.csv", "--json")
    assert done.code == 0, done.err
    lines = (small / "c.csv").read_text().splitlines()
    costs = np.array([float(line) for line in lines[1:]])
    facts = json.loads(done.out)
    assert facts["profile"] == arguments[0].lower()
    assert facts["count"] == len(costs) == 500
    assert facts["mean"] == costs.mean()
    assert (facts["min"], facts["max"], facts["std"]) == (costs.min(), costs.max(), costs.std())
    assert facts["files"] == ["c.csv", "c.png"]
    assert names(small) == {"c.csv", "c.png"}
    assert imread(small / "c.png").shape[1] == 1500


def test_a_written_file_is_a_profile_again(profile, small):
    assert profile("mandelbrot", "--size", "8", "--limit", "9", "-o", "m.npy", "--no-picture").code == 0
    done = profile("file", "--path", "m.npy", "--mean", "20 ms", "-o", "scaled.csv", "--no-picture")
    assert done.code == 0, done.err
    counts = np.load(small / "m.npy")
    lines = (small / "scaled.csv").read_text().splitlines()[1:]
    np.testing.assert_allclose([float(line) for line in lines], counts * (0.02 / counts.mean()))
    assert names(small) == {"m.npy", "scaled.csv"}


@pytest.mark.parametrize("column", ["run_time", "3"])
def test_a_column_of_a_table_is_a_profile(profile, small, column):
    done = profile("file", "--path", "small.csv", "--column", column, "-o", "c.npy", "--no-picture")
    assert done.code == 0, done.err
    rows = [line.split(",") for line in (small / "small.csv").read_text().splitlines()]
    place = rows[0].index("run_time")
    assert place == 2
    assert np.load(small / "c.npy").tolist() == [float(row[place]) for row in rows[1:]]


def test_the_same_command_gives_the_same_bytes(profile, small):
    for name in ("a", "b"):
        image = ("--size", "20", "--window=-1,1,-0.5,1.5", "--mean", "20 ms")
        assert profile("mandelbrot", *image, "-o", f"{name}.npy").code == 0
    for suffix in ("npy", "png"):
        assert (small / f"a.{suffix}").read_bytes() == (small / f"b.{suffix}").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mandelbort", "-o", "c.npy"), "did you mean 'mandelbrot'?"),
        (("job", "-o", "c.npy"), "made from a job's run time; allowed: constant"),
        (("mandelbrot", "--limit", "0", "-o", "c.npy"), "--limit: 0 is too small"),
        (("mandelbrot", "--window", "1,2,3", "-o", "c.npy"), "--window 1,2,3: allowed: four numbers"),
        (("mandelbrot", "--window=1,0,0,1", "-o", "c.npy"), "--window: x_max: 0.0 is not above x_min"),
        (("mandelbrot", "--iterations", "9", "-o", "c.npy"), "--size decides"),
        (("mandelbrot", "--points", "9", "-o", "c.npy"), "--points: not for profile: mandelbrot"),
        (("psia", "-o", "c.npy"), "--iterations: missing; psia needs it"),
        (("psia", "-n", "0", "-o", "c.npy"), "--iterations: 0 is too small"),
        (("psia", "-n", "9", "--bin-size", "x", "-o", "c.npy"), "--bin-size: 'x' is not a number"),
        (("gamma", "--mean", "3 parsecs", "-n", "9", "-o", "c.npy"), "--mean: '3 parsecs' is not a time"),
        (("gamma", "--mean", "3", "-n", "9", "-o", "c.npy"), "--std: missing; profile: gamma needs it"),
        (("constant", "--mean", "3", "-n", "9", "-o", "c.txt"), "allowed: .npy, .csv"),
        (("constant", "--mean", "3", "-n", "9", "-o", "no/c.npy"), "no/c.npy: there is no directory no"),
        (
            ("constant", "--mean", "3", "-n", "9", "-o", "c.npy", "--reference-speed", "3 s"),
            "--reference-speed: '3 s' is a time, not a speed",
        ),
        (("file", "--path", "none.npy", "-o", "c.npy"), "none.npy: there is no such file"),
        (("file", "-o", "c.npy"), "--path: missing"),
        (("file", "--path", "small.csv", "-o", "c.npy"), "which one holds the costs? Choose it by"),
        (("file", "--path", "small.csv", "--column", "runtime", "-o", "c.npy"), "did you mean 'run_time'?"),
        (("file", "--path", "small.csv", "--column", "0", "-o", "c.npy"), "--column: 0 is too small"),
        (("constant", "--mean", "3", "--column", "2", "-n", "9", "-o", "c.npy"), "--column: not for profile"),
    ],
)
def test_what_cannot_be_is_refused(profile, small, arguments, message):
    done = profile(*arguments)
    assert done.code == 2
    assert message in done.err
    assert names(small) == set()


@pytest.mark.parametrize("there", ["c.npy", "c.png"])
def test_nothing_is_overwritten(profile, small, there):
    (small / there).write_text("keep me")
    done = profile("constant", "--mean", "1", "-n", "9", "-o", "c.npy")
    assert done.code == 2
    assert f"{there}: already exists" in done.err
    assert (small / there).read_text() == "keep me"
    assert names(small) == {there}


def test_wrong_costs_in_a_file_are_named(profile, small):
    (small / "bad.csv").write_text("cost\n1\nnan\n")
    done = profile("file", "--path", "bad.csv", "-o", "c.npy")
    assert done.code == 2
    assert "bad.csv:3: the cost of iteration 1 is nan" in done.err
    assert names(small) == {"bad.csv"}


def test_a_disk_that_is_full_leaves_nothing(small):
    done = subprocess.run(
        ["bash", "-c", 'ulimit -f 8; exec "$@"', "bash", *COMMAND]
        + ["workload", "profile", "constant", "--mean", "1", "-n", "100000", "-o", "c.npy"],
        cwd=small,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
    )
    assert done.returncode == 1, done.stderr
    assert "c.npy: cannot be written" in done.stderr
    assert names(small) == set()


def test_an_error_is_one_line_and_exit_code_2(mlsim, small):
    done = mlsim("workload", "profile", "mandelbrot", "--limit", "0", "-o", "c.npy")
    assert (done.code, done.err) == (
        2,
        "mlsim: --limit: 0 is too small; allowed: a whole number, 1 to 1000000000\n",
    )


def test_profiles_are_listed(mlsim):
    done = mlsim("list", "profiles", env={"COLUMNS": "200"})
    for word in ("mandelbrot", "psia", "lognormal", "scan_cost", "Alg. 4.1"):
        assert word in done.out


def test_a_run_on_a_mandelbrot_image(mlsim, small):
    (small / "loop.yaml").write_text(
        (small / "small.yaml")
        .read_text()
        .replace("profile: job, variation: 0.3", "profile: mandelbrot, limit: 50, calibrate: run-time")
        .replace("per_pe: 4", "count: 256")
    )
    done = mlsim("run", "loop.yaml", "--json", env={"MLSIM_CACHE": str(small / "cache")})
    assert done.code == 0, done.err
    assert json.loads(done.out)["jobs"]["completed"] == 4
