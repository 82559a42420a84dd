"""The batch system against its slow twin, conservation laws, and worked cases."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.record import JobState
from tests.batch.builders import block, simulate
from tests.reference.batch import Job, ReferenceBatchSystem

KEYS = {
    "FCFS": lambda job, now: job.submit,
    "LCFS": lambda job, now: -job.submit,
    "SPF": lambda job, now: job.estimate,
    "LQF": lambda job, now: -job.units,
    "SAF": lambda job, now: job.estimate * job.units,
    "SRF": lambda job, now: job.estimate / job.units,
    "EDF": lambda job, now: job.submit + 2.0 * job.estimate,
    "LEXP": lambda job, now: -((now - job.submit + max(job.estimate, 1.0)) / max(job.estimate, 1.0)),
    "WFP": lambda job, now: -(((now - job.submit) / max(job.estimate, 1.0)) ** 3) * job.units,
}
UNITS = 8

# Quarters are exact in binary: equal times are equal however they are summed.
quarters = st.integers(0, 40).map(lambda n: n / 4)
job_lists = st.lists(
    st.tuples(quarters, quarters, quarters.map(lambda t: t + 0.25), st.integers(1, UNITS)),
    min_size=1,
    max_size=25,
)


def columns(jobs):
    return [np.array(column) for column in zip(*jobs, strict=True)]


def reference(jobs, easy, policy, kill, releases=None):
    rows = block(*columns(jobs))
    twins = [
        Job(int(i), float(r), float(p), float(e), int(q), list((releases or {}).get(n, [])))
        for n, (i, r, p, e, q) in enumerate(
            zip(rows.job_id, rows.submit_time, rows.run_time, rows.estimate, rows.processors, strict=True)
        )
    ]
    ReferenceBatchSystem(UNITS, easy, KEYS[policy], kill).run(twins)
    return twins


def assert_same(twins, jobs) -> None:
    assert jobs.start_time.tolist() == [twin.start for twin in twins]
    assert jobs.end_time.tolist() == [twin.end for twin in twins]
    assert jobs.backfilled.tolist() == [twin.backfilled for twin in twins]
    assert (jobs.state == JobState.KILLED).tolist() == [twin.killed for twin in twins]


@settings(deadline=None, max_examples=300)
@given(
    job_lists, st.sampled_from(sorted(KEYS)), st.booleans(), st.booleans(), st.sampled_from(["node", "core"])
)
def test_agrees_with_the_reference(jobs, policy, easy, kill, mapping):
    _, rows, _ = simulate(
        block(*columns(jobs)),
        UNITS,
        policy=policy,
        backfill="easy" if easy else "none",
        on_overrun="kill" if kill else "extend",
        mapping=mapping,
    )
    assert_same(reference(jobs, easy, policy, kill), rows)


@settings(deadline=None, max_examples=150)
@given(job_lists, st.data(), st.booleans(), st.booleans())
def test_agrees_with_the_reference_when_nodes_are_released(jobs, data, easy, kill):
    rows = block(*columns(jobs))
    releases = {
        n: sorted(data.draw(st.lists(quarters, max_size=int(q) - 1)))
        for n, q in enumerate(rows.processors)
        if q > 1
    }
    releases = {n: [t for t in times if t <= rows.run_time[n]] for n, times in releases.items()}
    batch, done, _ = simulate(
        rows,
        UNITS,
        policy="FCFS",
        backfill="easy" if easy else "none",
        on_overrun="kill" if kill else "extend",
        releases=releases,
    )
    assert_same(reference(jobs, easy, "FCFS", kill, releases), done)
    check_conservation(done, batch.occupancy_rows(), UNITS, 1)


def check_conservation(jobs, occupancy, nodes, cores) -> None:
    """Each job holds what it asked for, no node more than its cores, nothing before submission."""
    ran = jobs.state != JobState.REJECTED
    assert np.all(jobs.start_time[ran] >= jobs.submit_time[ran])
    events = []
    for row in range(len(occupancy.job)):
        span = range(occupancy.node[row], occupancy.node[row] + occupancy.count[row])
        for node in span:
            # At one time what ends comes before what starts, but for stays of no length.
            if occupancy.end[row] > occupancy.start[row]:
                events.append((occupancy.start[row], 1, node, occupancy.cores[row]))
                events.append((occupancy.end[row], 0, node, -occupancy.cores[row]))
    used = np.zeros(nodes, np.int64)
    for _, _, node, change in sorted(events):
        used[node] += change
        assert 0 <= used[node] <= cores
    held = np.bincount(occupancy.job, occupancy.cores * occupancy.count, minlength=len(jobs.job_id))
    assert held.astype(int).tolist() == jobs.cores.tolist()


@settings(deadline=None, max_examples=100)
@given(job_lists, st.sampled_from(["node", "core", "packed"]), st.booleans())
def test_conservation(jobs, mapping, easy):
    nodes, cores = (UNITS, 4) if mapping != "core" else (4, 2)
    _, done, occupancy = simulate(
        block(*columns(jobs)), nodes, cores=cores, mapping=mapping, backfill="easy" if easy else "none"
    )
    check_conservation(done, occupancy, nodes, cores)


@settings(deadline=None, max_examples=50)
@given(job_lists, st.integers(1, 7))
def test_blocks_make_no_difference(jobs, size):
    whole = block(*columns(jobs))
    pieces = [whole.select(slice(k, k + size)) for k in range(0, len(whole), size)]
    _, once, rows = simulate(whole, UNITS, backfill="easy")
    _, again, rows_again = simulate(None, UNITS, blocks=pieces, backfill="easy")
    for name in ("job_id", "start_time", "end_time", "state", "backfilled"):
        np.testing.assert_array_equal(getattr(once, name), getattr(again, name))
    np.testing.assert_array_equal(rows.node, rows_again.node)


@settings(deadline=None, max_examples=300)
@given(job_lists)
def test_easy_keeps_its_promise_when_estimates_are_exact(jobs):
    """The job that heads the queue starts no later than it would if nobody overtook it from then on."""
    exact = [(r, p + 0.25, p + 0.25, q) for r, p, _, q in jobs]
    rows = block(*columns(exact))
    _, done, _ = simulate(rows, UNITS, backfill="easy")
    for number in np.flatnonzero(done.start_time > done.submit_time):
        # When it became head: once all jobs before it in the queue had started.
        before = done.start_time[:number]
        became = max(done.submit_time[number], before.max(initial=0.0))
        running = (done.start_time <= became) & (done.end_time > became) & (np.arange(len(rows)) != number)
        free = UNITS - done.processors[running].sum()
        promised = became
        for end in np.unique(done.end_time[running]):
            if free >= done.processors[number]:
                break
            free += done.processors[running][done.end_time[running] == end].sum()
            promised = end
        assert done.start_time[number] <= promised


def test_order_inside_a_timestamp_is_ends_submissions_pass():
    # Job 1 ends when jobs 2 and 3 arrive; both must see the freed nodes, and start in order of id.
    _, jobs, _ = simulate(block([0, 10, 10], [10, 5, 5], [10, 5, 5], [8, 4, 4], job_id=[1, 3, 2]), UNITS)
    assert jobs.job_id.tolist() == [1, 2, 3]
    assert jobs.start_time.tolist() == [0, 10, 10]


def test_easy_backfills_without_delaying_the_head():
    # 6 of 8 nodes busy until 10; the head needs 8. A short job and one too long to fit.
    jobs = block([0, 1, 2, 3], [10, 5, 8, 9], [10, 5, 8, 9], [6, 8, 2, 2])
    _, done, _ = simulate(jobs, UNITS, backfill="easy")
    assert done.start_time.tolist() == [0, 10, 2, 15]
    assert done.backfilled.tolist() == [False, False, True, False]


def test_a_job_that_outlives_its_estimate_is_expected_one_second_from_now():
    # Job 1 is overdue from 5 on. At 6 the head is promised 7: a candidate of 1 s may start, one of 2 s not.
    jobs = block([0, 1, 6, 6], [10, 5, 2, 1], [5, 5, 2, 1], [6, 8, 2, 2])
    _, done, _ = simulate(jobs, UNITS, backfill="easy", on_overrun="extend")
    assert done.start_time.tolist() == [0, 10, 15, 6]


def test_the_estimate_kills_or_extends():
    jobs = block([0], [10], [4], [1])
    _, killed, _ = simulate(jobs, UNITS, on_overrun="kill")
    _, extended, _ = simulate(jobs, UNITS, on_overrun="extend")
    assert (killed.end_time[0], killed.state[0]) == (4, JobState.KILLED)
    assert (extended.end_time[0], extended.state[0]) == (10, JobState.COMPLETED)


def test_a_job_that_never_fits_is_rejected_and_blocks_nobody():
    _, done, _ = simulate(block([0, 0], [5, 5], [5, 5], [9, 8]), UNITS)
    assert done.state.tolist() == [JobState.REJECTED, JobState.COMPLETED]
    assert np.isnan(done.start_time[0])
    assert np.isnan(done.end_time[0])
    assert done.start_time[1] == 0


def test_packed_takes_whole_nodes_and_core_shares_them():
    jobs = block([0, 0], [5, 5], [5, 5], [3, 1])
    _, packed, rows = simulate(jobs, 2, cores=2, mapping="packed")
    assert packed.start_time.tolist() == [0, 5]
    assert packed.cores.tolist() == [4, 2]
    assert (rows.node[0], rows.count[0], rows.cores[0]) == (0, 2, 2)
    _, shared, rows = simulate(jobs, 2, cores=2, mapping="core")
    assert shared.start_time.tolist() == [0, 0]
    assert list(zip(rows.job, rows.node, rows.count, rows.cores, strict=True)) == [
        (0, 0, 1, 2),
        (0, 1, 1, 1),
        (1, 1, 1, 1),
    ]


def test_first_fit_takes_the_lowest_free_nodes():
    jobs = block([0, 0, 0, 1], [9, 1, 9, 9], [9, 1, 9, 9], [2, 2, 2, 4])
    _, _, rows = simulate(jobs, UNITS)
    last = rows.job == 3
    assert list(zip(rows.node[last], rows.count[last], strict=True)) == [(2, 2), (6, 2)]


def test_a_released_node_serves_the_next_job_and_counts_once_for_the_reservation():
    # Job 0 holds 8 until 20 and gives one node back at 5: job 1 (1 node) takes it.
    # The head (8 nodes) is promised 20, so a candidate for 15 s at 6 must not take more than is there.
    jobs = block([0, 1], [20, 3], [20, 3], [8, 1])
    _, done, rows = simulate(jobs, UNITS, releases={0: [5.0]})
    assert done.start_time.tolist() == [0, 5]
    released = rows.released
    assert rows.end[released].tolist() == [5.0]
    assert rows.node[rows.job == 1].tolist() == rows.node[released].tolist()


@pytest.mark.parametrize("policy", ["FCFS", "WFP"])
def test_two_runs_are_the_same(policy):
    rng = np.random.default_rng(5)
    n = 300
    jobs = block(
        np.sort(rng.integers(0, 500, n)),
        rng.integers(0, 90, n),
        rng.integers(1, 90, n),
        rng.integers(1, 9, n),
    )
    first, again = (simulate(jobs, UNITS, policy=policy, backfill="easy") for _ in range(2))
    assert first[1].start_time.tobytes() == again[1].start_time.tobytes()
    assert first[2].node.tobytes() == again[2].node.tobytes()


@pytest.mark.parametrize(("mapping", "cores", "working"), [("packed", 4, 3), ("node", 6, 6), ("core", 3, 3)])
def test_the_cores_that_work_follow_the_mapping(mapping, cores, working):
    _, done, _ = simulate(block([0], [5], [5], [3]), 4, cores=2, mapping=mapping)
    assert (done.cores[0], done.working[0]) == (cores, working)
