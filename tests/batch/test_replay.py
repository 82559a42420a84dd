"""Compiled replay: the same bytes as the SimPy simulator, whatever the dispatcher."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.batch.replay import Replay
from mlsim.batch.replay_many import replay_many
from mlsim.batch.requests import Requests
from mlsim.errors import InputError
from mlsim.record import Jobs, Occupancy
from mlsim.scenario import BatchConfig, Mapping, from_mapping
from tests.batch.builders import block, machine, simulate
from tests.batch.test_dispatch import WEIGHTS, dispatchers
from tests.batch.test_simulator import UNITS, columns, job_lists


def replayed(blocks, nodes, cores=1, mapping="node", **options):
    hardware = machine(nodes, cores)
    batch = Replay(hardware, BatchConfig.model_validate(options), Requests.on(hardware, Mapping(mapping)))
    batch.run(blocks)
    return batch


def assert_same_records(table, one, other):
    for field in fields(table):
        a, b = getattr(one, field.name), getattr(other, field.name)
        assert a.dtype == b.dtype, field.name
        assert a.tobytes() == b.tobytes(), field.name


@settings(deadline=None, max_examples=300)
@given(job_lists, dispatchers, st.sampled_from(["node", "core", "packed"]), st.integers(1, 30))
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
    batch = Replay(
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
        "workload": {"path": "log.swf"},
        **sections,
    }


@pytest.mark.parametrize(
    ("sections", "named"),
    [
        ({"application": {"model": "loop", "technique": "GSS"}}, "application.model: rigid"),
        ({"platform": {"failures": [{"node": 1, "at": 5}]}}, "platform.failures: empty"),
    ],
)
def test_replay_says_why_it_cannot(sections, named):
    with pytest.raises(InputError, match=rf"batch\.engine: .*{named}"):
        from_mapping(scenario(batch={"engine": "replay"}, **sections))
    from_mapping(scenario(batch={"engine": "auto"}, **sections))


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
