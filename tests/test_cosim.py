"""Both levels at once: what must hold whatever the workload, and what RCA changes."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.cosim import simulation
from mlsim.cosim.scenario_inputs import message_latency
from mlsim.record import JobState, MessageKind
from mlsim.scenario import from_mapping
from mlsim.scenario.batch_section import CoordinationConfig

NODES, CORES = 6, 2

jobs_of_workload = st.lists(
    st.tuples(st.integers(0, 60), st.integers(1, 80), st.integers(1, NODES * CORES)), min_size=1, max_size=14
)


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    return tmp_path_factory.mktemp("cosim")


def outcome(
    workplace,
    jobs,
    *,
    mapping="packed",
    rca=False,
    trace="chunks",
    batch=None,
    speeds=None,
    cores=CORES,
    forecasts=None,
    **application,
):
    """Simulate jobs of (submit, run, processors) as loops; run times unknown to the dispatcher by a third."""
    lines = ["job_id,submit_time,run_time,estimate,processors"]
    lines += [f"{k + 1},{r},{p},{p * 1.5},{q}" for k, (r, p, q) in enumerate(jobs)]
    (workplace / "jobs.csv").write_text("\n".join(lines) + "\n")
    groups = [
        {"name": f"g{k}", "count": NODES // len(speeds or [1]), "cores": cores, "speed": speed * 1e9}
        for k, speed in enumerate(speeds or [1])
    ]
    loop = {"model": "loop", "costs": {"profile": "job", "variation": 0.4}, "iterations": {"per_pe": 5}}
    scenario = from_mapping(
        {
            "name": "test",
            "seed": 5,
            "platform": {"nodes": groups},
            "workload": {"path": "jobs.csv", "mapping": mapping},
            "batch": {"backfill": "easy", "on_overrun": "extend", **(batch or {})},
            "application": {**loop, "technique": "GSS", **application},
            "coordination": {"rca": rca, "forecasts": forecasts},
            "output": {"trace": trace},
        },
        directory=workplace,
    )
    return simulation.simulate(scenario)


@settings(deadline=None, max_examples=60)
@given(
    jobs_of_workload,
    st.sampled_from(["packed", "core"]),
    st.booleans(),
    st.sampled_from(["STATIC", "SS", "GSS", "FAC2", "AF"]),
    st.sampled_from(["cca", "dca"]),
    st.sampled_from([None, (1, 0.5)]),
    st.sampled_from(["extend", "kill"]),
)
def test_conservation(workplace, jobs, mapping, rca, technique, model, speeds, overrun):
    result = outcome(
        workplace,
        jobs,
        mapping=mapping,
        rca=rca,
        technique=technique,
        speeds=speeds,
        batch={"on_overrun": overrun},
        execution={"model": model, "chunk_calculation": "10 ms", "injected_delay": "1 ms"},
    )
    records = result.records
    check_nodes(records)
    check_loops(records)
    check_releases(records, rca)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.tuples(st.integers(0, 60), st.integers(1, 80), st.integers(1, NODES)), min_size=3, max_size=14
    ),
    st.sampled_from(["ends", "nodes", "remaining_work"]),
    st.sampled_from([0.0, 0.5]),
    st.sampled_from([None, (1, 0.5)]),
)
def test_forecasts_count_pes_and_not_cores(workplace, jobs, scope, error, speeds):
    """A node of 4 cores that executes with one of them is one of 1 core."""
    common = {"mapping": "node", "rca": True, "speeds": speeds, "forecasts": {scope: error}}
    one, four = (
        outcome(workplace, jobs, cores=cores, pes_per_node=pes, **common).records.jobs
        for cores, pes in ((1, None), (4, 1))
    )
    assert one.start_time.tolist() == four.start_time.tolist()
    assert one.end_time.tolist() == four.end_time.tolist()


def check_nodes(records) -> None:
    """No core has two owners, and only the owner computes on it."""
    occupancy = records.occupancy
    events = []
    for row in range(len(occupancy.job)):
        if occupancy.end[row] > occupancy.start[row]:
            for node in range(occupancy.node[row], occupancy.node[row] + occupancy.count[row]):
                events.append((occupancy.start[row], 1, node, occupancy.cores[row]))
                events.append((occupancy.end[row], 0, node, -occupancy.cores[row]))
    used = np.zeros(len(records.nodes.cores), np.int64)
    for _, _, node, change in sorted(events):
        used[node] += change
        assert 0 <= used[node] <= records.nodes.cores[node]
    node_end = {}
    for row in range(len(occupancy.job)):
        ends = node_end.setdefault(int(occupancy.job[row]), [])
        ends += [occupancy.end[row]] * int(occupancy.cores[row] * occupancy.count[row])
    for job, pe, end in zip(records.chunks.job, records.chunks.pe, records.chunks.end, strict=True):
        assert end <= node_end[int(job)][int(pe)] + 1e-9


def check_loops(records) -> None:
    """Every iteration once, chunks of a PE one after the other, nothing outside the job."""
    jobs, chunks = records.jobs, records.chunks
    for row, job in enumerate(records.loops.job):
        mine = np.flatnonzero(chunks.job == job)
        if jobs.state[job] == JobState.COMPLETED:
            executed = np.concatenate(
                [np.arange(chunks.first[k], chunks.first[k] + chunks.size[k]) for k in mine]
            )
            assert sorted(executed.tolist()) == list(range(records.loops.iterations[row]))
        assert len(mine) == records.loops.steps[row]
        assert np.all(chunks.start[mine] >= jobs.start_time[job])
        assert np.all(chunks.end[mine] <= jobs.end_time[job] + 1e-9)
        for pe in np.unique(chunks.pe[mine]):
            own = mine[chunks.pe[mine] == pe]
            assert np.all(chunks.end[own][:-1] <= chunks.requested[own][1:] + 1e-9)
        total = records.loops.busy[row] + records.loops.overhead[row] + records.loops.idle[row]
        length = jobs.end_time[job] - jobs.start_time[job]
        assert total == pytest.approx(records.loops.pes[row] * length, abs=1e-6)


def check_releases(records, rca) -> None:
    """Only with RCA, never the last node, and only after the node's PEs knew there is no more work."""
    occupancy, jobs = records.occupancy, records.jobs
    if not rca:
        assert not occupancy.released.any()
        assert len(records.messages.job) == 0
        return
    for job in range(len(jobs.job_id)):
        rows = occupancy.job == job
        if not rows.any():
            continue
        assert not occupancy.released[rows].all()
        assert occupancy.end[rows].max() == jobs.end_time[job]
        sent = records.messages.job == job
        idle = sent & (records.messages.kind == MessageKind.NODE_IDLE)
        completed = sent & (records.messages.kind == MessageKind.JOB_COMPLETED)
        assert completed.sum() == (jobs.state[job] == JobState.COMPLETED)
        if jobs.state[job] == JobState.COMPLETED:
            assert sorted(records.messages.node[idle]) == sorted(occupancy.node[rows])
        received = dict(zip(records.messages.node[idle], records.messages.received[idle], strict=True))
        for row in np.flatnonzero(rows & occupancy.released):
            assert occupancy.end[row] == received[occupancy.node[row]]
    assert np.all(records.messages.received >= records.messages.sent)
    assert np.all(np.diff(records.messages.sent) >= 0)


def test_balanced_loops_without_costs_run_as_long_as_the_log_says(workplace):
    jobs = [(0, 30, 12), (5, 10, 4), (6, 20, 5), (7, 8, 12)]
    scenario_jobs = outcome(workplace, jobs, technique="STATIC", costs={"profile": "job"}).records.jobs
    np.testing.assert_allclose(scenario_jobs.end_time - scenario_jobs.start_time, [30, 10, 20, 8], rtol=1e-5)


def test_utilization_counts_the_iterations_and_nothing_else(workplace):
    result = outcome(workplace, [(0, 30, 12)], technique="SS")
    chunks = result.records.chunks
    assert result.records.loops.busy.sum() == pytest.approx((chunks.end - chunks.start).sum())


def test_a_kill_cuts_chunks_and_leaves_the_past_as_it_was(workplace):
    jobs = [(0, 60, 12)]
    whole = outcome(workplace, jobs, technique="SS", costs={"profile": "constant", "mean": "25 s"}).records
    cut = outcome(
        workplace,
        jobs,
        technique="SS",
        costs={"profile": "constant", "mean": "25 s"},
        batch={"on_overrun": "kill"},
    ).records
    assert whole.jobs.end_time[0] > 90 == cut.jobs.end_time[0]  # the estimate is 1.5 x 60 s
    assert cut.jobs.state[0] == JobState.KILLED
    begun = whole.chunks.start < 90
    np.testing.assert_array_equal(whole.chunks.start[begun], cut.chunks.start)
    np.testing.assert_array_equal(np.minimum(whole.chunks.end[begun], 90), cut.chunks.end)
    assert cut.loops.busy[0] == pytest.approx((cut.chunks.end - cut.chunks.start).sum())


def test_the_remaining_work_in_a_message_is_what_other_pes_still_execute(workplace):
    result = outcome(workplace, [(0, 60, 12)], rca=True, technique="STATIC").records
    chunks, messages = result.chunks, result.messages
    for k in np.flatnonzero(messages.kind == MessageKind.NODE_IDLE):
        left = np.maximum(chunks.end - np.maximum(chunks.start, messages.sent[k]), 0.0).sum()
        assert messages.remaining_work[k] == pytest.approx(left, abs=1e-6)
        assert 0 <= messages.remaining_iterations[k] <= chunks.size.sum()
    last = np.flatnonzero(messages.kind == MessageKind.NODE_IDLE)[-1]
    assert messages.remaining_work[last] == pytest.approx(0.0, abs=1e-9)
    assert messages.remaining_iterations[last] == 0


def test_rca_starts_a_waiting_job_on_a_released_node(workplace):
    # One job on all nodes, STATIC: its nodes run dry one by one; a small job waits for the first.
    jobs = [(0, 60, 12), (1, 5, 2)]
    held = outcome(workplace, jobs, technique="STATIC").records.jobs
    shared = outcome(workplace, jobs, technique="STATIC", rca=True).records
    assert held.start_time[1] == held.end_time[0]
    assert shared.jobs.start_time[1] < shared.jobs.end_time[0] == held.end_time[0]
    released = shared.occupancy.end[shared.occupancy.released]
    assert shared.jobs.start_time[1] == released.min()


@pytest.mark.parametrize(("given_latency", "latency"), [(None, 0.5), (0.0, 0.0), (2.0, 2.0)])
def test_messages_take_the_latency_of_the_network_unless_told(given_latency, latency):
    scenario = SimpleNamespace(coordination=CoordinationConfig(latency=given_latency))
    assert message_latency(scenario, SimpleNamespace(network=SimpleNamespace(latency=0.5))) == latency
