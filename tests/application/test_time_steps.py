"""Loops that are executed several times: barriers, what AWF learns, and ended loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.application import LoopOutcome, simulate
from mlsim.application.iteration_costs import prefix_sums
from mlsim.errors import InputError
from mlsim.execution_models.loop_state import unavailability_of
from mlsim.scenario.application_section import ExecutionConfig
from mlsim.scenario.technique_section import ParametersConfig
from tests.application.test_reference import REFERENCES, coarse_cases, fine_case
from tests.reference import loops
from tests.reference.timesteps import simulate_steps

MODELS = ["cca", "dca"]


def run(case: loops.Case, model: str, steps: int, **more: Any) -> LoopOutcome:
    from tests.application.test_reference import execution_of, parameters_of

    return simulate(
        np.array(case.prefix),
        np.array(case.speed),
        np.array(case.latency),
        case.technique,
        execution_of(case, model),
        case.min_chunk,
        record=True,
        parameters=parameters_of(case),
        seed=case.parameters.seed,
        time_steps=steps,
        **more,
    )


def assert_same(case: loops.Case, model: str, steps: int) -> None:
    chunks, told = simulate_steps(REFERENCES[model], case, steps)
    outcome = run(case, model, steps)
    rows = outcome.rows
    assert rows is not None
    assert list(zip(rows.pe, rows.step, rows.first, rows.size, strict=True)) == [row[:4] for row in chunks]
    times = np.array([row[4:] for row in chunks], dtype=float).reshape(len(chunks), 3)
    close: dict[str, Any] = {"rtol": 1e-9, "atol": 1e-12}
    np.testing.assert_allclose(np.array([rows.requested, rows.start, rows.end]).T, times, **close)
    np.testing.assert_allclose(outcome.notified_at, np.array(told, dtype=float), **close)
    np.testing.assert_allclose(outcome.busy + outcome.overhead + outcome.idle, outcome.notified_at, **close)
    assert (outcome.steps, outcome.iterations) == (len(chunks), steps * case.n)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("technique", ["AWF", "AWF-B", "AF", "FAC2", "STATIC"])
@settings(max_examples=25, deadline=None)
@given(data=st.data(), steps=st.integers(1, 4))
def test_same_as_reference(model: str, technique: str, data: st.DataObject, steps: int) -> None:
    assert_same(data.draw(coarse_cases(technique)), model, steps)


@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), n=st.integers(0, 120), p=st.integers(1, 12), steps=st.integers(2, 4))
def test_adaptive_weights_on_real_numbers(model: str, seed: int, n: int, p: int, steps: int) -> None:
    assert_same(fine_case("AWF", seed, n, p), model, steps)


def outcome_of(technique: str, steps: int, speed: list[float], n: int = 4000, **told: Any) -> LoopOutcome:
    return simulate(
        prefix_sums(np.full(n, 1.0)),
        np.array(speed),
        np.zeros(len(speed)),
        technique,
        ExecutionConfig(),
        record=True,
        time_steps=steps,
        parameters=ParametersConfig(**told),
    )


def test_weights_are_the_speeds_from_the_second_time_step_on() -> None:
    """Speeds 1, 1 and 6: equal weights give equal first chunks, learned ones 1 : 1 : 6."""
    outcome = outcome_of("AWF", 2, [1.0, 1.0, 6.0])
    assert outcome.rows is not None
    first: dict[tuple[int, int], int] = {}
    for pe, begin, size in zip(outcome.rows.pe, outcome.rows.first, outcome.rows.size, strict=True):
        first.setdefault((int(begin) // 4000, int(pe)), int(size))
    assert first == {(0, 0): 667, (0, 1): 667, (0, 2): 667, (1, 0): 251, (1, 1): 251, (1, 2): 1501}


def test_awf_gains_from_time_steps_and_fac2_does_not() -> None:
    """The first chunk of equal weights keeps a very slow PE busy long after the others have finished."""
    speed = [1.0] * 7 + [0.05]
    once, often = (outcome_of("AWF", steps, speed, n=1000).t_loop / steps for steps in (1, 10))
    assert often < 0.3 * once
    first, second = (outcome_of("FAC2", steps, speed, n=1000).t_loop / steps for steps in (1, 10))
    assert first == pytest.approx(second)


def test_techniques_may_begin_with_given_weights() -> None:
    speeds = outcome_of("AWF", 1, [1.0, 1.0, 6.0], weights="speed")
    assert speeds.rows is not None
    assert sorted(speeds.rows.size[:3].tolist()) == [251, 251, 1501]


def test_ended_amid_a_time_step() -> None:
    whole = outcome_of("FAC2", 3, [1.0, 2.0], n=300)
    began = 100.0  # each time step takes 100 s
    ended = simulate(
        prefix_sums(np.ones(300)),
        np.array([1.0, 2.0]),
        np.zeros(2),
        "FAC2",
        ExecutionConfig(),
        record=True,
        until=began + 20.0,
        time_steps=3,
    )
    assert whole.rows is not None
    assert ended.rows is not None
    before = whole.rows.start < began + 20.0
    np.testing.assert_array_equal(ended.rows.first, whole.rows.first[before])
    np.testing.assert_array_equal(ended.rows.end, np.minimum(whole.rows.end[before], began + 20.0))
    assert ended.notified_at.tolist() == [120.0, 120.0]


def test_number_of_time_steps_must_be_positive() -> None:
    with pytest.raises(InputError, match="time_steps: 0; allowed: 1 or more"):
        outcome_of("SS", 0, [1.0])


@pytest.mark.parametrize("technique", ["STATIC", "SS", "GSS", "AF", "AWF"])
@pytest.mark.parametrize("model", ["cca", "dca", "hmw", "hdca", "mpi+openmp"])
def test_every_time_step_is_complete_though_a_node_has_left(model: str, technique: str) -> None:
    nodes = np.repeat(np.arange(3), 2)
    inside = "+STATIC" if model == "mpi+openmp" else ""
    outcome = simulate(
        np.concatenate([[0.0], np.cumsum(np.ones(24))]),
        np.ones(6),
        np.where(nodes > 0, 0.01, 0.0),
        technique + inside,
        ExecutionConfig(model=model),
        record=True,
        time_steps=3,
        node_of_pe=nodes,
        pe_unavailability=unavailability_of(nodes, [[], [(0.5, math.inf)], [(1.0, 8.0)]]),
    )
    rows = outcome.rows
    assert rows is not None
    executed = [range(first, first + size) for first, size in zip(rows.first, rows.size, strict=True)]
    assert sorted(k for chunk in executed for k in chunk) == list(range(3 * 24))
    if technique != "STATIC":  # of which every node has a part in every time step
        assert not set(rows.pe[rows.first >= 24]) & {2, 3}
