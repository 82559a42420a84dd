"""Jobs that wait for jobs, against the slow reference and in small examples."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.batch.events.dependency_events import NEVER_ENDED, NEVER_SATISFIED
from mlsim.record import JobState
from mlsim.workload.workload_dependencies import Dependencies
from tests.batch.builders import RigidApplications, block, system
from tests.batch.test_dispatch import KEYS
from tests.effort import THOROUGH
from tests.reference.batch import Job, ReferenceBatchSystem

NODES = 4


def plan_of(after):
    """Make the table of dependencies from {job id: [(id, must complete, think)]}, ids from 1 in order."""
    rows = sorted(
        (other - 1, job - 1, ok, think) for job, others in after.items() for other, ok, think in others
    )
    columns = list(zip(*rows, strict=True)) or [[], [], [], []]
    kinds = (np.int64, np.int64, np.bool_, np.float64)
    predecessor, job, ok, think = (np.array(c, kind) for c, kind in zip(columns, kinds, strict=True))
    return Dependencies(job, predecessor, ok, think, {})


def run(rows, after, nodes=NODES, per_block=100, **options):
    """Simulate (submit, run, estimate, units) in order of submission; gives the system and its jobs."""
    jobs = block(*(np.array(column, float) for column in zip(*rows, strict=True)))
    jobs = replace(jobs, user=np.ones(len(rows), np.int64))
    blocks = [jobs.select(slice(first, first + per_block)) for first in range(0, len(rows), per_block)]
    batch = system(nodes, dependencies=plan_of(after), **options)
    batch.run(blocks, RigidApplications(batch))
    return batch, batch.jobs()


@st.composite
def workloads(draw, most_units=NODES + 1):
    """Rows in order of submission, and dependencies without circles, on earlier and on later jobs."""
    n = draw(st.integers(1, 9))
    submits = sorted(draw(st.lists(st.integers(0, 12), min_size=n, max_size=n)))
    rows = [
        (submit, draw(st.integers(0, 6)), draw(st.integers(1, 6)), draw(st.integers(1, most_units)))
        for submit in submits
    ]
    rank = draw(st.permutations(range(1, n + 1)))  # a job waits for those before it only
    after = {}
    for place in range(1, n):
        chosen = draw(st.lists(st.sampled_from(rank[:place]), max_size=2, unique=True))
        edges = [(id_, draw(st.booleans()), float(draw(st.sampled_from((0, 0, 1, 3))))) for id_ in chosen]
        if edges:
            after[rank[place]] = edges
    return rows, after


def reference(rows, after, **options):
    jobs = [
        Job(k, float(s), float(r), float(e), u, after=after.get(k, []))
        for k, (s, r, e, u) in enumerate(rows, 1)
    ]
    batch = ReferenceBatchSystem(NODES, **options)
    batch.run(jobs)
    return batch, jobs


def assert_same(found, jobs, left):
    for row, job in enumerate(jobs):
        case = (row + 1, job)
        if job.rejected or job in left:
            assert found.state[row] == JobState.REJECTED, case
            continue
        assert found.start_time[row] == job.start, case
        assert found.end_time[row] == job.end, case
        assert found.submit_time[row] == job.logged, case
        assert found.eligible_time[row] == job.submit, case
        assert found.backfilled[row] == job.backfilled, case
        assert found.state[row] == (JobState.KILLED if job.killed else JobState.COMPLETED), case


@settings(deadline=None, max_examples=2000 if THOROUGH else 150)
@given(
    workloads(),
    st.sampled_from(["none", "greedy", "easy", "conservative"]),
    st.booleans(),
    st.booleans(),
    st.integers(1, 4),
    st.sampled_from(["first-fit", "best-fit"]),
)
def test_dependencies_against_the_reference(workload, backfill, kill, feedback, per_block, allocator):
    rows, after = workload
    batch, jobs = reference(rows, after, backfill=backfill, kill=kill, feedback=feedback)
    overrun = "kill" if kill else "extend"
    _, found = run(
        rows,
        after,
        per_block=per_block,
        backfill=backfill,
        on_overrun=overrun,
        feedback=feedback,
        allocator=allocator,
    )
    assert_same(found, jobs, batch.held)


@settings(deadline=None, max_examples=1000 if THOROUGH else 100)
@given(
    workloads(most_units=NODES),
    st.sampled_from(["none", "greedy", "easy"]),
    st.booleans(),
    st.booleans(),
    st.integers(1, 4),
)
def test_dependencies_with_a_pass_after_every_event(workload, backfill, kill, feedback, per_block):
    rows, after = workload
    batch, jobs = reference(rows, after, backfill=backfill, kill=kill, feedback=feedback, per_event=True)
    overrun = "kill" if kill else "extend"
    _, found = run(
        rows,
        after,
        per_block=per_block,
        backfill=backfill,
        on_overrun=overrun,
        feedback=feedback,
        ties="per-event",
    )
    assert_same(found, jobs, batch.held)


@settings(deadline=None, max_examples=60)
@given(workloads(), st.sampled_from(["SPF", "WFP", "fairshare"]), st.sampled_from(["drained", "per-event"]))
def test_without_a_dependency_the_handler_changes_nothing(workload, policy, ties):
    rows, _ = workload
    options = {"policy": policy, "backfill": "easy", "ties": ties}
    jobs = block(*(np.array(column, float) for column in zip(*rows, strict=True)))
    plain = system(NODES, **options)
    plain.run([replace(jobs, user=np.ones(len(rows), np.int64))], RigidApplications(plain))
    _, found = run(rows, {}, per_block=3, **options)
    for column in ("start_time", "end_time", "state", "backfilled", "submit_time", "prediction"):
        assert np.array_equal(getattr(found, column), getattr(plain.jobs(), column), equal_nan=True), column


@settings(deadline=None, max_examples=1000 if THOROUGH else 150)
@given(
    workloads(most_units=NODES),
    st.sampled_from(["none", "greedy", "easy", "conservative"]),
    st.sampled_from(["FCFS", "SPF", "LQF", "WFP"]),
    st.sampled_from([0.5, 1.0, 4.0]),
    st.booleans(),
    st.sampled_from(["first-fit", "best-fit"]),
)
def test_past_the_threshold_jobs_go_by_their_time_in_the_queue(
    workload, backfill, policy, threshold, feedback, allocator
):
    rows, after = workload
    options = {"backfill": backfill, "threshold": threshold, "feedback": feedback}
    batch, jobs = reference(rows, after, key=KEYS[policy], **options)
    _, found = run(rows, after, policy=policy, allocator=allocator, on_overrun="extend", **options)
    assert_same(found, jobs, batch.held)


@pytest.mark.parametrize("allocator", ["first-fit", "best-fit"])
def test_who_came_to_the_queue_first_goes_first_past_the_threshold(allocator):
    # Job 3 is eligible at 10, long after job 4 came; both are past the threshold when job 2 ends.
    rows = [(0, 10, 10, 1), (0, 40, 40, 3), (0, 5, 5, 4), (1, 9, 9, 4)]
    _, jobs = run(rows, {3: [(1, False, 0.0)]}, policy="SPF", threshold=2.0, allocator=allocator)
    assert jobs.eligible_time.tolist() == [0, 0, 10, 1]
    assert jobs.start_time.tolist() == [0, 0, 49, 40]


ROWS = [(0, 10, 20, 2), (1, 5, 5, 1), (2, 3, 3, 1)]


def test_a_job_is_eligible_when_what_it_waits_for_has_ended_and_the_think_time_has_passed():
    _, jobs = run(ROWS, {3: [(1, False, 4.0), (2, True, 0.0)]})
    assert jobs.start_time.tolist() == [0, 1, 14]
    assert jobs.eligible_time.tolist() == [0, 1, 14]
    assert jobs.submit_time.tolist() == [0, 1, 2]


def test_a_job_that_is_submitted_after_all_that_is_like_any_other():
    _, jobs = run([*ROWS, (50, 1, 1, 1)], {4: [(1, True, 4.0)]})
    assert jobs.eligible_time[3] == jobs.start_time[3] == 50


def test_with_feedback_a_job_is_submitted_when_others_allow_it_however_early():
    _, jobs = run([*ROWS, (50, 1, 1, 1)], {4: [(1, True, 4.0)]}, feedback=True)
    assert jobs.eligible_time[3] == jobs.start_time[3] == 14
    assert jobs.submit_time[3] == 50


@pytest.mark.parametrize("feedback", [False, True])
def test_whoever_needs_a_killed_job_to_complete_is_turned_away_and_so_on(feedback):
    rows = [(0, 30, 10, 1), (1, 1, 1, 1), (2, 1, 1, 1), (3, 1, 1, 1)]
    after = {2: [(1, True, 5.0)], 3: [(2, True, 0.0)], 4: [(3, False, 2.0)]}
    batch, jobs = run(rows, after, on_overrun="kill", feedback=feedback)
    assert jobs.state.tolist() == [JobState.KILLED, JobState.REJECTED, JobState.REJECTED, JobState.COMPLETED]
    assert batch.rejections().reasons == (NEVER_SATISFIED,)
    assert batch.rejections().job.tolist() == [1, 2]
    assert jobs.eligible_time[3] == 12  # both were turned away at 10, when the first was killed
    assert np.isnan(jobs.eligible_time[1:3]).all()
    assert np.isnan(jobs.prediction[1:3]).all()


def test_a_job_that_never_fits_ends_when_it_is_submitted():
    rows = [(0, 1, 1, 1), (7, 1, 1, 99), (8, 1, 1, 1), (9, 1, 1, 1)]
    after = {1: [(2, False, 0.0)], 3: [(2, False, 5.0)], 4: [(2, True, 0.0)]}
    _, jobs = run(rows, after, per_block=2)
    assert jobs.eligible_time[:3].tolist() == [7, 7, 12]
    assert jobs.state.tolist()[1::2] == [JobState.REJECTED] * 2


@pytest.mark.parametrize(("rule", "eligible"), [("restart", 25.0), ("die", 5.0)])
def test_a_failure_is_an_end_only_if_the_job_does_not_start_again(rule, eligible):
    failures = [{"node": 0, "at": 5.0, "repair": 10.0}]
    rows = [(0, 10, 10, 1), (1, 1, 1, 1), (2, 1, 1, 1)]
    after = {2: [(1, False, 0.0)], 3: [(1, True, 0.0)]}
    _, jobs = run(rows, after, nodes=1, failures=failures, on_failure=rule)
    assert jobs.eligible_time[1] == eligible
    assert jobs.state[2] == (JobState.COMPLETED if rule == "restart" else JobState.REJECTED)


def test_what_waits_for_a_job_that_nothing_can_start_is_turned_away_at_the_end():
    failures = [{"node": 0, "at": 5.0}]
    rows = [(0, 1, 1, 1), (6, 1, 1, 2), (7, 1, 1, 1), (8, 1, 1, 1)]
    after = {3: [(2, False, 0.0)], 4: [(3, False, 0.0)]}
    batch, jobs = run(rows, after, nodes=2, failures=failures)
    assert jobs.state.tolist() == [JobState.COMPLETED, *[JobState.REJECTED] * 3]
    assert batch.rejections().reasons[-1] == NEVER_ENDED
    assert np.isnan(jobs.eligible_time[2:]).all()


def test_dependants_of_jobs_that_a_dispatcher_turns_away_come_after_them():
    rows = [(0, 1, 1, 1), (1, 1, 1, 1), (2, 1, 1, 1)]
    after = {2: [(1, False, 5.0)], 3: [(1, True, 0.0)]}
    batch, jobs = run(rows, after, dispatcher="reject")
    assert jobs.eligible_time[:2].tolist() == [0, 5]
    assert set(batch.rejections().reasons) == {NEVER_SATISFIED, "the dispatcher rejects every job"}


def test_random_failures_go_on_while_a_job_thinks():
    random_failures = [{"nodes": 0, "mtbf": 50.0, "mttr": 1.0}]
    rows = [(0, 1, 1, 1), (0, 1, 1, 1)]
    batch, jobs = run(rows, {2: [(1, False, 5000.0)]}, nodes=2, random_failures=random_failures, seed=3)
    assert jobs.eligible_time[1] >= 5000
    outages = batch.outage_rows()
    assert len(outages.start) > 20
    assert np.diff(np.sort(outages.start)).max() < 1000


def test_a_predictor_learns_of_a_job_when_it_is_eligible():
    rows = [(0, 100, 900, 1), (1, 100, 900, 1), (2, 1, 900, 1)]
    _, plain = run(rows, {}, predictor="L2")
    _, held = run(rows, {3: [(1, True, 0.0), (2, True, 0.0)]}, predictor="L2")
    assert plain.prediction[2] == 900
    assert held.prediction[2] == 100


def test_a_long_chain_of_jobs_turned_away_needs_no_deep_stack():
    n = 5000
    rows = [(0, 1, 1, 99), *[(0, 1, 1, 1)] * n]
    _, jobs = run(rows, {k: [(k - 1, True, 0.0)] for k in range(2, n + 2)}, per_block=7000)
    assert (jobs.state == JobState.REJECTED).all()


def test_passes_at_intervals_see_held_jobs_when_they_are_eligible():
    _, jobs = run(ROWS, {3: [(1, False, 0.5)]}, pass_interval=4.0)
    assert jobs.eligible_time[2] == 10.5
    assert jobs.start_time[2] == 12
    assert math.isclose(jobs.start_time[1], 4)


def test_jobs_can_be_asked_for_more_than_once():
    batch, jobs = run(ROWS, {3: [(1, False, 4.0)], 2: [(1, True, 0.0)]})
    assert np.array_equal(batch.jobs().submit_time, jobs.submit_time)
    assert np.array_equal(batch.jobs().eligible_time, jobs.eligible_time)
