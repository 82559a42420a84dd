"""What coordination changed, and why."""

from __future__ import annotations

import numpy as np
import pytest

from mlsim.analysis.machine_metrics import released_seconds
from mlsim.analysis.run_comparison import explain_gains, gain_frame
from mlsim.record.derived_times import away_until
from tests.reference.runs import Job, Stay, records_of


def runs():
    """Job 1 holds two nodes until 100; with RCA it gives one back at 40: job 2 starts on it, later job 3."""
    off = records_of(
        jobs=[
            Job(submit=0, start=0, end=100, processors=2, cores=2),
            Job(submit=10, start=100, end=120, processors=1, cores=1),
            Job(submit=20, start=100, end=130, processors=1, cores=1),
        ],
        stays=[
            Stay(job=0, node=0, count=1, cores=1, start=0, end=100),
            Stay(job=0, node=1, count=1, cores=1, start=0, end=100),
            Stay(job=1, node=0, count=1, cores=1, start=100, end=120),
            Stay(job=2, node=1, count=1, cores=1, start=100, end=130),
        ],
        cores=[1, 1],
    )
    on = records_of(
        jobs=[
            Job(submit=0, start=0, end=100, processors=2, cores=2),
            Job(submit=10, start=40, end=60, processors=1, cores=1),
            Job(submit=20, start=110, end=140, processors=1, cores=1),
        ],
        stays=[
            Stay(job=0, node=0, count=1, cores=1, start=0, end=100),
            Stay(job=0, node=1, count=1, cores=1, start=0, end=40, released=True),
            Stay(job=1, node=1, count=1, cores=1, start=40, end=60),
            Stay(job=2, node=1, count=1, cores=1, start=110, end=140),
        ],
        cores=[1, 1],
    )
    return off, on


def test_a_job_is_fed_by_a_release_while_the_owner_still_runs():
    _, on = runs()
    # Job 3 starts on the same node, but after the owner's end, when the node would have been free anyway.
    assert gain_frame(on, on)["on_released_nodes"].to_list() == [False, True, False]


def test_gains_are_without_minus_with():
    frame = gain_frame(*runs())
    assert frame["wait_gain"].to_list() == [0, 60, -10]
    assert frame["response_gain"].to_list() == [0, 60, -10]


def test_the_explanation_adds_up():
    off, on = runs()
    gains = explain_gains(off, on)
    assert gains["released_node_hours"] == pytest.approx(60 / 3600)
    assert gains["jobs"] == {
        "earlier": 1,
        "later": 1,
        "same": 1,
        "on_released_nodes": 1,
        "earlier_on_released_nodes": 1,
    }
    assert [job["job_id"] for job in gains["gained"]] == [2]
    assert [job["job_id"] for job in gains["lost"]] == [3]
    assert gains["makespan"] == {"off": 130, "on": 140}


def test_nothing_changes_between_equal_runs():
    off, _ = runs()
    gains = explain_gains(off, off)
    assert gains["jobs"]["same"] == 3
    assert gains["gained"] == gains["lost"] == []
    assert np.isfinite(gains["released_node_hours"])


def test_a_node_that_came_back_was_away_only_until_then():
    records = records_of(
        jobs=[Job(submit=0, start=0, end=100)],
        stays=[
            Stay(job=0, node=0, count=1, cores=1, start=0, end=100),
            Stay(job=0, node=1, count=1, cores=1, start=0, end=40, released=True),
            Stay(job=0, node=1, count=1, cores=1, start=60, end=90, released=True),
        ],
        cores=[1, 1],
    )
    assert away_until(records.occupancy, records.jobs).tolist() == [100, 60, 100]
    assert released_seconds(records.occupancy, records.jobs) == (30, 30)
