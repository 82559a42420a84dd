"""Worked examples with two levels, by hand: the slow co-simulation and the simulator both give them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.reference import cosim
from tests.reference.cosim_data import Failure, Platform, Rules
from tests.reference.cosim_scenarios import Result, Row, Study, by_reference, by_simulator
from tests.test_cosim_reference import REQUESTS

STATIC = {"technique": "STATIC"}


@pytest.fixture(params=["reference", "simulator"])
def results_of(request, tmp_path):
    """Both ways to run a study; the simulator's as far as it has what the study asks for."""

    def run(study: Study) -> Result:
        if request.param == "reference":
            return by_reference(study)
        rules = study.rules
        if not REQUESTS and (rules.requests or rules.failures or rules.short_first):
            pytest.skip("the simulator has no requests")
        return by_simulator(study, tmp_path)

    return run


def nodes_of(result: Result, job: int) -> list[int]:
    return [stay[0] for stay in result.stays[job]]


def starts(result: Result) -> list[float]:
    return [float(job[1]) for job in result.jobs]


def ends(result: Result) -> list[float]:
    return [float(job[2]) for job in result.jobs]


def said(result: Result, kind: str) -> list[tuple[float, int, int, float]]:
    """(sent, job, node, received) of all messages of a kind."""
    return [(float(m[0]), m[1], m[3], float(m[4])) for m in result.messages if m[2] == kind]


# Eleliemy 2021, §3.3: four jobs of three tasks on five nodes, two nodes each, the third task as long as the
# other two together; the first two jobs start at once, the others are submitted while they run.


def four_jobs(*tasks: float, rca: bool = False) -> Study:
    total = sum(tasks)
    return Study(
        rows=tuple(Row(submit, total / 2, 10.0, 2) for submit in (0.0, 0.0, 1.0, 1.5)),
        costs=tasks,
        platform=Platform((1,) * 5, (1.0,) * 5),
        rules=Rules(STATIC, rca=rca),
    )


def test_jobs_wait_for_nodes_of_others(results_of):
    # STATIC gives tasks 1 and 2 to one node and task 3 to the other: both work for 4 s.
    result = results_of(four_jobs(1.0, 3.0, 4.0))
    assert starts(result) == [0.0, 0.0, 4.0, 4.0]
    assert ends(result) == [4.0, 4.0, 8.0, 8.0]
    assert [nodes_of(result, job) for job in range(4)] == [[0, 1], [2, 3], [0, 1], [2, 3]]


def test_imbalance_in_one_job_delays_another(results_of):
    # Tasks in another order: 7 s on one node, 1 s on the other, and the jobs behind start 3 s later.
    result = results_of(four_jobs(4.0, 3.0, 1.0))
    assert starts(result) == [0.0, 0.0, 7.0, 7.0]
    assert ends(result) == [7.0, 7.0, 14.0, 14.0]


def test_released_nodes_end_the_wait(results_of):
    # Nodes 1 and 3 are done at 1 s, when the third job arrives: it takes them. The fourth has node 4 then,
    # and at 2 s the node that the third job has no more work for.
    result = results_of(four_jobs(4.0, 3.0, 1.0, rca=True))
    assert starts(result) == [0.0, 0.0, 1.0, 2.0]
    assert ends(result) == [7.0, 7.0, 8.0, 9.0]
    assert [nodes_of(result, job) for job in range(4)] == [[0, 1], [2, 3], [1, 3], [3, 4]]
    assert said(result, "node-idle")[:3] == [(1.0, 0, 1, 1.0), (1.0, 1, 3, 1.0), (2.0, 2, 3, 2.0)]


# Eleliemy 2021, Fig. 6.1: App4 needs four nodes, R9 and R10 are free. App1 and App3 report R4 and R7 idle.


def five_apps(**rules: object) -> Study:
    # Iterations 0-9; App1 has R0-R4 and executes two on each, scaled by 5: 30, 25, 50, 40 and 15 s. App2 has
    # R5 and R6, five on each, scaled by 2: 26 and 38 s. App3 has R7 and R8: 13 and 19 s.
    apps = (Row(0, 32, 64, 5), Row(0, 32, 40, 2), Row(0, 16, 64, 2), Row(1, 16, 40, 4), Row(2, 16, 16, 8))
    return Study(
        apps,
        costs=(3.0, 3.0, 3.0, 2.0, 2.0, 8.0, 4.0, 4.0, 2.0, 1.0),
        platform=Platform((1,) * 11, (1.0,) * 11),
        rules=Rules(STATIC, easy=True, **rules),
    )


def test_without_coordination_a_job_waits_beside_idle_nodes(results_of):
    assert starts(results_of(five_apps()))[3:] == [19.0, 50.0]


@pytest.mark.parametrize("requests", [False, True])
def test_idle_nodes_of_two_jobs_start_a_third(results_of, requests):
    result = results_of(five_apps(rca=True, latency=0.25, requests=requests, answer="idle-only"))
    assert said(result, "node-idle")[:2] == [(13.0, 2, 7, 13.25), (15.0, 0, 4, 15.25)]
    assert starts(result)[3] == 15.25
    assert nodes_of(result, 3) == [4, 7, 9, 10]
    assert ends(result)[:3] == [50.0, 38.0, 19.0]
    released = [(0, 30.25), (1, 25.25), (3, 40.25), (4, 15.25)]
    assert [(stay[0], stay[2]) for stay in result.stays[0] if stay[3]] == released


def test_an_application_may_refuse(results_of):
    # App4 lacks two nodes at 1 s. By estimates App2 has least work left (2 nodes, 39 s; App3 2 nodes, 63 s),
    # so it is asked first, and all refuse, because none has an idle node yet.
    result = results_of(five_apps(rca=True, latency=0.25, requests=True, answer="idle-only"))
    assert said(result, "release-request")[:3] == [(1.0, 1, -1, 1.25), (1.5, 2, -1, 1.75), (2.0, 0, -1, 2.25)]
    assert said(result, "release-rejected")[:3] == [
        (1.25, 1, -1, 1.5),
        (1.75, 2, -1, 2.0),
        (2.25, 0, -1, 2.5),
    ]
    assert not said(result, "release-accepted")


# Requests: one job of 8 iterations of 1 s, one a chunk, on two nodes; another one wants one node at 1.5 s.


def asked(answer: str, estimate: float = 20.0, **rules: object) -> Study:
    return Study(
        rows=(Row(0, 4, estimate, 2), Row(1.5, 8, 8, 1)),
        costs=(1.0,) * 8,
        platform=Platform((1, 1), (1.0, 1.0), between=0.125),
        rules=Rules({"technique": "SS"}, rca=True, latency=0.25, requests=True, answer=answer, **rules),
    )


def test_a_node_is_given_up_after_the_chunk_in_hand(results_of):
    # Node 1 needs 0.5 s for each chunk beside its second: it executes [0.5, 1.5), [2, 3), ... The request
    # reaches the application at 1.75 s, when node 1 is asking: the chunk [2, 3) is still executed there.
    # It is free at 3.25 s. Node 0 does the other six iterations alone.
    result = results_of(asked("always"))
    assert said(result, "release-request") == [(1.5, 0, -1, 1.75)]
    assert said(result, "release-accepted") == [(1.75, 0, 1, 2.0)]
    assert said(result, "node-idle")[0] == (3.0, 0, 1, 3.25)
    assert [(chunk[0], float(chunk[5])) for chunk in result.chunks[0]] == [
        *((0, float(k)) for k in range(6)),
        (1, 0.5),
        (1, 2.0),
    ]
    assert ends(result) == [6.0, 11.25]
    assert result.stays[0] == [(0, 0, 6, False), (1, 0, 3.25, True)]


def test_tolerance_bounds_the_loss(results_of):
    # Left alone node 0 executes five iterations and node 1 three, until 4.5 s; both are told at 5 s.
    # Giving up node 1 lets the job last 6 s, a fifth longer.
    assert ends(results_of(asked("never")))[0] == 5.0
    assert said(results_of(asked("tolerance", tolerance=0.25)), "release-accepted")
    assert not said(results_of(asked("tolerance", tolerance=0.125)), "release-accepted")


def test_nothing_is_given_up_for_later_than_the_deadline(results_of):
    # The job that asks is expected to start at 2.5 s, by the other's estimate; node 1 would be free at 3 s.
    assert said(results_of(asked("always", estimate=2.5)), "release-rejected") == [(1.75, 0, -1, 2.0)]
    assert said(results_of(asked("always", estimate=3.0)), "release-accepted") == [(1.75, 0, 1, 2.0)]


def test_a_node_comes_back(results_of):
    # 16 iterations. Node 1 leaves at 3 s; the other job has it from 3.25 s to 4.25 s, then it goes back. It
    # asks again from 4.5 s on, and executes [5, 6), [6.5, 7.5) ... [9.5, 10.5). At 10 s nothing is left.
    rows = (Row(0, 8, 20, 2), Row(1.5, 1, 8, 1))
    result = results_of(replace(asked("always", reclaim=True), costs=(1.0,) * 16, rows=rows))
    assert said(result, "node-returned") == [(4.25, 0, 1, 4.5)]
    assert [float(chunk[5]) for chunk in result.chunks[0]] == [*range(10), 0.5, 2.0, 5.0, 6.5, 8.0, 9.5]
    assert ends(result) == [11.0, 4.25]
    assert result.stays[0] == [(0, 0, 10.25, True), (1, 0, 3.25, True), (1, 4.25, 11, False)]


# Failures.


def test_a_failure_ends_the_job_and_takes_the_node(results_of):
    # Node 1 fails at 2 s under a job on both nodes; the next job wants one node, then one wants both.
    study = Study(
        rows=(Row(0, 4, 8, 2), Row(1, 4, 4, 1), Row(1, 1, 4, 2)),
        costs=(1.0,) * 8,
        platform=Platform((1, 1), (1.0, 1.0)),
        rules=Rules(STATIC, failures=(Failure(1, 2.0, 10.0),)),
    )
    result = results_of(study)
    assert [job[0] for job in result.jobs] == ["failed", "completed", "completed"]
    assert starts(result) == [0.0, 2.0, 12.0]
    assert ends(result) == [2.0, 6.0, 13.0]
    assert nodes_of(result, 1) == [0]
    assert [float(chunk[6]) for chunk in result.chunks[0]] == [2.0, 2.0]


def test_released_nodes_go_to_short_jobs(results_of):
    # Node 1 is released at 1 s (3 s of work on node 0). Two jobs wait: the second is shorter.
    study = Study(
        rows=(Row(0, 2, 20, 2), Row(0.5, 3, 3, 1), Row(0.5, 1, 1, 1)),
        costs=(3.0, 1.0),
        platform=Platform((1, 1), (1.0, 1.0)),
        rules=Rules(STATIC, rca=True, latency=0.0),
    )
    assert starts(results_of(study)) == [0.0, 1.0, 3.0]
    study = replace(study, rules=replace(study.rules, short_first=True))
    assert starts(results_of(study)) == [0.0, 2.0, 1.0]


def test_the_reference_knows_when_nothing_moves():
    runs, messages = cosim.simulate([], Platform((1,), (1.0,)), Rules(STATIC))
    assert runs == messages == []
