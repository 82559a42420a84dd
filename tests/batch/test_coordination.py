"""Failures, short jobs first, and nodes lent and returned, as the batch level sees them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mlsim.batch.events.releases import ReleaseNegotiator
from mlsim.batch.job_recorder import MessageLog
from mlsim.coordination import (
    Forecast,
    JobCompleted,
    NodeIdle,
    NodeReturned,
    ReleaseAccepted,
    ReleaseRejected,
    ReleaseRequest,
)
from mlsim.record import JobState
from tests.batch.builders import RigidApplications, block, simulate, system


def test_a_failed_node_takes_its_jobs_along_and_is_out_of_use_until_repaired():
    jobs = block([0, 0, 1], [10, 10, 5], [10, 10, 5], [2, 1, 3])
    _, done, _ = simulate(jobs, 3, failures=[{"node": 1, "at": 4, "repair": 6}])
    assert done.state.tolist() == [JobState.FAILED, JobState.COMPLETED, JobState.COMPLETED]
    assert done.end_time.tolist() == [4, 10, 15]  # the wide job needs the repaired node, at 10
    assert done.start_time.tolist() == [0, 0, 10]


def test_a_job_that_ends_when_its_node_fails_is_completed():
    _, done, _ = simulate(block([0], [4], [4], [1]), 1, failures=[{"node": 0, "at": 4}])
    assert done.state.tolist() == [JobState.COMPLETED]


def test_jobs_that_wait_for_nodes_that_never_come_back_are_rejected():
    jobs = block([0, 5, 6], [2, 1, 1], [2, 1, 1], [2, 2, 1])
    for backfill, states in (("none", [0, 2, 2]), ("easy", [0, 2, 0])):
        _, done, _ = simulate(jobs, 2, backfill=backfill, failures=[{"node": 1, "at": 3}])
        assert done.state.tolist() == states


def test_two_failures_of_a_node_overlap():
    failures = [{"node": 0, "at": 1, "repair": 10}, {"node": 0, "at": 5, "repair": 2}]
    _, done, _ = simulate(block([2], [1], [1], [1]), 1, failures=failures)
    assert done.start_time.tolist() == [11]


def test_on_shared_nodes_only_the_jobs_on_the_failed_node_fail():
    jobs = block([0, 0, 0], [9, 9, 9], [9, 9, 9], [3, 2, 3], job_id=[1, 2, 3])
    _, done, _ = simulate(jobs, 2, cores=4, mapping="core", failures=[{"node": 0, "at": 3, "repair": 1}])
    # Job 1 is on node 0, job 2 on both, job 3 on node 1 alone.
    assert done.state.tolist() == [JobState.FAILED, JobState.FAILED, JobState.COMPLETED]


def run_with_releases(released_nodes, backfill):
    # Job 0 holds 4 nodes until 20 and gives back two at 5; three jobs wait, the shortest came last.
    jobs = block([0, 1, 2, 3], [20, 9, 9, 2], [20, 9, 9, 2], [4, 4, 2, 1])
    _, done, _ = simulate(
        jobs,
        4,
        backfill=backfill,
        releases={0: [5.0, 5.0]},
        coordination={"rca": True, "released_nodes": released_nodes},
    )
    return done


def test_released_nodes_go_to_short_jobs_first():
    usual = run_with_releases("any", "easy")
    short = run_with_releases("short-first", "easy")
    assert usual.start_time.tolist() == [0, 20, 5, 14]
    assert short.start_time.tolist() == [0, 20, 7, 5]
    assert short.backfilled.tolist() == [False, False, True, True]


def test_short_jobs_first_without_backfilling_protects_nobody():
    assert run_with_releases("any", "none").start_time.tolist() == [0, 20, 29, 29]
    assert run_with_releases("short-first", "none").start_time[3] == 5


class Scripted(RigidApplications):
    """Applications that give up one node on request, at once, and need nothing for it."""

    def __init__(self, batch, answers) -> None:
        super().__init__(batch)
        self.answers, self.asked, self.returned = answers, [], []
        self.forecasts: dict[int, Forecast] = {}

    def launch(self, slot, at):
        forecast = super().launch(slot, at)
        rows = self.batch.state.rows_of(slot)
        nodes = self.batch.state.occupancy.ints[1, rows.start : rows.stop].tolist()
        idle = tuple(NodeIdle(slot, node, forecast.end, 0, 0.0) for node in nodes)
        self.forecasts[slot] = Forecast(forecast.end, idle)
        return self.forecasts[slot]

    def request_release(self, slot, at, request: ReleaseRequest):
        number = self.batch.state.number(slot)
        self.asked.append((number, at, request.nodes, request.for_job, request.deadline))
        old = self.forecasts[slot]
        if not self.answers.get(number):
            return ReleaseRejected(request.job, at, "no"), old
        node = old.idle[-1].node
        idle = (NodeIdle(slot, node, at, 0, 0.0), *old.idle[:-1])
        self.forecasts[slot] = Forecast(old.end, idle)
        return ReleaseAccepted(request.job, at, (node,), (at,)), self.forecasts[slot]

    def apply_change(self, slot, at, change):
        assert isinstance(change, NodeReturned)
        self.returned.append((self.batch.state.number(slot), change.node, at))
        old = self.forecasts[slot]
        self.forecasts[slot] = Forecast(old.end, (*old.idle, NodeIdle(slot, change.node, old.end, 0, 0.0)))
        return self.forecasts[slot]


def run_asking(jobs, nodes, answers, latency=0.25, drains=(), shared=None, **coordination):
    log = MessageLog(latency)
    settings = {"rca": True, "requests": "head-of-queue", "answer": "always", **coordination}
    batch = system(nodes, log=log, coordination=settings, drains=drains, shared=shared)
    applications = Scripted(batch, answers)
    batch.run([jobs], applications)
    return batch, applications, log


def test_applications_are_asked_one_by_one_until_the_head_has_enough():
    # Two jobs of 3 nodes; the head lacks 1. The one with less work left is asked first and refuses.
    jobs = block([0, 0, 2], [30, 20, 5], [30, 20, 5], [3, 3, 1])
    batch, applications, log = run_asking(jobs, 6, {0: True})
    assert applications.asked == [(1, 2.25, 1, 3, 20.0), (0, 2.75, 1, 3, 20.0)]
    # Accepted at 2.75, idle then, released and answered at 3: the head starts on it.
    assert batch.jobs().start_time.tolist() == [0, 0, 3.0]
    kinds = [type(message) for message in log.recent]
    assert kinds == [ReleaseRequest, ReleaseRejected, ReleaseRequest, ReleaseAccepted]
    assert JobCompleted not in kinds  # that is the applications' to send


def test_each_head_is_asked_for_once():
    jobs = block([0, 2, 3], [10, 5, 5], [10, 5, 5], [4, 2, 1])
    _, applications, _ = run_asking(jobs, 4, {})
    assert [entry[3] for entry in applications.asked] == [2]  # for job 2, once; job 3 never heads alone


def test_a_job_that_has_ended_does_not_answer():
    jobs = block([0, 2], [2.125, 5], [2.125, 5], [2, 1])
    _, applications, log = run_asking(jobs, 2, {0: True})
    assert applications.asked == []
    assert isinstance(log.recent[-1], ReleaseRejected)
    assert "ended" in log.recent[-1].reason


def test_history_goes_before_remaining_work():
    jobs = block([0, 0, 2], [30, 20, 5], [30, 20, 5], [3, 3, 1])
    log = MessageLog(0.0)
    batch = system(6, log=log, coordination={"rca": True, "requests": "head-of-queue"})
    batch.handler(ReleaseNegotiator)._history = {
        -1: (0.5, 1)
    }  # of the executable of all jobs: the rest decides
    applications = Scripted(batch, {})
    batch.run([jobs], applications)
    assert [number for number, *_ in applications.asked] == [1, 0]


@pytest.mark.parametrize("reclaim", [False, True])
def test_a_lent_node_goes_back_to_its_owner_when_no_job_waits(reclaim):
    jobs = block([0, 2], [30, 5], [30, 5], [3, 1])
    batch, applications, log = run_asking(jobs, 3, {0: True}, reclaim=reclaim)
    done, rows = batch.jobs(), batch.occupancy_rows()
    assert done.start_time.tolist() == [0, 2.5]
    assert done.end_time.tolist() == [30, 7.5]
    owner = rows.job == 0
    if reclaim:
        assert applications.returned == [(0, 2, 7.75)]
        assert isinstance(log.recent[-1], NodeReturned)
        again = owner & (rows.start == 7.5)
        assert (rows.node[again].tolist(), rows.end[again].tolist()) == ([2], [30])
        assert not rows.released[again].any()
    else:
        assert applications.returned == []
        assert owner.sum() == 3


def test_a_node_lent_twice_goes_back_to_the_one_who_lent_it_last():
    # Job 2 lends node 3 to job 3, and job 3 lends it on to job 4. It goes back the way it came.
    jobs = block([0, 0, 2, 10], [1, 60, 40, 5], [1, 60, 40, 5], [1, 3, 2, 1])
    batch, applications, _ = run_asking(jobs, 4, {1: True, 2: True}, reclaim=True)
    assert [entry[0] for entry in applications.asked] == [1, 2]
    assert batch.jobs().start_time.tolist() == [0, 0, 2.5, 10.5]
    # When job 4 ends, and when job 3 does; the news take 0.25 s.
    assert applications.returned == [(2, 3, 15.75), (1, 3, 42.75)]


def test_nodes_do_not_go_back_while_a_job_waits():
    # Job 3 needs the whole machine: the nodes of job 1 that come free stay free for it.
    jobs = block([0, 2, 3], [30, 5, 5], [30, 5, 5], [3, 1, 3])
    batch, applications, _ = run_asking(jobs, 3, {0: True}, reclaim=True)
    assert [entry[3] for entry in applications.asked] == [2, 3]
    assert batch.jobs().end_time.tolist() == [30, 7.5, 35]
    assert applications.returned == []


def test_a_job_of_one_node_is_not_asked():
    jobs = block([0, 0, 2], [30, 30, 5], [30, 30, 5], [2, 1, 2])
    _, applications, _ = run_asking(jobs, 3, {})
    assert [entry[0] for entry in applications.asked] == [0]


def test_who_left_its_nodes_idle_before_is_asked_first():
    # Executable 7 has used its nodes well, executable 8 has not; by work left it would be the other way.
    jobs = replace(
        block([0, 0, 2], [20, 30, 5], [20, 30, 5], [3, 3, 1]), executable=np.array([7, 8, -1], np.int64)
    )
    log = MessageLog(0.0)
    batch = system(6, log=log, coordination={"rca": True, "requests": "head-of-queue"})
    batch.handler(ReleaseNegotiator)._history = {7: (0.25, 1), 8: (1.0, 2)}
    applications = Scripted(batch, {})
    batch.run([jobs], applications)
    assert [number for number, *_ in applications.asked] == [1, 0]


class Slow(Scripted):
    """Applications that finish what they have in hand, for 2 s, before they give up a node."""

    def request_release(self, slot, at, request):
        answer, forecast = super().request_release(slot, at, request)
        if isinstance(answer, ReleaseRejected):
            return answer, forecast
        first, *others = forecast.idle
        self.forecasts[slot] = Forecast(forecast.end, (replace(first, time=at + 2.0), *others))
        return replace(answer, free=(at + 2.0,)), self.forecasts[slot]


def test_promised_nodes_count():
    # The first of the two applications promises the node that is missing, so the second is left alone.
    jobs = block([0, 0, 2], [30, 20, 5], [30, 20, 5], [3, 3, 1])
    batch = system(6, log=MessageLog(0.25), coordination={"rca": True, "requests": "head-of-queue"})
    applications = Slow(batch, {0: True, 1: True})
    batch.run([jobs], applications)
    assert [entry[0] for entry in applications.asked] == [1]
    assert batch.jobs().start_time.tolist() == [0, 0, 4.5]


def test_the_last_node_stays_with_its_job_to_the_end():
    class Idle(RigidApplications):
        """All nodes are idle long before the end."""

        def launch(self, slot, at):
            return Forecast(at + 10.0, tuple(NodeIdle(slot, node, at + 2.0, 0, 0.0) for node in (0, 1)))

    batch = system(2, log=MessageLog(0.0), coordination={"rca": True})
    batch.run([block([0], [10], [10], [2])], Idle(batch))
    rows = batch.occupancy_rows()
    assert (rows.node.tolist(), rows.end.tolist()) == ([0, 1], [2.0, 10.0])
