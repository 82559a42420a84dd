"""``mlsim metrics`` and ``mlsim compare`` as a user sees them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

FAST = ("--quiet", "--set", "output.pictures=off", "--set", "output.trace=none", "--set", "output.passes=on")


@pytest.fixture
def two(mlsim, small: Path) -> Path:
    """Two runs, ``easy`` and ``none``, and the directory they are in."""
    for backfill in ("easy", "none"):
        done = mlsim("run", "small.yaml", *FAST, "--set", f"batch.backfill={backfill}", "--out", backfill)
        assert done.code == 0, done.err
    return small


@pytest.mark.slow
def test_metrics_of_a_run(mlsim, two: Path):
    done = mlsim("metrics", "easy")
    assert (done.code, done.err) == (0, "")
    for words in (
        "4 submitted, 4 completed",
        "queue length over time",
        "queue length at passes",
        "wall time of a pass",
        "jobs by slowdown",
        "by class",
        "short",
    ):
        assert words in done.out
    assert "…" not in done.out
    several = mlsim("metrics", "easy", "none", "--by", "size")
    assert several.out.index("easy") < several.out.index("none")
    assert "9-16" in several.out


@pytest.mark.slow
def test_metrics_as_json_and_csv(mlsim, two: Path):
    done = mlsim("metrics", "easy", "none", "--json", "--csv", "all.csv", "--tau", "60")
    assert done.code == 0, done.err
    printed = json.loads(done.out)
    assert printed["tau"] == 60
    assert [run["run"] for run in printed["runs"]] == ["easy", "none"]
    stored = json.loads((two / "none" / "summary.json").read_text())
    assert printed["runs"][1]["wait_time"] == stored["wait_time"]
    assert printed["runs"][1]["bounded_slowdown"]["tau"] == 60
    rows = list(csv.DictReader((two / "all.csv").open()))
    assert [row["run"] for row in rows] == ["easy", "none"]
    assert float(rows[1]["wait_time.mean"]) == stored["wait_time"]["mean"]
    again = mlsim("metrics", "easy", "--csv", "all.csv")
    assert again.code == 2
    assert "already exists" in again.err
    assert again.out == ""
    assert mlsim("metrics", "none", "--by", "week", "--csv", "weeks.csv").code == 0
    assert [row["week"] for row in csv.DictReader((two / "weeks.csv").open())] == ["1"]


@pytest.mark.slow
def test_both_ways_of_rca_are_two_runs(mlsim, small: Path):
    assert mlsim("run", "small.yaml", "--quiet", "--rca", "both", "--out", "both").code == 0
    printed = json.loads(mlsim("metrics", "both", "--json").out)
    assert [run["run"] for run in printed["runs"]] == ["rca-off", "rca-on"]
    compared = mlsim("compare", "both")
    assert "coordination.rca" in compared.out
    assert "output.passes" not in compared.out, "no pictures were asked for"
    drawn = mlsim("compare", "both", "--pictures", "pictures")
    assert "need runs with --set output.passes=on" in drawn.out


@pytest.mark.slow
def test_compare(mlsim, two: Path):
    done = mlsim("compare", "none", "easy", "--labels", "plain,backfilled", "--pictures", "pictures")
    assert (done.code, done.err) == (0, "")
    for words in ("batch.backfill", "mean wait", "difference", "start earlier or later than in plain"):
        assert words in done.out
    drawn = {path.name for path in (two / "pictures").iterdir()}
    assert drawn == {
        f"{name}.{suffix}"
        for name in ("slowdown", "queue-length", "utilization", "pass-time")
        for suffix in ("png", "pdf")
    }
    again = mlsim("compare", "none", "easy", "--pictures", "pictures")
    assert again.code == 2
    assert "already exists" in again.err


@pytest.mark.slow
def test_compare_as_json_and_into_a_directory(mlsim, two: Path):
    done = mlsim("compare", "none", "easy", "--json", "--out", "compared")
    assert done.code == 0, done.err
    printed = json.loads(done.out)
    assert printed == json.loads((two / "compared" / "comparison.json").read_text())
    assert printed["differences"] == {"batch.backfill": ["none", "easy"]}
    (pair,) = printed["jobs"]
    assert (pair["first"], pair["other"], pair["paired"]) == ("none", "easy", 4)
    metric = {row["metric"]: row for row in printed["metrics"]}["jobs.completed"]
    assert (metric["values"], metric["verdicts"]) == ([4, 4], ["same"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("metrics", "nothing"), "nothing: there is no such directory"),
        (("metrics", "small.yaml"), "small.yaml: a file"),
        (("compare", "nothing", "small.yaml"), "nothing: there is no such directory"),
        (("metrics", "."), "no run: there is no summary.json"),
    ],
)
def test_what_is_no_run(mlsim, arguments, words):
    done = mlsim(*arguments)
    assert (done.code, done.out) == (2, "")
    assert words in done.err
    assert "Traceback" not in done.err
