from dataclasses import replace

import numpy as np
import pytest

from mlsim.analysis import summarize
from mlsim.analysis.job_metrics import accuracy
from mlsim.record import JobState
from tests.analysis.test_summary import run, screen


def test_by_hand():
    row = accuracy(np.array([100.0, 100.0, 100.0, 100.0, 50.0]), np.array([100.0, 75.0, 126.0, 74.0, 0.0]))
    assert row == {
        "jobs": 5,
        "mae": pytest.approx((25 + 26 + 26 + 50) / 5),
        "under": {"share": 0.2, "mean": 26.0},
        "over": {"share": 0.6, "mean": pytest.approx((25 + 26 + 50) / 3)},
        "exact": 0.2,
        "within_25": 0.4,
    }


def test_of_no_jobs():
    row = accuracy(np.empty(0), np.empty(0))
    assert row["jobs"] == 0
    assert (
        row["mae"] is row["exact"] is row["within_25"] is row["under"]["share"] is row["over"]["mean"] is None
    )


def test_the_summary_compares_both_estimates_over_jobs_that_ended():
    records = run()
    jobs = records.jobs
    ended = (jobs.state == JobState.COMPLETED) | (jobs.state == JobState.KILLED)
    assert ended.sum() > 0
    length = jobs.end_time - jobs.start_time
    jobs = replace(jobs, prediction=length + 60.0, walltime=length - 1.0)
    summary = summarize(replace(records, jobs=jobs), scenario="demo", seed=1, predictor="D")
    estimates = summary["estimates"]
    assert estimates["predictor"] == "D"
    assert estimates["prediction"]["jobs"] == ended.sum()
    assert estimates["prediction"]["mae"] == pytest.approx(60.0)
    assert estimates["walltime"]["under"] == {"share": 1.0, "mean": pytest.approx(1.0)}
    lines = screen(summary).splitlines()
    (row,) = [line for line in lines if line.strip().startswith("prediction")]
    assert row.split()[1:4] == ["1", "0.0", "%"]  # minutes; none too short
    assert max(map(len, lines)) <= 80


def test_the_screen_says_nothing_of_walltimes_alone():
    for predictor in (None, "walltime"):
        assert "MAE" not in screen(summarize(run(), scenario="demo", seed=1, predictor=predictor))
