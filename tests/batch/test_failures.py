"""Failures, restarts, resumed jobs and drains: against a slow twin, conservation laws, worked cases."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlsim
from mlsim.analysis.job_metrics import queue_length
from mlsim.analysis.machine_metrics import busy_seconds, failure_metrics
from mlsim.batch.events.outages import OutagePlan
from mlsim.batch.state import pool_state
from mlsim.record import Chunks, JobState, Loops, Messages, Nodes, OutageKind, PEs, Records, empty
from mlsim.record.derived_times import allocated_seconds, lost_core_seconds, running_spans
from mlsim.scenario.platform_section import RandomFailureConfig
from tests.batch.builders import block, simulate
from tests.reference.outages import Job, Machine, Outage, Rules

# Quarters are exact in binary: equal times are equal however they are summed.
quarters = st.integers(0, 40).map(lambda n: n / 4)
lengths = st.integers(1, 40).map(lambda n: n / 4)


def job_lists(units: int):
    job = st.tuples(quarters, quarters, lengths, st.integers(1, units))
    return st.lists(job, min_size=1, max_size=14)


def outages(nodes: int):
    row = st.tuples(
        st.integers(0, nodes - 1), quarters, st.one_of(st.none(), lengths, lengths), st.booleans()
    )
    return st.lists(row, min_size=1, max_size=5).map(
        lambda rows: tuple(
            Outage(node, start, None if length is None else start + length, drained)
            for node, start, length, drained in rows
        )
    )


@st.composite
def studies(draw):
    exclusive = draw(st.booleans())
    nodes, cores = (4, 2) if exclusive else (3, draw(st.sampled_from([1, 2, 3])))
    on_failure = draw(st.sampled_from(["die", "restart", "resume"]))
    rules = Rules(
        nodes,
        cores,
        exclusive,
        easy=draw(st.booleans()),
        kill=draw(st.booleans()),
        on_failure=on_failure,
        max_restarts=draw(st.sampled_from([0, 1, 2, 5])),
        checkpoint=draw(st.sampled_from([None, 0.5, 2.0])) if on_failure == "resume" else None,
        outages=draw(outages(nodes)),
    )
    return rules, draw(job_lists(nodes * (1 if exclusive else cores)))


def options(rules: Rules) -> dict[str, object]:
    """What the builder takes for these rules."""
    batch: dict[str, object] = {"on_failure": rules.on_failure}
    if rules.on_failure != "die":
        batch["max_restarts"] = rules.max_restarts
    if rules.checkpoint is not None:
        batch["checkpoint"] = rules.checkpoint
    failures = [
        {"node": o.node, "at": o.start} | ({} if o.end is None else {"repair": o.end - o.start})
        for o in rules.outages
        if not o.drained
    ]
    drains = [
        {"nodes": o.node, "start": o.start} | ({} if o.end is None else {"end": o.end})
        for o in rules.outages
        if o.drained
    ]
    return batch | {
        "cores": rules.cores,
        "mapping": "node" if rules.exclusive else "core",
        "backfill": "easy" if rules.easy else "none",
        "on_overrun": "kill" if rules.kill else "extend",
        "failures": failures,
        "drains": drains,
    }


def by_reference(rules: Rules, rows) -> list[Job]:
    columns = (rows.job_id, rows.submit_time, rows.run_time, rows.estimate, rows.processors)
    twins = [
        Job(int(i), float(r), float(p), float(e), int(q)) for i, r, p, e, q in zip(*columns, strict=True)
    ]
    Machine(rules).simulate(twins)
    return twins


def assert_same(rules: Rules, twins: list[Job], batch, done, occupancy) -> None:
    def times(values):
        return [None if np.isnan(value) else value for value in values]

    assert [JobState(code).name.lower() for code in done.state] == [twin.state for twin in twins]
    assert times(done.start_time) == [twin.start for twin in twins]
    assert times(done.end_time) == [twin.end for twin in twins]
    ended = [twin.attempts for twin in twins]
    attempts = batch.attempt_rows()
    found = [[] for _ in twins]
    for row, job in enumerate(attempts.job):
        found[job].append(
            tuple(getattr(attempts, name)[row] for name in ("start", "end", "node", "kept", "lost"))
        )
    assert found == [sorted(rows) for rows in ended]
    stays = [[] for _ in twins]
    cores = rules.cores if rules.exclusive else 1
    for row, job in enumerate(occupancy.job):
        for node in range(occupancy.node[row], occupancy.node[row] + occupancy.count[row]):
            units = occupancy.cores[row] // cores
            stays[job].append((node, occupancy.start[row], occupancy.end[row], units))
    assert [sorted(rows) for rows in stays] == [sorted(twin.stays) for twin in twins]
    started = [twin.state in ("completed", "killed") for twin in twins]
    backfilled = [twin.backfilled for twin in twins]
    assert done.backfilled[started].tolist() == np.array(backfilled)[started].tolist()


@pytest.mark.slow
@settings(deadline=None, max_examples=400)
@given(studies())
def test_agrees_with_the_slow_twin(study):
    rules, jobs = study
    rows = block(*(np.array(column) for column in zip(*jobs, strict=True)))
    batch, done, occupancy = simulate(rows, rules.nodes, **options(rules))
    assert_same(rules, by_reference(rules, rows), batch, done, occupancy)
    # What the workload said of a job is as it was, however often it started.
    assert done.log_run_time.tolist() == rows.run_time.tolist()
    assert done.walltime.tolist() == rows.estimate.tolist()


@settings(deadline=None, max_examples=150)
@given(studies())
def test_what_was_held_was_of_use_or_lost(study):
    """Core-seconds: all attempts of a job together are what it ran in the end, kept, and lost."""
    rules, jobs = study
    rows = block(*(np.array(column) for column in zip(*jobs, strict=True)))
    batch, done, occupancy = simulate(rows, rules.nodes, **options(rules))
    records = records_of(batch, done, occupancy, rules.nodes, rules.cores)
    attempts, n = records.attempts, len(done.job_id)
    lost = lost_core_seconds(records)
    held = allocated_seconds(occupancy, n)
    kept = np.bincount(attempts.job, weights=attempts.kept, minlength=n)
    last = np.nan_to_num(done.end_time - done.start_time)
    died = done.state == JobState.FAILED
    np.testing.assert_allclose(lost[died], held[died])
    np.testing.assert_allclose((held - lost)[~died], ((last + kept) * done.cores)[~died])
    whole = done.state == JobState.COMPLETED
    np.testing.assert_allclose((last + kept)[whole], done.log_run_time[whole])
    # No row of a job lies outside of one of its attempts, and none is on a node that has failed.
    begins, ends = running_spans(done, attempts)
    of = np.concatenate([np.arange(n), attempts.job])
    for row in range(len(occupancy.job)):
        mine = of == occupancy.job[row]
        assert ((begins[mine] == occupancy.start[row]) & (ends[mine] == occupancy.end[row])).any()
    for row in range(len(records.outages.node)):
        node, start, end = (getattr(records.outages, name)[row] for name in ("node", "start", "end"))
        on_it = (occupancy.node <= node) & (node < occupancy.node + occupancy.count)
        after = (occupancy.start >= start) & (np.isnan(end) | (occupancy.start < end))
        assert not (on_it & after).any()
        if records.outages.kind[row] == OutageKind.FAILED:
            assert not (on_it & (occupancy.start < start) & (occupancy.end > start)).any()


def records_of(batch, done, occupancy, nodes: int, cores: int) -> Records:
    names = [f"n{k}" for k in range(nodes)]
    return Records(
        Nodes(names, ["n"] * nodes, np.full(nodes, cores), np.ones(nodes)),
        done,
        occupancy,
        *(empty(table) for table in (Loops, Chunks, PEs, Messages)),
        outages=batch.outage_rows(),
        attempts=batch.attempt_rows(),
    )


RANDOM = {"random_failures": [{"mtbf": 40, "mttr": 5}]}


def random_jobs(n: int = 160, most: int = 4):
    rng = np.random.default_rng(7)
    run = rng.integers(1, 40, n) / 4
    return block(np.sort(rng.integers(0, 400, n) / 4), run, run + 1, rng.integers(1, most + 1, n))


@pytest.mark.parametrize("rule", ["die", "restart", "resume"])
@pytest.mark.parametrize("mapping", ["node", "core"])
def test_random_failures_are_like_those_listed(rule, mapping):
    """A run with the failures that were drawn, as a list, is the same run."""
    common = {"on_failure": rule, "mapping": mapping, "cores": 2, "backfill": "easy"}
    batch, done, held = simulate(random_jobs(), 4, **common, **RANDOM)
    drawn = batch.outage_rows()
    assert len(drawn.node) > 10
    listed = [
        {"node": int(node), "at": at} | ({} if np.isnan(end) else {"repair": end - at})
        for node, at, end in zip(drawn.node, drawn.start.tolist(), drawn.end.tolist(), strict=True)
    ]
    _, again, held_again = simulate(random_jobs(), 4, **common, failures=listed)
    np.testing.assert_array_equal(done.state, again.state)
    np.testing.assert_allclose(done.start_time, again.start_time)
    np.testing.assert_array_equal(held.node, held_again.node)
    assert (done.state == JobState.FAILED).any() == (rule == "die")


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 10_000),
    st.sampled_from(
        [{"mtbf": 15, "mttr": 4}, {"mtbf": 40, "mttr": 10, "shape": 0.7}, {"mtbf": 8, "mttr": 1}]
    ),
    st.sampled_from(["die", "restart", "resume"]),
    st.booleans(),
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 3), quarters, lengths), max_size=4),
)
def test_random_failures_and_drains_agree_with_the_slow_twin(seed, failing, rule, exclusive, easy, drains):
    """Failures as they were drawn, with drains that overlap them, on whole and on shared nodes."""
    rows = random_jobs(50, 4 if exclusive else 8)
    batch, done, held = simulate(
        rows,
        4,
        cores=2,
        mapping="node" if exclusive else "core",
        backfill="easy" if easy else "none",
        on_overrun="extend",
        on_failure=rule,
        random_failures=[failing],
        drains=[{"nodes": node, "start": start, "end": start + length} for node, start, length in drains],
        seed=seed,
    )
    drawn = batch.outage_rows()
    columns = (drawn.node.tolist(), drawn.start.tolist(), drawn.end.tolist(), drawn.kind.tolist())
    outages = tuple(
        Outage(node, start, None if math.isnan(end) else end, kind == OutageKind.DRAINED)
        for node, start, end, kind in zip(*columns, strict=True)
    )
    assert len(outages) > len(drains)
    twins = by_reference(Rules(4, 2, exclusive, easy=easy, on_failure=rule, outages=outages), rows)
    assert [JobState(code).name.lower() for code in done.state] == [twin.state for twin in twins]
    # What a job keeps is subtracted in another order there.
    starts = np.array([twin.start for twin in twins], np.float64)  # NaN for None
    np.testing.assert_allclose(done.start_time, starts, rtol=1e-12)
    ends = np.array([twin.end for twin in twins], np.float64)  # NaN for None
    np.testing.assert_allclose(done.end_time, ends, rtol=1e-12)
    stays = [[] for _ in twins]
    for row, job in enumerate(held.job):
        for node in range(held.node[row], held.node[row] + held.count[row]):
            stays[job].append((node, held.cores[row] // (2 if exclusive else 1)))
    assert [sorted(each) for each in stays] == [sorted((s[0], s[3]) for s in twin.stays) for twin in twins]


def test_when_a_node_fails_does_not_depend_on_jobs_or_other_nodes():
    outages_of = []
    for jobs, nodes in ((random_jobs(), 4), (random_jobs(60, 2), 4), (random_jobs(), 6)):
        batch, done, _ = simulate(jobs, nodes, on_failure="restart", seed=3, **RANDOM)
        rows, horizon = batch.outage_rows(), 60.0  # all three runs are busy until then
        assert done.end_time.max() > horizon
        kept = (rows.start < horizon) & (rows.node < 4)
        outages_of.append(sorted(zip(rows.node[kept].tolist(), rows.start[kept].tolist(), strict=True)))
    assert len(outages_of[0]) > 2
    assert outages_of[0] == outages_of[1] == outages_of[2]
    batch, _, _ = simulate(random_jobs(), 4, on_failure="restart", seed=4, **RANDOM)
    assert batch.outage_rows().start[0] != outages_of[0][0][1]


def test_nodes_and_entries_have_their_own_random_numbers():
    config = RandomFailureConfig.model_validate({"mtbf": 10.0, "mttr": 1.0})
    plan = OutagePlan(random_failures=(config, config), groups=(("n", 3),), seed=1)
    assert len({process.time_in_use() for process in plan.processes()}) == 6


@pytest.mark.parametrize("shape", [0.5, 1.0, 3.0])
def test_means_of_random_failures(shape):
    config = RandomFailureConfig(mtbf=100.0, mttr=7.0, shape=shape)
    plan = OutagePlan(random_failures=(config,), groups=(("n", 1),), seed=1)
    (process,) = plan.processes()
    in_use = np.array([process.time_in_use() for _ in range(40_000)])
    repair = np.array([process.time_to_repair() for _ in range(40_000)])
    assert in_use.mean() == pytest.approx(100.0, rel=0.03)
    assert repair.mean() == pytest.approx(7.0, rel=0.03)
    # The Weibull distribution has a share of 1 - 1/e below its scale, whatever its shape.
    scale = 100.0 / math.gamma(1 + 1 / shape)
    assert (in_use < scale).mean() == pytest.approx(1 - 1 / math.e, abs=0.01)


def test_a_run_with_random_failures_ends():
    # The wide job needs every node, of which one or another is always being repaired while others run.
    failing = [{"mtbf": 1, "mttr": 3}]
    jobs = block([0, 0, 0], [2, 2, 0.25], [2, 2, 0.25], [1, 1, 8])
    _, done, _ = simulate(jobs, 8, on_failure="resume", max_restarts=1000, random_failures=failing)
    assert (done.state == JobState.COMPLETED).all()
    # Not even if nothing can ever bring its nodes back.
    gone = [{"node": 0, "at": 0}]
    _, done, _ = simulate(
        jobs, 8, on_failure="resume", max_restarts=1000, random_failures=failing, failures=gone
    )
    assert done.state.tolist() == [JobState.COMPLETED, JobState.COMPLETED, JobState.REJECTED]


def test_a_job_dies_after_its_last_restart():
    failures = [{"node": 0, "at": at, "repair": 1} for at in (2, 5, 8)]
    jobs = block([0], [4], [4], [1])
    batch, done, rows = simulate(jobs, 1, on_failure="restart", max_restarts=2, failures=failures)
    assert (done.state[0], done.start_time[0], done.end_time[0]) == (JobState.FAILED, 6, 8)
    assert rows.start.tolist() == [0, 3, 6]
    attempts = batch.attempt_rows()
    assert attempts.end.tolist() == [2, 5]
    assert attempts.lost.tolist() == [2, 2]
    batch, done, _ = simulate(jobs, 1, on_failure="restart", failures=failures)
    assert (done.state[0], done.start_time[0], done.end_time[0]) == (JobState.COMPLETED, 9, 13)


def test_a_job_goes_on_at_its_last_checkpoint():
    failures = [{"node": 0, "at": 5, "repair": 1}]
    jobs = block([0], [9], [10], [1])
    batch, done, _ = simulate(jobs, 1, on_failure="resume", checkpoint=2, failures=failures)
    # 4 s are saved: 5 s remain, from 6 on.
    assert (done.start_time[0], done.end_time[0]) == (6, 11)
    attempts = batch.attempt_rows()
    assert (attempts.kept[0], attempts.lost[0]) == (4, 1)
    assert (done.log_run_time[0], done.walltime[0]) == (9, 10)


def test_the_estimate_shrinks_with_what_is_kept():
    # Job 1 resumes at 6 with 5 s expected: job 2, that needs all, may start at 11; a job of 5 s overtakes it.
    failures = [{"node": 0, "at": 5, "repair": 1}]
    jobs = block([0, 1, 2], [9, 9, 5], [10, 9, 5], [1, 2, 1])
    _, done, _ = simulate(
        jobs, 2, on_failure="resume", checkpoint=2, failures=failures, backfill="easy", on_overrun="extend"
    )
    assert done.start_time.tolist() == [6, 11, 2]
    _, done, _ = simulate(jobs, 2, on_failure="restart", failures=failures, backfill="easy")
    assert done.start_time.tolist() == [6, 15, 2]


def test_a_drain_lets_jobs_finish_and_starts_none():
    jobs = block([0, 3, 3], [6, 2, 2], [6, 2, 2], [2, 1, 1])
    batch, done, _ = simulate(jobs, 3, drains=[{"nodes": "0-1", "start": 2, "end": 9}])
    # Job 0 runs on to 6; only node 2 is left for the others until 9.
    assert done.start_time.tolist() == [0, 3, 5]
    assert (done.state == JobState.COMPLETED).all()
    rows = batch.outage_rows()
    assert list(zip(rows.node, rows.start, rows.end, strict=True)) == [(0, 2, 9), (1, 2, 9)]


def test_what_comes_free_of_a_drained_node_stays_out_of_use():
    # Node 0 of 4 cores: job 0 has 3, the drain begins at 1 and the job ends at 2. Job 1 wants 5 of 8 cores.
    jobs = block([0, 1.5, 1.5], [2, 1, 1], [2, 1, 1], [3, 5, 4])
    drains = [{"nodes": 0, "start": 1, "end": 10}]
    _, done, rows = simulate(jobs, 2, cores=4, mapping="core", backfill="easy", drains=drains)
    assert done.start_time.tolist() == [0, 10, 1.5]
    assert rows.node[rows.job == 2].tolist() == [1]


def test_a_drained_node_that_comes_back_is_in_use_with_what_is_free():
    # Job 0 has 3 cores of node 0 until 8; the drain ends at 5: one core is free then, and 3 more at 8.
    jobs = block([0, 2, 2], [8, 1, 1], [8, 1, 1], [3, 1, 4])
    drains = [{"nodes": 0, "start": 1, "end": 5}]
    _, done, _ = simulate(jobs, 1, cores=4, mapping="core", drains=drains)
    assert done.start_time.tolist() == [0, 5, 8]


def test_reservations_do_not_count_on_drained_nodes():
    # Nodes 0 and 1 are drained while job 0 runs there to 4; job 1 wants 2 nodes, and gets 2 and 3 at 9.
    # A job of 4 s at 2 must not overtake it on node 3... it may: the head is promised 9.
    jobs = block([0, 0, 1, 2], [4, 9, 3, 7], [4, 9, 3, 7], [2, 1, 2, 1])
    _, done, _ = simulate(jobs, 4, backfill="easy", drains=[{"nodes": "0-1", "start": 1}])
    assert done.start_time.tolist() == [0, 0, 9, 2]


def test_the_summary_counts_what_failures_cost():
    failures = [{"node": 0, "at": 5, "repair": 1}, {"node": 1, "at": 100}]
    drains = [{"nodes": 1, "start": 8, "end": 50}]
    jobs = block([0, 0], [9, 2], [9, 2], [1, 1])
    run = simulate(jobs, 2, on_failure="restart", failures=failures, drains=drains)
    records = records_of(*run, 2, 1)
    assert failure_metrics(records) == {
        "node_failures": 1,
        "node_drains": 1,
        "restarts": 1,
        "jobs_restarted": 1,
        "lost_core_seconds": 5.0,
        "node_downtime": 1.0 + 6.0,  # the run ends at 14, as the job starts again on node 1 at 5
        "availability": 1 - 7 / 28,
    }
    assert queue_length(records.jobs, records.attempts)["mean"] == 0
    assert busy_seconds(records).tolist() == [14, 2]


BACKFILLS = [
    {"backfill": "none"},
    {"backfill": "greedy"},
    {"backfill": "easy", "backfill_order": "SPF"},
    {"backfill": "easy", "reservations": 2},
    {"backfill": "conservative"},
]


@pytest.mark.slow
@settings(deadline=None, max_examples=200)
@given(studies(), st.sampled_from(BACKFILLS), st.sampled_from(["drained", "per-event"]))
def test_both_states_do_the_same(study, backfill, ties):
    """The general state is as the one for a pool, with failures, drains and restarts."""
    rules, jobs = study
    rows = block(*(np.array(column) for column in zip(*jobs, strict=True)))
    runs = []
    for general in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            if general:
                patch.setattr(pool_state, "needs_resources", lambda *_: True)
            runs.append(simulate(rows, rules.nodes, **(options(rules) | backfill), ties=ties))
    (pool, done, held), (nodes, done_there, held_there) = runs
    assert [type(batch.state.room).__name__ for batch in (pool, nodes)] == ["PoolRoom", "NodesRoom"]
    for name in ("state", "start_time", "end_time", "backfilled", "cores"):
        np.testing.assert_array_equal(getattr(done, name), getattr(done_there, name), name)
    for name in ("job", "node", "count", "cores", "start", "end"):
        np.testing.assert_array_equal(getattr(held, name), getattr(held_there, name), name)
    for name in ("job", "node", "start", "end", "kept", "lost"):
        first, second = (getattr(batch.attempt_rows(), name) for batch in (pool, nodes))
        np.testing.assert_array_equal(first, second, name)
    check_held(rules, done, held)


def check_held(rules: Rules, done, held) -> None:
    """No node is held more than it has, and nobody holds anything outside of its attempts."""
    for node in range(rules.nodes):
        on_it = (held.node <= node) & (node < held.node + held.count) & (held.end > held.start)
        for time in held.start[on_it]:
            now = on_it & (held.start <= time) & (time < held.end)
            assert held.cores[now].sum() <= rules.cores
    assert (held.end >= held.start).all()
    assert (held.end <= np.nanmax(done.end_time, initial=0)).all()


def test_a_failure_ends_the_corrections_of_an_attempt():
    """Its next attempt is expected to end as predicted, and corrected from the first step on."""
    rows = [
        (0, 10, 100, 1, 1),
        (1, 10, 100, 1, 1),
        (30, 900, 1000, 1, 1),  # predicted at 10 s; its node fails at 35
        (36, 300, 400, 2, 2),  # the head of the queue
        (106, 150, 150, 1, 3),  # starts only once the first correction (60 s) is used up as well
    ]
    columns = ("submit_time", "run_time", "walltime", "processors", "user")
    jobs = pl.DataFrame(rows, schema=columns, orient="row").with_row_index("job_id", 1)
    scenario = {
        "name": "corrected",
        "platform": {
            "nodes": [{"name": "n", "count": 2, "cores": 1}],
            "failures": [{"node": 0, "at": 35, "repair": 60}, {"node": 1, "at": 34, "repair": 61}],
        },
        "workload": {"mapping": "core"},
        "batch": {"backfill": "easy", "predictor": "EASY++", "on_failure": "restart"},
    }
    found = mlsim.run(scenario, workload=jobs).records.jobs
    assert found.start_time[[2, 4]].tolist() == [95.0, 165.0]
