"""Masters that answer inside iterations or by a thread, costs of requests, and start-ups of PEs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.application import simulate
from mlsim.errors import InputError
from mlsim.experiment.loops import loop_from_mapping
from mlsim.scenario.application_section import ExecutionConfig
from mlsim.scenario.scenario_keys import warnings_of
from mlsim.scenario.words import ExecutionModel
from mlsim.techniques import TECHNIQUES as ENTRIES
from tests.application.test_choosing_amid import assert_same as assert_same_choices
from tests.application.test_choosing_amid import of_no_parts, scripts
from tests.application.test_models import absences, full_cases, full_fine_case
from tests.application.test_reference import POSSIBLE, TWO_LEVELS, assert_ended_same, assert_same, run
from tests.reference.loops import Case

MODELS = sorted({model for model, _ in POSSIBLE})
ANSWERS = ["between-iterations", "inside", "thread"]


@st.composite
def cases(draw: st.DrawFn, model: str) -> Case:
    """Coarse cases of any technique with every cost of this file; multiples of 1/8."""
    case = draw(full_cases(model, draw(st.sampled_from([name for of, name in POSSIBLE if of == model]))))
    eighths = st.integers(0, 6).map(lambda k: k / 8)
    # Techniques that follow chunks by the clock take a request for the end of one.
    asks_ahead = model == "cca" and not ENTRIES[case.technique].rule.follows_chunks
    ahead = draw(st.sampled_from([0, 0, 1, 50])) if asks_ahead else 0
    return replace(
        case,
        dedicated=draw(st.sampled_from([False, False, False, True])),
        answers=draw(st.sampled_from(ANSWERS)),
        thread_share=draw(st.sampled_from([0.0, 0.5])),
        request=0.0 if ahead else draw(eighths),
        start_up=draw(st.sampled_from([0.0, 0.125, 1.0, 3.0])),
        ahead=ahead,
    )


@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_same_as_reference_where_events_coincide(model: str, data: st.DataObject) -> None:
    assert_same(data.draw(cases(model)), model)


@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_ended_loop_is_the_reference_up_to_then(model: str, data: st.DataObject) -> None:
    assert_ended_same(data.draw(cases(model)), model, data.draw(st.integers(0, 60)) / 8)


@pytest.mark.parametrize("model", TWO_LEVELS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_nodes_leave_as_in_the_reference(model: str, data: st.DataObject) -> None:
    """And every iteration is executed exactly once, whoever has left or comes late."""
    case = data.draw(cases(model))
    case = replace(case, away=data.draw(absences(max(case.node_of_pe) + 1)))
    assert_same(case, model)
    assert executed(case, model) == list(range(case.n))


def executed(case: Case, model: str) -> list[int]:
    rows = run(case, model).rows
    assert rows is not None
    return sorted(k for f, n in zip(rows.first, rows.size, strict=True) for k in range(f, f + n))


@pytest.mark.parametrize("model", ["cca", "dca"])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_all_is_executed_once_where_nodes_leave_and_come_late(model: str, data: st.DataObject) -> None:
    case = data.draw(cases(model))
    nodes = tuple(range(case.p))
    case = replace(case, node_of_pe=nodes, away=data.draw(absences(case.p)))
    assert executed(case, model) == list(range(case.n))
    outcome = run(case, model)
    assert (outcome.notified_at >= 0.0).all()
    rows = outcome.rows
    assert rows is not None
    for pe in range(case.p):
        assert (rows.requested[rows.pe == pe] >= case.start_up / case.speed[pe]).all()


@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=25, deadline=None)
@given(data=st.data(), seed=st.integers(0, 2**32), n=st.integers(0, 150), p=st.integers(1, 20))
def test_same_as_reference_on_real_numbers(
    model: str, data: st.DataObject, seed: int, n: int, p: int
) -> None:
    technique = data.draw(st.sampled_from([name for of, name in POSSIBLE if of == model]))
    case, rng = full_fine_case(model, technique, seed, n, p), np.random.default_rng([seed, 2])
    scale = 10.0 ** rng.uniform(-6, -2, 2)
    start_up = float(rng.choice([0.0, scale[1]]))
    case = replace(
        case,
        answers=str(rng.choice(ANSWERS)),
        thread_share=float(rng.choice([0.0, 0.3])),
        request=float(rng.choice([0.0, scale[0]])),
        start_up=start_up,
        start_up_std=start_up * float(rng.choice([0.0, 0.1, 1.0, 3.0])),
    )
    assert_same(case, model)


def two_pes(**options: Any) -> Case:
    """PE 0 executes iterations of 4 s, PE 1 of 1 s; an answer takes 1 s of a master at speed 1."""
    case = Case("SS", tuple(float(k) for k in range(0, 41, 4)), (1.0, 4.0), (0.0, 0.0), assignment=1.0)
    return replace(case, **options)


def rows_of(case: Case, model: str = "cca") -> list[tuple[int, float, float]]:
    rows = run(case, model).rows
    assert rows is not None
    return list(zip(rows.pe.tolist(), rows.start.tolist(), rows.end.tolist(), strict=True))


def test_a_request_interrupts_an_iteration() -> None:
    found = rows_of(two_pes(answers="inside"))
    # The master serves itself until 1 and PE 1 until 2; PE 1 asks at 3, 5 and 7, in the master's iteration.
    assert found[:4] == [(0, 2.0, 9.0), (1, 2.0, 3.0), (1, 4.0, 5.0), (1, 6.0, 7.0)]
    outcome = run(two_pes(answers="inside"), "cca")
    assert outcome.busy[0] == pytest.approx(4.0 * outcome.chunks[0])
    assert outcome.t_loop < run(two_pes(), "cca").t_loop


def test_an_interruption_takes_the_time_of_a_break() -> None:
    without, with_breaks = (run(two_pes(answers="inside", break_time=t), "cca") for t in (0.0, 0.5))
    assert with_breaks.overhead[0] > without.overhead[0]


def test_a_thread_does_not_stop_iterations() -> None:
    found = [row for row in rows_of(two_pes(answers="thread")) if row[0] == 0]
    assert all(end - start == 4.0 for _, start, end in found)
    half = [row for row in rows_of(two_pes(answers="thread", thread_share=0.5)) if row[0] == 0]
    assert all(end - start == 8.0 for _, start, end in half)


def test_slower_pes_request_later() -> None:
    case = Case("GSS", tuple(float(k) for k in range(41)), (1.0, 1.0, 4.0), (0.0,) * 3, request=1.0)
    rows = run(case, "dca").rows
    assert rows is not None
    assert [(int(pe), float(start)) for pe, start in zip(rows.pe[:3], rows.start[:3], strict=True)] == [
        (2, 0.25),
        (0, 1.0),
        (1, 1.0),
    ]
    assert rows.size[0] == 14


def test_start_ups_are_those_of_a_job_and_passed_once() -> None:
    case = replace(two_pes(), start_up=3.0, start_up_std=1.0)
    first, again = run(case, "dca"), run(case, "dca")
    assert first.idle.tolist() == again.idle.tolist()
    assert (first.idle > 0.0).all()
    other = run(replace(case, parameters=replace(case.parameters, seed=1)), "dca")
    assert first.idle.tolist() != other.idle.tolist()


def told(**execution: Any) -> list[str]:
    """Return what mlsim says of keys without effect, of a loop under cca."""
    keys = {"model": "cca", **execution}
    loop = loop_from_mapping(
        {"platform": {"nodes": [{"name": "n", "cores": 4, "count": 1}]}, "application": {"execution": keys}}
    )
    return warnings_of(loop)


def test_keys_that_an_answer_does_not_read_are_named() -> None:
    place = "application.execution."
    assert told(answers="inside", break_after=3, break_time=1e-6) == [
        f"{place}break_after has no effect: only answers: between-iterations reads it, and "
        f"{place}parameters.answers is inside"
    ]
    assert [line.split()[0] for line in told(answers="thread", break_time=1e-6, break_every=1e-3)] == [
        f"{place}break_every",
        f"{place}break_time",
    ]
    for keys, unread in (
        ({"master": "dedicated", "answers": "inside"}, "answers"),
        ({"thread_share": 0.1}, "thread_share"),
        ({"model": "dca", "answers": "inside"}, "answers"),
        ({"model": "steal", "request_cost": 1e-6}, "request_cost"),
    ):
        assert [line.split()[0] for line in told(**keys)] == [f"{place}parameters.{unread}"]
    assert told(answers="thread", thread_share=0.1, request_cost=1e-6, start_up=1, start_up_std=1) == []


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"start_up_std": 1}, "given without start_up, the mean"),
        ({"request_cost": 1e-6, "request_ahead": 1}, "not with request_ahead"),
        ({"answers": "sometimes"}, "allowed: between-iterations, inside, thread"),
        ({"thread_share": 1}, "out of range"),
    ],
)
def test_costs_that_do_not_fit_are_refused(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        told(**keys)


@pytest.mark.parametrize("technique", ["SS", "AF", "AWF"])
def test_start_up_is_passed_once_in_time_steps(technique: str) -> None:
    prefix, execution = np.arange(41.0), ExecutionConfig(model=ExecutionModel.DCA, start_up=100.0)
    late, early = (
        simulate(prefix, np.ones(4), np.zeros(4), technique, execution, time_steps=3, record=True)
        for execution in (execution, ExecutionConfig(model=ExecutionModel.DCA))
    )
    assert late.t_loop == pytest.approx(early.t_loop + 100.0)
    assert (late.idle == early.idle + 100.0).all()


@settings(max_examples=25, deadline=None)
@given(data=st.data(), script=scripts(), model=st.sampled_from(["cca", "dca"]))
def test_choices_amid_the_loop(data: st.DataObject, script: dict[str, Any], model: str) -> None:
    case = replace(of_no_parts(data.draw(cases(model))), ahead=0, polling=False, slow=(), **script)
    if not case.choices:
        return
    told = replace(case.parameters, lb4mpi=False)
    assert_same_choices(replace(case, parameters=told, start_up_std=0.0), model)


@pytest.mark.parametrize("model", MODELS)
def test_measured_costs_take_the_place_of_those_not_given(model: str) -> None:
    """As if they had been written down; a cost that is given counts."""
    prefix, speed, latency = np.arange(61.0) * 1e-6, np.ones(4), np.zeros(4)
    own = {"chunk_calculation": 0.79e-6, "atomic_service": 1.20e-6}
    if model in ("cca", "hmw"):
        own = {"chunk_calculation": 0.96e-6, "chunk_assignment": 2.16e-6, "break_time": 1.04e-6}
        own["request_cost"] = 0.84e-6
    for set_by_hand in ({}, {"chunk_calculation": 5e-6}):
        preset, written = (
            simulate(prefix, speed, latency, "SS", ExecutionConfig(model=ExecutionModel(model), **keys))
            for keys in ({"measured": "mpich-epyc", **set_by_hand}, {**own, **set_by_hand})
        )
        assert preset.t_loop == written.t_loop
        free = simulate(prefix, speed, latency, "SS", ExecutionConfig(model=ExecutionModel(model)))
        assert preset.t_loop > free.t_loop
