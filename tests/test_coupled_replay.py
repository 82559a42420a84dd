"""The compiled clock with applications: the same records as under SimPy's, whatever meets."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.batch.clock import coupled_replay
from mlsim.cosim import simulation
from mlsim.record import JobState
from mlsim.scenario import from_mapping
from mlsim.scenario.words import Engine
from tests.effort import examples

NODES, CORES = 6, 2

job = st.tuples(
    st.integers(0, 40),
    st.integers(0, 60),
    st.sampled_from([0.5, 1.0, 1.5, 3.0]),
    st.integers(1, NODES * CORES),
)
batches = st.fixed_dictionaries(
    {
        "policy": st.sampled_from(["FCFS", "SPF", "fairshare", "WFP"]),
        "backfill": st.sampled_from(["none", "easy", "greedy", "conservative"]),
        "on_overrun": st.sampled_from(["extend", "kill"]),
    }
)
loops = st.fixed_dictionaries(
    {
        "technique": st.sampled_from(["STATIC", "SS", "GSS", "FAC2", "AF", "AWF", "auto"]),
        "execution": st.sampled_from(
            [
                {"model": "dca"},
                {"model": "cca", "chunk_calculation": "10 ms"},
                {"model": "dca", "injected_delay": "100 ms"},
            ]
        ),
        "time_steps": st.sampled_from([1, 1, 3]),
        "costs": st.sampled_from([{"profile": "job"}, {"profile": "job", "variation": 0.4}]),
    }
)
platforms = st.fixed_dictionaries(
    {
        "speeds": st.sampled_from([(1,), (1, 0.5)]),
        "latency": st.sampled_from(["500 ns", "10 ms", "3 s"]),
        "slow": st.booleans(),
    }
)


def scenario_of(place, jobs, batch, loop, hardware, rca, trace="chunks"):
    lines = ["job_id,submit_time,run_time,estimate,processors"]
    lines += [f"{k + 1},{r},{p},{max(p * f, 1.0)},{q}" for k, (r, p, f, q) in enumerate(jobs)]
    (place / "jobs.csv").write_text("\n".join(lines) + "\n")
    speeds = hardware["speeds"]
    platform = {
        "nodes": [
            {"name": f"g{k}", "count": NODES // len(speeds), "cores": CORES, "speed": speed * 1e9}
            for k, speed in enumerate(speeds)
        ],
        "network": {"topology": "fully-connected", "bandwidth": "1 Gbit/s", "latency": hardware["latency"]},
    }
    if hardware["slow"]:
        platform["perturbations"] = [{"nodes": "0-2", "from": "10 s", "to": "30 s", "factor": 0.5}]
    return {
        "name": "both",
        "seed": 3,
        "platform": platform,
        "workload": {"path": "jobs.csv", "mapping": "core"},
        "batch": batch,
        "application": {"model": "loop", "iterations": {"per_pe": 4}, **loop},
        "coordination": {"rca": rca},
        "output": {"trace": trace},
    }


def by_both(place, scenario):
    """Simulate under each clock; check which clock it was."""
    found = []
    for engine in (Engine.SIMPY, Engine.REPLAY):
        sections = {**scenario, "batch": {**scenario["batch"], "engine": str(engine)}}
        result = simulation.simulate(from_mapping(sections, directory=place))
        assert result.engine is engine
        found.append(result)
    return found


def assert_same_tables(simpy, replay) -> None:
    for table in ("jobs", "occupancy", "loops", "chunks", "pes", "selections", "messages"):
        expected, found = getattr(simpy.records, table), getattr(replay.records, table)
        for column in fields(expected):
            one, other = getattr(expected, column.name), getattr(found, column.name)
            np.testing.assert_array_equal(one, other, err_msg=f"{table}.{column.name}")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("coupled")


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(job, min_size=1, max_size=16), batches, loops, platforms, st.booleans())
def test_both_clocks_give_the_same_records(place, jobs, batch, loop, hardware, rca):
    simpy, replay = by_both(place, scenario_of(place, jobs, batch, loop, hardware, rca))
    assert_same_tables(simpy, replay)


def test_many_jobs_outgrow_every_array(place, monkeypatch):
    """Releases are moved to the first places again and again, and slots are used again."""
    moved = []
    join = coupled_replay.CoupledBatch._join_releases
    monkeypatch.setattr(
        coupled_replay.CoupledBatch, "_join_releases", lambda batch: (moved.append(batch), join(batch))
    )
    rng = np.random.default_rng(4)
    jobs = [
        (r, p, 2.0, q)
        for r, p, q in zip(
            np.sort(rng.integers(0, 4000, 1500)).tolist(),
            rng.integers(1, 40, 1500).tolist(),
            rng.integers(1, 13, 1500).tolist(),
            strict=True,
        )
    ]
    loop = {"technique": "STATIC", "costs": {"profile": "job", "variation": 0.5}}
    hardware = {"speeds": (1,), "latency": "10 ms", "slow": False}
    batch = {"policy": "SPF", "backfill": "easy", "on_overrun": "kill"}
    simpy, replay = by_both(place, scenario_of(place, jobs, batch, loop, hardware, True, "none"))
    assert len(moved) > 3
    assert simpy.records.occupancy.released.sum() > 1000
    assert_same_tables(simpy, replay)


def test_a_run_in_which_no_loop_starts(place):
    hardware = {"speeds": (1,), "latency": "10 ms", "slow": False}
    batch = {"policy": "FCFS", "backfill": "easy"}
    scenario = scenario_of(place, [(0, 10, 1.0, 100)], batch, {"technique": "SS"}, hardware, True)
    scenario["workload"]["cleaning"] = {"oversize": "keep"}
    simpy, replay = by_both(place, scenario)
    assert simpy.records.jobs.state.tolist() == [JobState.REJECTED]
    assert len(simpy.records.loops.job) == 0
    assert_same_tables(simpy, replay)


@pytest.mark.parametrize("mapping", ["core", "node", "packed"])
def test_withdrawn_jobs_and_every_mapping(place, mapping):
    """Jobs that users withdraw leave both clocks at the same times, beside releases."""
    jobs = [(k // 2, 20 + 3 * (k % 5), 2.0, 1 + k % 6) for k in range(30)]
    hardware = {"speeds": (1,), "latency": "500 ns", "slow": False}
    loop = {"technique": "GSS", "costs": {"profile": "job", "variation": 0.5}}
    scenario = scenario_of(place, jobs, {"backfill": "easy"}, loop, hardware, True)
    scenario["workload"] = {"path": "never.txt", "format": "sacct", "mapping": mapping}
    lines = ["JobIDRaw|Submit|Start|End|ElapsedRaw|TimelimitRaw|ReqCPUS|State"]
    for k, (submit, run, _, processors) in enumerate(jobs, start=1):
        at = f"2026-03-01T08:00:{submit:02}"
        if k % 3 == 0:
            lines.append(f"{k}|{at}|None|2026-03-01T08:01:{k:02}|0|60|{processors}|CANCELLED by 1000")
        else:
            lines.append(f"{k}|{at}|{at}|2026-03-01T09:00:00|{run}|60|{processors}|COMPLETED")
    (place / "never.txt").write_text("\n".join(lines) + "\n")
    simpy, replay = by_both(place, scenario)
    assert (replay.records.jobs.state == JobState.WITHDRAWN).any()
    assert replay.records.occupancy.released.any()
    assert_same_tables(simpy, replay)
