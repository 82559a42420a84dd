"""Costs calibrated to recorded run times: the assumed loop takes them exactly, whatever it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.application import simulate
from mlsim.application.application_simulator import LoopApplication, LoopJob
from mlsim.application.iteration_costs import CostSums
from mlsim.application.recorded_times import (
    NO_SCALE,
    TOLERANCE,
    TOO_SHORT,
    Placement,
    RecordedTimes,
    ending_at,
    factor_for,
)
from mlsim.coordination import Kill, NodeSet
from mlsim.cosim import scenario_inputs
from mlsim.errors import InputError
from mlsim.platform import machine_of
from mlsim.record import ChunkStore, StoredChunks
from mlsim.scenario import ApplicationConfig, Scenario, from_mapping

CHARGED = {"chunk_calculation": "1 ms", "chunk_assignment": "100 us", "atomic_service": "100 us"}
STARTING = CHARGED | {"request_cost": "1 ms", "start_up": "500 ms", "start_up_std": "100 ms"}
ONE_LEVEL = ["STATIC", "SS", "GSS", "TSS", "FAC2", "AF", "AWF", "AWF-B", "RND"]
TWO_LEVELS = ["STATIC", "GSS", "FAC2+SS", "AF+STATIC"]


def scenario_of(
    technique: str = "STATIC", model: str = "dca", speeds: tuple[float, ...] = (1.0,), **application: Any
) -> Scenario:
    """A machine of six nodes with three cores each, whose loops are the ones that are assumed."""
    costs = {"profile": "job", "variation": 0.5} | application.pop("costs", {})
    costs = {"calibrate": "recorded", "calibrate_to": {"technique": technique, "model": model}} | costs
    execution = {"model": model, **application.pop("execution", {})}
    loop = {"model": "loop", "technique": technique, "iterations": {"per_pe": 8}, **application}
    groups = [
        {"name": f"g{k}", "count": 6 // len(speeds), "cores": 3, "speed": speed * 1e9}
        for k, speed in enumerate(speeds)
    ]
    return from_mapping(
        {
            "platform": {"nodes": groups, "reference_speed": 1e9},
            "workload": {"path": "none.swf"},
            "application": {**loop, "costs": costs, "execution": execution},
        }
    )


def started(
    scenario: Scenario,
    run_time: float,
    job_id: int = 1,
    nodes: int = 6,
    at: float = 0.1,
    chunks: bool = False,
) -> LoopApplication:
    """Start a job on the first nodes of the machine."""
    machine = machine_of(scenario)
    profiles = scenario_inputs.cost_profiles(scenario, machine)
    config = scenario_inputs.application_of(scenario)
    store = ChunkStore() if chunks else None
    application = LoopApplication(
        LoopJob(job_id, run_time), config, profiles, machine, store, scenario.seed, reports_idle=True
    )
    application.start(at, NodeSet(np.arange(nodes), machine.cores[:nodes]))
    return application


def notes_of(application: LoopApplication) -> dict[str, int]:
    recorded = application._costs.recorded
    assert recorded is not None
    return recorded.notes


@settings(max_examples=60, deadline=None)
@given(
    st.one_of(
        st.tuples(st.sampled_from(ONE_LEVEL), st.sampled_from(["cca", "dca"])),
        st.tuples(st.sampled_from(TWO_LEVELS), st.sampled_from(["hmw", "hdca"])),
        st.tuples(st.sampled_from(["GSS+SS", "STATIC+STATIC"]), st.just("mpi+openmp")),
        st.tuples(st.sampled_from(["SS", "FAC2"]), st.just("steal")),
    ),
    st.sampled_from([{}, CHARGED, STARTING]),
    st.sampled_from([0.0, 0.3, 0.9]),
    st.sampled_from([7.0, 3600.0, 86_399.0]),
    st.integers(1, 6),
    st.integers(1, 3),
    st.sampled_from([None, 1, 2]),
    st.integers(1, 50),
)
def test_the_assumed_loop_ends_to_the_bit(
    loop: tuple[str, str],
    execution: dict[str, str],
    variation: float,
    run_time: float,
    nodes: int,
    time_steps: int,
    pes_per_node: int | None,
    job_id: int,
) -> None:
    scenario = scenario_of(
        *loop,
        costs={"variation": variation},
        execution=execution,
        time_steps=time_steps,
        pes_per_node=pes_per_node,
    )
    application = started(scenario, run_time, job_id, nodes)
    if NO_SCALE in notes_of(application):
        assert execution or variation == 0.0  # a loop without costs of scheduling jumps at ties only
        assert application.forecast.end == pytest.approx(0.1 + run_time, rel=0.05)
    else:
        assert application.forecast.end == 0.1 + run_time
        assert application.outcome.notified_at.max() == run_time
        assert application.outcome.t_loop <= run_time
        assert [message.time for message in application.forecast.idle][-1] == 0.1 + run_time


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 40),
    st.lists(st.floats(0.0, 2.0), min_size=1, max_size=12),
    st.integers(1, 9),
    st.sampled_from([0.0, 1e-6, 0.2]),
)
def test_static_without_contention_needs_no_search(
    n: int, latency: list[float], least: int, scale: float
) -> None:
    """Its closed form is what a search finds; costs and latencies are arbitrary."""
    config = ApplicationConfig.model_validate(
        {"model": "loop", "min_chunk": least, "costs": {"calibrate": "recorded"}}
    )
    costs = np.random.default_rng(n).exponential(size=n)
    prefix = np.concatenate([[0.0], np.cumsum(costs)])
    times = np.array([0.0, *latency[1:]]) * scale
    placement = Placement(np.zeros(len(times), np.int64), times, 0.0)
    recorded = RecordedTimes(config)
    found = recorded.scaled(1, prefix, 20.0, placement, 0)
    assert isinstance(found, np.ndarray)
    ends = simulate(found, np.ones(len(times)), times, "STATIC", config.execution, least).notified_at
    assert ends.max() == pytest.approx(20.0, rel=1e-14)
    assert recorded.notes == {}
    other = recorded._searched_factor(1, prefix, 20.0, placement, 0)
    assert other == (pytest.approx(found[-1] / prefix[-1], rel=1e-11), "")


@pytest.mark.parametrize(
    "costs",
    [
        {"profile": "exponential", "variation": None, "mean": "1 ms"},
        {"profile": "increasing", "variation": None, "high": "3 s"},
        {"profile": "mandelbrot", "variation": None, "parameters": {"size": 12, "limit": 30}},
        {"profile": "psia", "variation": None, "parameters": {"points": 100}},
    ],
)
@pytest.mark.parametrize("technique", ["STATIC", "GSS"])
def test_every_profile_is_calibrated(costs: dict[str, Any], technique: str) -> None:
    costs = {key: value for key, value in costs.items() if value is not None}
    scenario = scenario_of(
        technique,
        costs={**costs, "variation": None},
        iterations=None if costs["profile"] == "mandelbrot" else {"per_pe": 8},
    )
    for run_time in (10.0, 12_345.0):
        assert started(scenario, run_time).forecast.end == 0.1 + run_time


def test_costs_of_a_file(tmp_path: Any) -> None:
    np.save(tmp_path / "costs.npy", np.arange(40.0) % 7)
    scenario = scenario_of(
        costs={"profile": "file", "path": str(tmp_path / "costs.npy"), "variation": None}, iterations=None
    )
    assert started(scenario, 100.0).forecast.end == 100.1
    np.save(tmp_path / "costs.npy", np.zeros(40))
    with pytest.raises(InputError, match=r"job 1 ran for 100\.0 s, but all 40 iterations cost 0"):
        started(scenario, 100.0)


def test_long_loops_need_no_list() -> None:
    scenario = scenario_of("GSS", costs={"variation": 0.0}, iterations={"count": 1 << 40})
    application = started(scenario, 500.0)
    assert isinstance(application.costs, CostSums)
    assert application.forecast.end == 500.1


def test_jobs_keep_the_shape_of_their_costs() -> None:
    scenario = scenario_of("FAC2")
    plain = scenario_of("FAC2", costs={"calibrate": "none", "calibrate_to": {}})
    shape = started(plain, 60.0, job_id=3).costs
    ratio = started(scenario, 60.0, job_id=3).costs[1:] / shape[1:]
    assert ratio == pytest.approx(ratio[0], rel=1e-13)
    assert 0.5 < ratio[0] < 1.0  # a loop takes longer than its mean work


def test_another_technique_takes_another_time() -> None:
    times = {
        technique: started(
            scenario_of(technique, costs={"calibrate_to": {"technique": "STATIC"}}), 3600.0
        ).outcome.t_loop
        for technique in ("STATIC", "FAC2", "SS")
    }
    assert times["STATIC"] == pytest.approx(3600.0, abs=1e-5)  # messages follow the last chunk
    assert max(times["SS"], times["FAC2"]) < 3300.0


def test_auto_is_measured_against_the_assumed_loop() -> None:
    scenario = scenario_of("auto", time_steps=6, costs={"calibrate_to": {"technique": "STATIC"}})
    assert 0.7 * 3600.0 < started(scenario, 3600.0).outcome.t_loop < 3600.0


def test_speeds_of_nodes_do_not_change_the_costs() -> None:
    slow, fast = (started(scenario_of("GSS", speeds=speeds), 3600.0) for speeds in ((1.0, 0.5), (1.0, 1.0)))
    assert np.array_equal(slow.costs, fast.costs)
    assert fast.forecast.end == 3600.1
    assert slow.outcome.t_loop > 3700.0


def test_jobs_of_no_run_time_cost_nothing() -> None:
    assert started(scenario_of(), 0.0).forecast.end > 0.1  # messages take time
    application = started(scenario_of("GSS", execution=CHARGED), 0.0)
    assert not np.any(application.costs)
    assert application.forecast.end > 0.1


@pytest.mark.parametrize("technique", ["STATIC", "SS"])
@pytest.mark.parametrize("execution", [{}, CHARGED])
def test_scheduling_may_take_longer_than_the_job(technique: str, execution: dict[str, str]) -> None:
    scenario = scenario_of(technique, execution=execution)
    application = started(scenario, 1e-7)
    assert notes_of(application) == {TOO_SHORT: 1}
    assert not np.any(application.costs)
    assert application.forecast.end > 0.1 + 1e-7


def test_searches_of_jumping_functions() -> None:
    def stairs(factor: float) -> float:
        return 0.5 + factor + (1.0 if factor > 3.0 else 0.0)

    assert factor_for(stairs, 2.0, 1.0) == (pytest.approx(1.5, rel=1e-12), "")
    assert factor_for(stairs, 7.5, 1.0) == (pytest.approx(6.0, rel=1e-12), "")
    factor, note = factor_for(stairs, 4.0, 1.0)  # inside the jump
    assert note == NO_SCALE
    assert factor == pytest.approx(3.0, rel=1e-9)
    assert factor_for(stairs, 0.4, 1.0) == (0.0, TOO_SHORT)
    assert factor_for(stairs, 0.5, 1.0) == (0.0, "")

    def saw(factor: float) -> float:  # falls back at 2: three factors end at 1.8, one at 2.5
        return factor if factor < 2.0 else factor - 0.7

    for first in (0.1, 1.0, 2.1, 3.0, 50.0):
        for target in (0.7, 1.5, 1.8, 2.5):
            factor, note = factor_for(saw, target, first)
            assert note == ""
            assert saw(factor) == pytest.approx(target, rel=TOLERANCE)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.0, 10.0), st.floats(-0.5, 0.5)), max_size=6),
    st.floats(0.0, 1.0),
    st.floats(0.01, 30.0),
    st.floats(1e-3, 1e3),
)
def test_searches_end_at_the_target_or_say_so(
    jumps: list[tuple[float, float]], fixed: float, target: float, first: float
) -> None:
    def end_of(factor: float) -> float:
        return max(fixed + factor + sum(size for at, size in jumps if factor > at), 0.0)

    factor, note = factor_for(end_of, target, first)
    difference = abs(end_of(factor) - target)
    if note == "":
        assert difference <= TOLERANCE * target
    elif note == NO_SCALE:  # no nearer than the jumps there
        assert difference <= sum(abs(size) for _, size in jumps) + 1e-9 * target
    else:
        assert factor == 0.0
        assert end_of(0.0) > target


def test_an_end_is_moved_with_all_that_lies_beyond() -> None:
    outcome = started(scenario_of("GSS"), 100.0).outcome
    times = {name: getattr(outcome, name).copy() for name in ("finish", "notified_at", "last_start")}
    moved = ending_at(outcome, 100.0 * (1 - 1e-10))
    assert moved.notified_at.max() == 100.0 * (1 - 1e-10)
    assert moved.finish.max() <= moved.notified_at.max()
    for name, before in times.items():
        assert np.abs(getattr(moved, name) - before).max() <= 2e-8
        assert np.array_equal(getattr(outcome, name), before)
    longer = ending_at(replace(outcome, notified_at=outcome.notified_at - 1e-9), 100.0)
    assert longer.notified_at.max() == 100.0


@pytest.mark.parametrize("time_steps", [1, 3])
def test_no_chunk_ends_after_its_job(time_steps: int) -> None:
    for job_id in range(1, 30):
        application = started(scenario_of("GSS", time_steps=time_steps), 3600.0, job_id, at=0.3, chunks=True)
        chunks = application.chunks()
        assert chunks is not None
        rows = next(StoredChunks(chunks.store, [(0.3, 0, chunks)]).blocks(chunks.rows))
        assert application.forecast.end == 0.3 + 3600.0
        assert rows.end.max() <= application.forecast.end
        assert (rows.start <= rows.end).all()


def test_a_disturbed_loop_ends_when_it_does() -> None:
    application = started(scenario_of("GSS"), 3600.0)
    application.apply_change(50.0, Kill())
    assert application.forecast.end == 50.0


def test_what_cannot_be_assumed_is_refused() -> None:
    def errors(**costs: Any) -> str:
        with pytest.raises(InputError) as caught:
            scenario_of(costs=costs)
        return str(caught.value)

    key = "application.costs.calibrate"
    assert f"{key}: run-time; profile job has costs of this mean" in errors(
        calibrate="run-time", calibrate_to={}
    )
    assert f"{key}_to: read by calibrate recorded only" in errors(
        calibrate="none", calibrate_to={"technique": "GSS"}
    )
    assert f"{key}_to.technique: ./mine.py:rule is a function of your own" in errors(
        calibrate_to={"technique": "./mine.py:rule"}
    )
    assert f"{key}_to.coordination: on; a log does not record" in errors(calibrate_to={"coordination": True})
    assert f"{key}_to.technique: FAC2+SS names two, and model dca has one level" in errors(
        calibrate_to={"technique": "FAC2+SS"}
    )
    assert "application.parameters.overhead: missing; FSC needs" in errors(calibrate_to={"technique": "FSC"})
    assert "is not known" in errors(calibrate_to={"technique": "auto"})
