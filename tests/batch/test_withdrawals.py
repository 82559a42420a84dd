"""Jobs that are withdrawn while they wait: both clocks, every dispatcher, many replays, dependencies."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.batch.clock.replay_many import replay_classes, replay_many
from mlsim.record import Jobs, JobState, Occupancy
from mlsim.scenario import BatchConfig
from tests.batch.builders import RigidApplications, block, simulate, system
from tests.batch.test_dependencies import NODES, plan_of, workloads
from tests.batch.test_dispatch import WEIGHTS, dispatchers, easy_of_others, run_reference, twins_of
from tests.batch.test_replay import assert_same_records, replayed
from tests.batch.test_simulator import UNITS, columns, job_lists
from tests.effort import examples
from tests.reference.batch import Job, ReferenceBatchSystem

patience = st.none() | st.integers(0, 30).map(lambda n: n / 4)
impatient = job_lists.flatmap(
    lambda jobs: st.tuples(st.just(jobs), st.lists(patience, min_size=len(jobs), max_size=len(jobs)))
)


def waiting_for(rows, patiences):
    """Have jobs wait for so long; None is for ever."""
    return replace(rows, patience=np.array([-1.0 if time is None else time for time in patiences]))


def assert_same(twins, jobs):
    ran = [twin.start is not None for twin in twins]
    times = [[math.nan if time is None else time for time in (twin.start, twin.end)] for twin in twins]
    np.testing.assert_array_equal(np.stack([jobs.start_time, jobs.end_time], axis=1), times)
    np.testing.assert_array_equal(jobs.state == JobState.WITHDRAWN, [twin.withdrawn for twin in twins])
    assert (~np.isnan(jobs.start_time)).tolist() == ran
    assert jobs.backfilled.tolist() == [twin.backfilled for twin in twins]
    left = [twin.leaves if twin.withdrawn else math.nan for twin in twins]
    if jobs.withdraw_time is None:
        assert not any(twin.withdrawn for twin in twins)
    else:
        np.testing.assert_array_equal(jobs.withdraw_time, left)


def impatient_twins(rows):
    twins = twins_of(list(zip(rows.submit_time, rows.run_time, rows.walltime, rows.processors, strict=True)))
    for twin, leaves in zip(twins, rows.withdrawals().tolist(), strict=True):
        twin.leaves = leaves
    return twins


@settings(deadline=None, max_examples=examples(150))
@given(impatient, dispatchers | easy_of_others, st.integers(1, 30))
def test_both_clocks_withdraw_jobs_as_the_reference_does(workload, options, size):
    jobs, patiences = workload
    rows = waiting_for(block(*columns(jobs)), patiences)
    options = {**options, "weights": WEIGHTS}
    twins = run_reference(jobs, options, impatient_twins(rows))
    pieces = [rows.select(slice(k, k + size)) for k in range(0, len(rows), size)]
    _, simpy, occupancy = simulate(None, UNITS, blocks=pieces, **options)
    assert_same(twins, simpy)
    batch = replayed(pieces, UNITS, **options)
    assert_same_records(Jobs, simpy, batch.jobs())
    assert_same_records(Occupancy, occupancy, batch.occupancy_rows())


@settings(deadline=None, max_examples=examples(100))
@given(impatient, dispatchers)
def test_jobs_that_are_withdrawn_in_replays_of_many(workload, options):
    jobs, patiences = workload
    rows = waiting_for(block(*columns(jobs)), patiences)
    options = {**options, "policy": "linear", "weights": WEIGHTS}
    found = replay_many([rows, rows], BatchConfig.model_validate(options), UNITS, tau=2.0, starts=True)
    alone = replayed([rows], UNITS, **options).jobs()
    for w in range(2):  # the second is simulated in the memory of the first
        np.testing.assert_array_equal(found.starts[w][0], alone.start_time)
        ran = ~np.isnan(alone.start_time)
        assert found.ran[w, 0] == found.n_jobs[w] == np.count_nonzero(ran)
        response = (alone.end_time - alone.submit_time)[ran]
        times = (alone.end_time - alone.start_time)[ran]
        bounded = np.maximum(response / np.maximum(times, 2.0), 1.0).sum()
        assert found.bounded_slowdown[w, 0] == pytest.approx(bounded, rel=1e-12)


@settings(deadline=None, max_examples=examples(60))
@given(impatient)
def test_jobs_that_are_withdrawn_with_classes(workload):
    """One class, which is no class; jobs that the safeguard has killed wait for ever."""
    jobs, patiences = workload
    rows = waiting_for(block(*columns(jobs)), patiences)
    config = BatchConfig.model_validate({"policy": "FCFS", "backfill": "easy"})
    never = np.zeros(len(rows), np.bool_)
    found = replay_classes(rows, config, UNITS, never, np.full(len(rows), np.inf), safeguard=False)
    alone = replayed([rows], UNITS, policy="FCFS", backfill="easy").jobs()
    np.testing.assert_array_equal(found.start, alone.start_time)
    np.testing.assert_array_equal(found.end, alone.end_time)


def test_a_job_that_the_safeguard_has_killed_is_withdrawn_no_more():
    rows = waiting_for(block([0, 1], [10, 20], [10, 20], [4, 4]), [6, None])
    config = BatchConfig.model_validate({"policy": "FCFS", "backfill": "easy"})
    small = np.array([True, True])
    found = replay_classes(rows, config, 4, small, np.array([5.0, 50.0]), safeguard=True)
    assert found.killed[0] == 0.0
    assert found.start.tolist() == [25.0, 5.0]


def test_whoever_holds_up_the_queue_leaves_it():
    rows = waiting_for(block([0, 10, 30], [3600, 0, 7200], [3600, 3600, 7200], [3, 4, 1]), [None, 10, None])
    jobs = replayed([rows], 4, backfill="easy").jobs()
    assert jobs.start_time.tolist()[::2] == [0.0, 30.0]
    assert jobs.state.tolist() == [JobState.COMPLETED, JobState.WITHDRAWN, JobState.COMPLETED]
    assert jobs.withdraw_time[1] == 20.0
    assert np.isnan(jobs.end_time[1])


def test_one_that_starts_in_time_is_not_withdrawn():
    rows = waiting_for(block([0, 1], [5, 0], [5, 9], [4, 4]), [2, 4.5])
    jobs = replayed([rows], 4).jobs()
    assert jobs.start_time.tolist() == [0.0, 5.0]
    assert jobs.withdraw_time is None
    rows = waiting_for(rows, [2, 4.0])  # the end and the withdrawal are at one time: it is gone
    assert replayed([rows], 4).jobs().state.tolist() == [JobState.COMPLETED, JobState.WITHDRAWN]


@settings(deadline=None, max_examples=examples(150))
@given(
    workloads(),
    st.data(),
    st.sampled_from(["none", "greedy", "easy", "conservative"]),
    st.booleans(),
    st.integers(1, 4),
)
def test_dependencies_on_jobs_that_are_withdrawn(workload, data, backfill, feedback, per_block):
    rows, after = workload
    times = [data.draw(st.none() | st.integers(0, 12)) for _ in rows]
    jobs = waiting_for(block(*(np.array(column, float) for column in zip(*rows, strict=True))), times)
    twins = [
        Job(k, float(s), float(r), float(e), u, after=after.get(k, []))
        for k, (s, r, e, u) in enumerate(rows, 1)
    ]
    for twin, leaves in zip(twins, jobs.withdrawals().tolist(), strict=True):
        twin.leaves = leaves
    reference = ReferenceBatchSystem(NODES, backfill, kill=True, feedback=feedback)
    reference.run(twins)
    batch = system(NODES, dependencies=plan_of(after), backfill=backfill, feedback=feedback)
    blocks = [jobs.select(slice(first, first + per_block)) for first in range(0, len(rows), per_block)]
    batch.run(blocks, RigidApplications(batch))
    found = batch.jobs()
    for row, twin in enumerate(twins):
        start = math.nan if twin.start is None else twin.start
        np.testing.assert_array_equal(found.start_time[row], start, str((row + 1, twin)))
        assert (found.state[row] == JobState.WITHDRAWN) == twin.withdrawn, (row + 1, twin)
        if twin.rejected or twin in reference.held:
            assert found.state[row] == JobState.REJECTED, (row + 1, twin)


def test_a_job_that_a_failure_sends_back_stays():
    rows = waiting_for(block([0], [10], [10], [2]), [3])
    batch = system(2, failures=[{"node": 1, "at": 2, "repair": 8}], on_failure="restart")
    batch.run([rows], RigidApplications(batch))
    assert batch.jobs().start_time.tolist() == [10.0]


def test_passes_that_are_rare_and_dispatchers_that_turn_all_away():
    rows = waiting_for(block([0, 1, 2], [50, 5, 5], [50, 5, 5], [4, 4, 1]), [None, 5, 100])
    _, jobs, _ = simulate(rows, 4, pass_interval=20.0)
    assert jobs.state.tolist() == [JobState.COMPLETED, JobState.WITHDRAWN, JobState.COMPLETED]
    _, jobs, _ = simulate(rows, 4, dispatcher="reject")
    assert jobs.state.tolist() == [JobState.REJECTED] * 3
