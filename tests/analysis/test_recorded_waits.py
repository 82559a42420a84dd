"""Recorded beside simulated waits: numbers, groups, reasons, command, page, pictures."""

from __future__ import annotations

import json
import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import mlsim
from mlsim.analysis.plots.chart_style import figures
from mlsim.analysis.recorded_waits import compare_waits
from mlsim.cli.main import app
from mlsim.errors import InputError
from mlsim.experiment.comparison import make_page

waits = st.lists(st.tuples(st.integers(0, 90), st.integers(0, 90)), min_size=1, max_size=20)


def share_up_to(values, limit):
    return sum(value <= limit for value in values) / len(values)


def mean_rank(values, value):
    """The mean of the places of equal values, from 1."""
    below, equal = sum(other < value for other in values), values.count(value)
    return below + (equal + 1) / 2


@given(waits)
def test_distributions_distance_and_ranks(pairs):
    recorded, simulated = [list(map(float, side)) for side in zip(*pairs, strict=True)]
    found = compare_waits(np.array(recorded), np.array(simulated))
    both = {*recorded, *simulated}
    distance = max(abs(share_up_to(recorded, x) - share_up_to(simulated, x)) for x in both)
    assert found["distance"] == pytest.approx(distance)
    for name, side in (("recorded", recorded), ("simulated", simulated)):
        assert found[name]["mean"] == pytest.approx(sum(side) / len(side))
        assert found[name]["no_wait"] == pytest.approx(side.count(0.0) / len(side))
        assert found[name]["within_minute"] == pytest.approx(share_up_to(side, 60.0))
    x, y = ([mean_rank(side, value) for value in side] for side in (recorded, simulated))
    n, mean = len(x), (len(x) + 1) / 2
    spread = [math.sqrt(sum((rank - mean) ** 2 for rank in side)) for side in (x, y)]
    if min(spread) == 0:
        assert found["rank_correlation"] is None
    else:
        together = sum((x[k] - mean) * (y[k] - mean) for k in range(n))
        assert found["rank_correlation"] == pytest.approx(together / (spread[0] * spread[1]))


def run_mlsim(*words):
    return CliRunner().invoke(app, [*map(str, words)])


SCENARIO = {
    "platform": {"nodes": [{"name": "n", "count": 4, "cores": 1}]},
    "batch": {"backfill": "easy"},
    "output": {"pictures": False},
}
JOBS = pl.DataFrame(
    {
        "job_id": [1, 2, 3, 4, 5, 6],
        "submit_time": [0, 10, 20, 30, 40, 50],
        "run_time": [100, 100, 40, 10, 10, 10],
        "walltime": [100, 100, 40, 10, 10, 10],
        "processors": [3, 4, 1, 1, 9, 1],
        "partition": ["a", "a", "b", "b", "b", "b"],
        "recorded_start": [0.0, 150.0, 250.0, 25.0, 60.0, None],
    }
)


@pytest.fixture(scope="module")
def result():
    return mlsim.run(SCENARIO, workload=JOBS)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return mlsim.run(SCENARIO, workload=JOBS, out=tmp_path_factory.mktemp("runs") / "a").directory


def test_what_is_left_out_is_counted(result):
    assert result.recorded.counts == {
        "jobs": 6,
        "compared": 4,
        "without_recorded_start": 1,
        "never_started": 1,
        "before_submission": 1,
    }
    rows = result.recorded.jobs.select("job_id", "recorded_wait", "simulated_wait", "difference").rows()
    assert rows == [(1, 0, 0, 0), (2, 140, 90, -50), (3, 230, 0, -230), (4, 0, 30, 30)]


def test_groups_have_the_same_numbers_as_their_jobs(result):
    table = result.recorded.by("partition")
    assert table.select("partition", "jobs", "recorded.mean", "simulated.mean").rows() == [
        ("a", 2, 70.0, 45.0),
        ("b", 2, 115.0, 15.0),
    ]


def test_reasons(result):
    why = dict(result.recorded.most_different.select("job_id", "why").rows())
    assert (
        why[3] == "its 1 cores were free in the log too: limits, priorities or reservations?; backfilled here"
    )
    assert why[2] == "its 4 cores were free in the log too: limits, priorities or reservations?"
    assert why[4] == "here 0 of its 1 cores were free at its recorded start; 1 job submitted before it waited"
    assert why[1] == ""


def test_reasons_of_dependencies_and_drains():
    scenario = {**SCENARIO, "workload": {"dependencies": True}}
    scenario["platform"] = {**SCENARIO["platform"], "drains": [{"nodes": "0-1", "start": 0, "end": 500}]}
    jobs = pl.DataFrame(
        {
            "job_id": [1, 2, 3],
            "submit_time": [0, 0, 10],
            "run_time": [100, 10, 10],
            "walltime": [100, 10, 10],
            "processors": [2, 1, 3],
            "preceding_job": [-1, 1, -1],
            "recorded_start": [0.0, 50.0, 10.0],
        }
    )
    why = dict(mlsim.run(scenario, workload=jobs).recorded.most_different.select("job_id", "why").rows())
    assert why[2] == "jobs that it depends on ended 50 s after its recorded start; 2 cores out of service"
    assert why[3] == "here 0 of its 3 cores were free at its recorded start; 2 cores out of service"


def test_no_starts_are_an_error_for_people():
    found = mlsim.run(SCENARIO, workload=JOBS.drop("recorded_start"))
    with pytest.raises(InputError, match="no job of this run has a recorded_start"):
        _ = found.recorded
    with pytest.raises(InputError, match="none of the jobs with a recorded start started"):
        _ = mlsim.run(SCENARIO, workload=JOBS[4:]).recorded


def test_the_command(directory, tmp_path):
    shown = run_mlsim("compare", "--recorded", directory, "--out", tmp_path / "c", "--by", "user")
    assert "4 of 6 jobs compared. 1 without a recorded start. 1 never started" in shown.stdout
    assert "Jobs that differ most" in shown.stdout
    names = {path.name for path in (tmp_path / "c").iterdir()}
    pictures = {
        f"recorded-{name}.{end}" for name in ("ecdf", "waits", "utilization") for end in ("png", "pdf")
    }
    assert pictures | {"jobs.csv", "recorded.json", "by-size.csv"} <= names
    text = run_mlsim("compare", "--recorded", directory, "--json", "--by", "class").stdout
    found = json.loads(text)
    assert {"by_class", "by_user", "by_week"} <= set(found)
    written = json.loads((tmp_path / "c" / "recorded.json").read_text())
    assert written == {key: value for key, value in found.items() if key != "by_class"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--recorded", "RUN", "RUN2"], "compares one run with its log; given: 2"),
        (["--recorded", "RUN", "--all"], "goes without --all"),
        (["RUN", "RUN2", "--by", "user"], "--by needs --recorded"),
    ],
)
def test_options_that_do_not_go_together(directory, tmp_path, options, words):
    other = mlsim.run(SCENARIO, workload=JOBS, out=tmp_path / "b").directory
    names = {"RUN": directory, "RUN2": other}
    done = run_mlsim("compare", *(names.get(word, word) for word in options))
    assert words in str(done.exception)


def test_the_page_has_a_section_where_the_log_has_starts(directory, tmp_path):
    page = make_page([directory])
    assert "Recorded beside simulated" in page
    assert "4 of 6 jobs have both starts" in page
    other = mlsim.run(SCENARIO, workload=JOBS.drop("recorded_start"), out=tmp_path / "b").directory
    assert "Recorded beside simulated" not in make_page([other])


@pytest.mark.parametrize("name", ["recorded-ecdf", "recorded-waits", "recorded-utilization"])
def test_the_same_run_draws_the_same_picture(result, name, tmp_path):
    figure = figures()[name]
    for copy in ("a", "b"):
        figure.draw({"run": result.records}, 85.0).savefig(
            tmp_path / f"{copy}.png", metadata={"Software": None}
        )
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
