"""The worked examples of plugins run, and do what they say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mlsim

CUSTOM = Path(__file__).parents[1] / "scenarios" / "custom"


@pytest.fixture(scope="module")
def results():
    return {
        name: mlsim.run(CUSTOM / f"{name}.yaml")
        for name in ("policy", "allocator", "dispatcher", "energy", "signal")
    }


def cores_over_time(result):
    """Give the times at which something changes, and the cores that every node gives from then on."""
    rows = result.records.occupancy
    times = np.unique(np.concatenate([rows.start, rows.end]))
    held = np.zeros((len(times), len(result.records.nodes.name)), np.int64)
    for row in range(len(rows.job)):
        during = (times >= rows.start[row]) & (times < rows.end[row])
        held[during, rows.node[row] : rows.node[row] + rows.count[row]] += rows.cores[row]
    return times, held


def test_every_job_ends_in_one_state(results):
    for name, result in results.items():
        jobs = result.summary["jobs"]
        assert jobs["submitted"] == 12
        assert jobs["completed"] + jobs["killed"] + jobs["rejected"] == 12, name


def test_the_policy_makes_a_difference(results):
    plain = mlsim.run(CUSTOM / "policy.yaml", overrides={"batch.policy": "FCFS"})
    assert results["policy"].jobs["start_time"].to_list() != plain.jobs["start_time"].to_list()


def test_the_allocator_uses_the_fewest_nodes(results):
    """Job 2 asks for 4 cores and 2 GPUs: one node. The others fill nodes from the machine's end."""
    occupancy = results["allocator"].records.occupancy
    first = occupancy.node[occupancy.job == 0]
    assert (first >= 2).all()


def test_no_user_has_more_than_half(results):
    result = results["dispatcher"]
    rejected = result.jobs.filter(result.jobs["state"] == "rejected")
    assert rejected["job_id"].to_list() == [8]
    assert rejected["reason"].to_list() == ["asks for 32 cores, and nobody may use more than 24"]
    assert result.summary["rejected_because"] == {rejected["reason"][0]: 1}
    jobs, rows = result.records.jobs, result.records.occupancy
    for time in np.unique(rows.start):
        for user in np.unique(jobs.user):
            running = (rows.start <= time) & (rows.end > time) & (jobs.user[rows.job] == user)
            assert (rows.cores * rows.count)[running].sum() <= 24


def test_the_power_cap_holds(results):
    _, held = cores_over_time(results["energy"])
    watts = 100.0 * np.count_nonzero(held, axis=1) + 20.0 * held.sum(axis=1)
    assert watts.max() <= 1500.0
    free = mlsim.run(CUSTOM / "energy.yaml", overrides={"batch.dispatcher": "prb"})
    _, held = cores_over_time(free)
    assert (100.0 * np.count_nonzero(held, axis=1) + 20.0 * held.sum(axis=1)).max() > 1400.0


def test_long_jobs_wait_for_the_temperature(results):
    """A job of more than 20 minutes starts at 22 °C at most: by the hour, and by the cores busy before."""
    jobs, rows = results["signal"].records.jobs, results["signal"].records.occupancy
    long = np.flatnonzero(jobs.walltime > 1200.0)
    assert len(long)
    for job in long.tolist():
        start = jobs.start_time[job]
        busy = (rows.cores * rows.count)[(rows.start < start) & (rows.end > start)].sum()
        assert 22.0 - 6.0 * np.cos(2 * np.pi * (start - 14400.0) / 86400.0) + 0.2 * busy <= 22.0
    free = mlsim.run(CUSTOM / "signal.yaml", overrides={"batch.dispatcher.parameters": {"limit": 99}})
    assert (free.records.jobs.start_time > jobs.start_time).any()  # those that overtook a long one


def test_a_format_a_deadline_and_a_file_of_ones_own(tmp_path):
    result = mlsim.run(CUSTOM / "reader.yaml", out=tmp_path / "out")
    start = dict(zip(*result.jobs.select("job_id", "start_time").get_columns(), strict=True))
    assert start[5] == start[1] + 100.0
    assert start[3] < start[2]
    assert result.jobs["deadline"].to_list() == [None, 900.0, 300.0, None, 250.0]
    lines = (tmp_path / "out/write/schedule.txt").read_text().splitlines()
    assert lines[0] == "1 0.0 100.0"
    assert len(lines) == 5
    later = mlsim.run(CUSTOM / "reader.yaml", overrides={"batch.policy.parameters.without": 1})
    assert later.jobs["start_time"].to_list() != result.jobs["start_time"].to_list()
