"""Compiled replay: the same bytes as the SimPy simulator, whatever the dispatcher."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.batch.clock.compiled_replay import CompiledBatch
from mlsim.batch.clock.replay_many import replay_many
from mlsim.batch.columns.job_columns import ESTIMATE, JobTable
from mlsim.batch.columns.running_jobs import leave_time
from mlsim.batch.room.unit_requests import Requests
from mlsim.errors import InputError
from mlsim.record import Jobs, JobState, Occupancy
from mlsim.scenario import BatchConfig, from_mapping
from mlsim.scenario.batch_section import REPLAY_NEEDS, REPLAY_NEEDS_OF_JOBS, replay_obstacle
from mlsim.scenario.words import Mapping
from tests.batch.builders import block, machine, simulate
from tests.batch.test_dispatch import KEYS, WEIGHTS, dispatchers, easy_of_others, run_reference, twins_of
from tests.batch.test_simulator import UNITS, assert_same, columns, job_lists
from tests.effort import examples

EXPLANATION = Path(__file__).parents[2] / "docs" / "explanation"


def replayed(blocks, nodes, cores=1, mapping="node", **options):
    hardware = machine(nodes, cores)
    batch = CompiledBatch(
        hardware, BatchConfig.model_validate(options), Requests.on(hardware, Mapping(mapping))
    )
    batch.run(blocks)
    return batch


def assert_same_records(table, one, other):
    for field in fields(table):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if a is None and b is None:
            continue  # a column that only some runs have
        assert a.dtype == b.dtype, field.name
        assert a.tobytes() == b.tobytes(), field.name


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(
    job_lists, dispatchers | easy_of_others, st.sampled_from(["node", "core", "packed"]), st.integers(1, 30)
)
def test_replay_is_the_simulator(jobs, options, mapping, size):
    """Jobs, ends, states, flags and occupancy, with the workload in blocks of any size."""
    whole = block(*columns(jobs))
    nodes, cores = (UNITS // 2, 2) if mapping != "node" else (UNITS // 2, 1)  # some jobs are too wide
    options = {**options, "weights": WEIGHTS, "mapping": mapping, "cores": cores}
    pieces = [whole.select(slice(k, k + size)) for k in range(0, len(whole), size)]
    _, rows, occupancy = simulate(None, nodes, blocks=pieces, **options)
    batch = replayed(pieces, nodes, **options)
    assert_same_records(Jobs, rows, batch.jobs())
    assert_same_records(Occupancy, occupancy, batch.occupancy_rows())


@settings(deadline=None, max_examples=examples(100))
@given(job_lists, dispatchers | easy_of_others)
def test_replay_agrees_with_the_reference(jobs, options):
    batch = replayed([block(*columns(jobs))], UNITS, **{**options, "weights": WEIGHTS})
    assert_same(run_reference(jobs, options), batch.jobs())


PREDICTED = st.sampled_from([0.25, 0.5, 1.0])


@settings(deadline=None, max_examples=examples(60))
@given(job_lists, dispatchers | easy_of_others, st.data())
def test_both_clocks_kill_at_the_walltime_and_not_at_the_estimate(jobs, options, data):
    """Dispatchers may see less than the walltime; the limit is what the user asked, under each clock."""
    options = {**options, "on_overrun": "kill"}
    shares = np.array([data.draw(PREDICTED) for _ in jobs])
    rows = block(*columns(jobs))
    admit = JobTable.admit

    def predicted(table, admitted, units):
        slots = admit(table, admitted, units)
        table.floats[ESTIMATE, slots] = admitted.estimate * shares
        return slots

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JobTable, "admit", predicted)
        _, simpy, _ = simulate(rows, UNITS, weights=WEIGHTS, **options)
        replay = replayed([rows], UNITS, weights=WEIGHTS, **options).jobs()
    assert_same_records(Jobs, simpy, replay)
    killed = rows.run_time > rows.estimate
    assert (replay.state == JobState.KILLED).tolist() == killed.tolist()
    took = np.where(killed, rows.estimate, rows.run_time)
    np.testing.assert_array_equal(replay.end_time, replay.start_time + took)
    twins = twins_of(jobs)
    for twin, share in zip(twins, shares.tolist(), strict=True):
        twin.walltime, twin.estimate = twin.estimate, twin.estimate * share
    assert_same(run_reference(jobs, options, twins), replay)


def test_a_job_that_ends_at_its_walltime_completes():
    assert leave_time(15.0, 5.0, 10.0, True) == 15.0
    assert leave_time(15.5, 5.0, 10.0, True) == 15.0
    assert leave_time(15.5, 5.0, 10.0, False) == 15.5


@pytest.mark.parametrize("policy", ["FCFS", "fairshare", "WFP"])
def test_long_workloads_outgrow_every_array(policy):
    rng = np.random.default_rng(8)
    n = 6000
    whole = block(
        np.sort(rng.integers(0, 5000, n)), rng.integers(0, 9, n), rng.integers(1, 9, n), rng.integers(1, 9, n)
    )
    pieces = [whole.select(slice(k, k + 1500)) for k in range(0, n, 1500)]
    _, rows, occupancy = simulate(None, UNITS, blocks=pieces, policy=policy, backfill="easy")
    told = []
    hardware = machine(UNITS)
    batch = CompiledBatch(
        hardware,
        BatchConfig.model_validate({"policy": policy, "backfill": "easy"}),
        Requests.on(hardware, Mapping.NODE),
        told.append,
    )
    batch.run(pieces)
    assert_same_records(Jobs, rows, batch.jobs())
    assert_same_records(Occupancy, occupancy, batch.occupancy_rows())
    assert batch.n_passes > n / 2


def scenario(**sections):
    return {
        "platform": {"nodes": [{"name": "n", "count": 4, "cores": 1}], **sections.pop("platform", {})},
        "workload": {"path": "log.swf", **sections.pop("workload", {})},
        **sections,
    }


MEMORY = [{"name": "n", "count": 4, "cores": 2, "memory": "8 GB"}]
POWER = [{"name": "n", "count": 4, "cores": 1, "power": {"idle": "50 W", "busy": "100 W"}}]
LOOP = {"application": {"model": "loop", "technique": "GSS"}}
REFUSED = {
    "coordination.requests": {**LOOP, "coordination": {"rca": True, "requests": "head-of-queue"}},
    "coordination.released_nodes": {**LOOP, "coordination": {"rca": True, "released_nodes": "short-first"}},
    "coordination.forecasts": {
        **LOOP,
        "batch": {"backfill": "easy"},
        "coordination": {"forecasts": {"ends": 0}},
    },
    "batch.ties": {**LOOP, "coordination": {"rca": True}, "batch": {"ties": "per-event"}},
    "platform.shared": {"platform": {"shared": {"matlab": 1}}},
    "platform.failures": {"platform": {"failures": [{"node": 1, "at": 5}]}},
    "platform.random_failures": {"platform": {"random_failures": [{"nodes": "0-3", "mtbf": 9, "mttr": 1}]}},
    "platform.drains": {"platform": {"drains": [{"nodes": "1", "start": 5, "end": 6}]}},
    "batch.dispatcher": {"batch": {"dispatcher": "reject"}},
    "batch.policy": {"batch": {"policy": "./mine.py:Mine"}},
    "batch.allocator": {"batch": {"allocator": "best-fit"}},
    "platform.nodes": {"platform": {"nodes": MEMORY}},
    "workload.request.cores": {
        "platform": {"nodes": [{"name": "n", "count": 4, "cores": 2}]},
        "workload": {"mapping": "core", "request": {"cores": 2}},
    },
    "workload.dependencies": {"workload": {"dependencies": True}},
    "batch.classifier": {"batch": {"classifier": {}}},
    "batch.power_cap": {"platform": {"nodes": POWER}, "batch": {"power_cap": "1 kW"}},
    "batch.predictor": {"batch": {"predictor": "actual"}},
    "batch.easy": {"batch": {"backfill": "easy", "easy": "easy_bf"}},
    "batch.compression": {"batch": {"backfill": "conservative", "compression": "conservative_bf"}},
    "batch.pass_interval": {"batch": {"pass_interval": "10 s"}},
    "batch.backfill_interval": {"batch": {"backfill": "easy", "backfill_interval": "30 s"}},
    "batch.count_dispatch_time": {"batch": {"count_dispatch_time": True}},
    "output.passes": {"output": {"passes": True}},
}


@pytest.mark.parametrize("need", REPLAY_NEEDS, ids=lambda need: need.key)
def test_replay_says_why_it_cannot(need):
    """Every need is met by a scenario that breaks it; a new one needs an example here."""
    sections = dict(REFUSED[need.key])
    batch = sections.pop("batch", {})
    obstacle = replay_obstacle(from_mapping(scenario(batch={**batch, "engine": "auto"}, **sections)))
    assert obstacle is not None
    assert obstacle == (need.key, need.value)
    with pytest.raises(InputError, match=rf"batch\.engine: .*{re.escape(': '.join(obstacle))}"):
        from_mapping(scenario(batch={**batch, "engine": "replay"}, **sections))


def test_all_that_replay_needs_is_in_its_help_and_on_its_page():
    help_text = BatchConfig.model_fields["engine"].description
    page = (EXPLANATION / "time-and-scheduling.md").read_text(encoding="utf-8")
    table = page.split("## Two clocks")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(.*)` \| (.*) \|$", table, re.M)
    assert rows == [(need.key, need.value) for need in REPLAY_NEEDS]
    for key, value in rows:
        assert f"{key}: {value}" in help_text
    assert REPLAY_NEEDS_OF_JOBS in help_text
    assert REPLAY_NEEDS_OF_JOBS in table
    assert sorted(REFUSED) == sorted(need.key for need in REPLAY_NEEDS)


@settings(deadline=None, max_examples=100)
@given(st.lists(job_lists, min_size=1, max_size=4), dispatchers)
def test_many_replays_start_jobs_as_one_does(workloads, options):
    options = {**options, "policy": "linear", "weights": WEIGHTS}
    blocks = [block(*columns(jobs)) for jobs in workloads]
    vectors = np.array([[1.0, 0, 2, 0, 0, 1], [0, 1, 0, 0, 0, 0]])
    config = BatchConfig.model_validate(options)
    many = replay_many(blocks, config, 6, vectors, tau=2.0, starts=True)
    for w, jobs in enumerate(blocks):
        for v, vector in enumerate(vectors.tolist()):
            weights = dict(zip(("q", "p", "wait", "ratio", "exp", "area"), vector, strict=True))
            rows = replayed([jobs], 6, **{**options, "weights": weights}).jobs()
            np.testing.assert_array_equal(many.starts[w][v], rows.start_time)
            ran = ~np.isnan(rows.start_time)
            response = (rows.end_time - rows.submit_time)[ran]
            time = (rows.end_time - rows.start_time)[ran]
            assert many.n_jobs[w] == ran.sum()
            bounded = np.maximum(response / np.maximum(time, 2.0), 1.0).sum()
            assert many.bounded_slowdown[w, v] == pytest.approx(bounded, rel=1e-12)
            slowdown = (response[time > 0] / time[time > 0]).sum()
            assert many.slowdown[w, v] == pytest.approx(slowdown, rel=1e-12)


# Weights that are exact in binary once they are divided by their sum, so that ties are ties in both.
VECTORS = ((1.0, 0.0, 2.0, 0.0, 0.0, 1.0), (0.0, 1.0, 0.0, 0.0, 0.0, 0.0), (-1.0, 0.0, 1.0, 0.0, 0.0, 0.0))


def linear(vector):
    q, p, wait, _, _, area = (weight / sum(map(abs, vector)) for weight in vector)
    return lambda job, now: (
        q * job.units + p * job.estimate - wait * (now - job.submit) + area * job.estimate * job.units
    )


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(job_lists, min_size=1, max_size=3), dispatchers | easy_of_others)
def test_many_replays_agree_with_the_reference(workloads, options):
    """Starts and sums of slowdowns, weight vector by weight vector where the policy takes them."""
    keys, vectors = [KEYS[options.get("policy", "FCFS")]], None
    if options.get("easy", "standard") == "standard":
        options = {**options, "policy": "linear", "weights": WEIGHTS}
        keys, vectors = [linear(vector) for vector in VECTORS], VECTORS
    config = BatchConfig.model_validate({"weights": WEIGHTS, **options})
    many = replay_many(
        [block(*columns(jobs)) for jobs in workloads], config, UNITS, vectors, tau=2.0, starts=True
    )
    assert many.n_jobs.tolist() == [len(jobs) for jobs in workloads]
    for w, jobs in enumerate(workloads):
        for v, key in enumerate(keys):
            twins = run_reference(jobs, options, key=key)
            assert many.starts[w][v].tolist() == [twin.start for twin in twins]
            waits = [(twin.start - twin.submit, twin.end - twin.start) for twin in twins]
            bounded = sum(max((wait + time) / max(time, 2.0), 1.0) for wait, time in waits)
            assert many.bounded_slowdown[w, v] == pytest.approx(bounded, rel=1e-12)
            slowdown = sum((wait + time) / time for wait, time in waits if time > 0)
            assert many.slowdown[w, v] == pytest.approx(slowdown, rel=1e-12)


def test_many_replays_refuse_what_they_cannot_use():
    fcfs = BatchConfig.model_validate({"policy": "FCFS"})
    linear = BatchConfig.model_validate({"policy": "linear", "weights": {"q": 1}})
    with pytest.raises(ValueError, match="for policy linear"):
        replay_many([], fcfs, 8, np.eye(6))
    for wrong in (np.zeros((1, 6)), np.ones((2, 5)), [[np.nan, 0, 0, 0, 0, 0]]):
        with pytest.raises(ValueError, match="rows of 6"):
            replay_many([], linear, 8, wrong)
    with pytest.raises(ValueError, match="fairshare"):
        replay_many([], BatchConfig.model_validate({"policy": "fairshare"}), 8)
