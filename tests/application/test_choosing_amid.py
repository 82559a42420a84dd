"""Techniques chosen amid a loop: event loops that stop against slow ones, and what selectors make of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from mlsim.application import LoopOutcome, simulate, trial_by
from mlsim.application.iteration_costs import CostSums, prefix_sums
from mlsim.application.loop_binding import Problem, bind
from mlsim.application.loop_simulation import _simulate_with_stops
from mlsim.application.selection.measured_costs import Estimate, when_free
from mlsim.application.selection.selector import ExecutedChunks, Progress, Rest
from mlsim.application.selection.simulation_selector import BySimulation, Effort, SelectedLoop
from mlsim.application.techniques import Choice, choose, read_only
from mlsim.application.time_steps import StepHistory
from mlsim.errors import InputError
from mlsim.execution_models.loop_state import Perturbation
from mlsim.scenario import ApplicationConfig
from mlsim.scenario.application_section import ExecutionConfig
from mlsim.scenario.costs_section import SelectionConfig
from mlsim.scenario.technique_section import ParametersConfig
from mlsim.scenario.words import SelectionGoal
from tests.application import test_reference as of_whole_loops
from tests.reference import cca, dca
from tests.reference.loops import Case

MODELS = {"cca": cca.simulate, "dca": dca.simulate}
TECHNIQUES = of_whole_loops.TECHNIQUES
P = 8
LATENCY = np.concatenate([[0.0], np.full(P - 1, 1e-6)])
COSTS = {
    "exponential": np.random.default_rng(1).exponential(1e-3, 3000),
    "increasing": np.linspace(1e-5, 2e-3, 3000),
    "constant": np.full(3000, 1e-3),
}


def of_no_parts(case: Case) -> Case:
    """Return a case without costs of a chunk's parts: a case does not know which technique is at work."""
    return replace(case, piece_time=0.0, break_every=0.0)


def choices_of(case: Case, name: str) -> tuple[Choice, ...]:
    told, column = of_whole_loops.parameters_of(case), read_only(np.array(case.prefix))
    speed = read_only(np.array(case.speed))
    return choose(name, speed, column, told, case.min_chunk, case.parameters.seed)


def run_scripted(case: Case, model: str) -> tuple[LoopOutcome, list[Progress]]:
    """Run the event loop with the choices that the case names, in order."""
    seen: list[Progress] = []

    def script(progress: Progress) -> tuple[Choice, float]:
        name, spent = case.choices[len(seen) % len(case.choices)]
        seen.append(progress)
        return choices_of(case, name)[0], spent

    problem = Problem(
        read_only(np.array(case.prefix)),
        read_only(np.array(case.speed)),
        read_only(np.array(case.latency)),
        np.zeros(case.p, np.int64),
        0.0,
        of_whole_loops.execution_of(case, model),
        of_whole_loops.parameters_of(case),
        seed=case.parameters.seed,
    )
    bound = bind(problem, choices_of(case, case.technique), 0.0, case.every)
    return _simulate_with_stops(bound, True, np.inf, np.empty(0), script), seen


def assert_same(case: Case, model: str) -> None:
    expected, (outcome, seen) = MODELS[model](case), run_scripted(case, model)
    rows = outcome.rows
    assert rows is not None
    covered = np.zeros(case.n, np.int64)
    for first, size in zip(rows.first, rows.size, strict=True):
        covered[first : first + size] += 1
    assert (covered == 1).all()
    chunks = expected.chunks()
    found = list(zip(rows.pe, rows.step, rows.first, rows.size, strict=True))
    assert found == [row[:4] for row in chunks]
    assert len(set(rows.step.tolist())) == len(rows.step)
    close = {"rtol": 1e-9, "atol": 1e-12}
    times = np.array([row[4:] for row in chunks], dtype=float).reshape(len(chunks), 3)
    np.testing.assert_allclose(np.array([rows.requested, rows.start, rows.end]).T, times, **close)
    np.testing.assert_allclose(outcome.notified_at, np.array(expected.told, dtype=float), **close)
    np.testing.assert_allclose(outcome.busy, np.array(expected.busy(), dtype=float), **close)
    np.testing.assert_allclose(outcome.overhead, np.array(expected.overhead(), dtype=float), **close)
    spent = outcome.busy + outcome.overhead + outcome.idle
    np.testing.assert_allclose(spent, outcome.notified_at, **close)
    for progress in seen:
        running, executed = progress.running, progress.executed
        assert executed.size.sum() + running.size.sum() <= progress.position
        assert len(set(running.pe.tolist())) == len(running.pe)
        assert (running.seconds >= 0.0).all()


@st.composite
def scripts(draw: st.DrawFn) -> dict[str, Any]:
    """How often techniques are chosen, which, and how long that takes; a spent time is a multiple of 1/8."""
    eighths = st.integers(0, 6).map(lambda k: k / 8)
    names = st.sampled_from(TECHNIQUES)
    return {
        "every": draw(st.sampled_from([1, 2, 5, 12])),
        "choices": tuple(draw(st.lists(st.tuples(names, eighths), min_size=1, max_size=5))),
    }


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_same_as_reference_where_events_coincide(model: str, data: st.DataObject) -> None:
    case = of_no_parts(data.draw(of_whole_loops.coarse_cases(data.draw(st.sampled_from(TECHNIQUES)))))
    dedicated = data.draw(st.booleans()) if model == "cca" else False
    assert_same(replace(case, dedicated=dedicated, **data.draw(scripts())), model)


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=100, deadline=None)
@given(data=st.data(), seed=st.integers(0, 2**32), n=st.integers(0, 150), p=st.integers(1, 20))
def test_same_as_reference_on_real_numbers(
    model: str, data: st.DataObject, seed: int, n: int, p: int
) -> None:
    case = of_no_parts(of_whole_loops.fine_case(data.draw(st.sampled_from(TECHNIQUES)), seed, n, p))
    script = data.draw(scripts())
    spent = tuple((name, time * 1e-3 + 1e-7) for name, time in script["choices"])
    assert_same(replace(case, every=script["every"], choices=spent), model)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("technique", ["SS", "AF", "AWF-B", "TSS", "FAC2"])
def test_a_choice_that_takes_no_time_and_changes_nothing(model: str, technique: str) -> None:
    """Under CCA it is as if nobody had asked; the window is held for three accesses under DCA."""
    case = of_no_parts(of_whole_loops.fine_case(technique, 5, 120, 6))
    case = replace(case, choices=((technique, 0.0),), every=10)
    if model == "dca":
        case = replace(case, atomic=0.0, latency=(0.0,) * 6)
    chosen, whole = run_scripted(case, model)[0], of_whole_loops.run(case, model)
    assert chosen.rows is not None
    assert whole.rows is not None
    np.testing.assert_array_equal(chosen.rows.size, whole.rows.size)
    np.testing.assert_array_equal(chosen.finish, whole.finish)


def run(costs: np.ndarray, speed: np.ndarray, steps: int = 1, **more: Any) -> LoopOutcome:
    prefix = np.concatenate([[0.0], np.cumsum(costs)])
    selection = SelectionConfig(**more.pop("selection", {}))
    execution = ExecutionConfig(model=more.pop("model", "cca"), chunk_calculation=1e-6, atomic_service=1e-6)
    technique = more.pop("technique", "auto")
    return simulate(
        prefix, speed, LATENCY, technique, execution, time_steps=steps, selection=selection, **more
    )


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("costs", COSTS)
@pytest.mark.parametrize("steps", [1, 4])
def test_a_row_a_choice_and_each_iteration_once(model: str, costs: str, steps: int) -> None:
    speed = np.repeat([1.0, 0.4], P // 2)
    chosen = {"every": 0.1, "portfolio": ("STATIC", "GSS", "FAC2", "AF", "SS", "AWF-C", "AWF")}
    found = run(COSTS[costs], speed, steps, model=model, selection=chosen, record=True)
    assert found.rows is not None
    covered = np.zeros(3000 * steps, np.int64)
    for first, size in zip(found.rows.first, found.rows.size, strict=True):
        covered[first : first + size] += 1
    assert (covered == 1).all()
    begins = [choice.begin for choice in found.selected]
    assert begins == sorted(begins)
    assert sum(choice.iterations == 0 for choice in found.selected) == steps
    assert len(found.selected) > steps
    positions = [choice.iterations for choice in found.selected]
    assert all(0 <= position < 3000 for position in positions)
    assert sum(choice.spent for choice in found.selected) <= 0.0101 * found.t_loop
    spent = found.busy + found.overhead + found.idle
    np.testing.assert_allclose(spent, found.notified_at, rtol=1e-9)
    again = run(COSTS[costs], speed, steps, model=model, selection=chosen)
    assert again.selected == found.selected
    assert again.t_loop == found.t_loop


def test_parts_of_a_time_step_add_up_to_it() -> None:
    found = run(COSTS["exponential"], np.ones(P), 2, selection={"every": 0.2})
    second = next(row for row, choice in enumerate(found.selected) if row and choice.iterations == 0)
    parts = found.selected[:second]
    assert len(parts) > 1
    total = sum(choice.t_loop for choice in parts) + sum(choice.spent for choice in parts[1:])
    ends = found.selected[second].begin - found.selected[second].spent
    assert 0.0 <= ends - total < 1e-4  # PEs learn a little later that nothing is left
    assert len({choice.imbalance for choice in parts}) == 1


def test_a_slow_down_amid_a_loop_is_followed() -> None:
    """Half of the PEs slow down to a tenth after a third of a long loop of its own under TSS."""
    third = COSTS["constant"].sum() / P / 3
    slow = Perturbation(np.arange(P), np.array([0, *[0] * 4, 1, 2, 3, 4]), np.full(4, third), np.full(4, 0.1))
    portfolio = ("TSS", "SS")
    alone = run(COSTS["constant"], np.ones(P), technique="TSS", perturbation=slow)
    chosen = {"every": 0.05, "portfolio": portfolio}
    found = run(COSTS["constant"], np.ones(P), selection=chosen, perturbation=slow)
    assert found.selected[0].technique == "TSS"
    assert "SS" in {choice.technique for choice in found.selected[1:]}
    assert found.t_loop < 0.9 * alone.t_loop


def test_a_late_chunk_tells_that_its_pe_is_slow() -> None:
    """Iterations of 1 s: PE 0 is half done; PE 1 needed 30 s for 10 s of work, so it takes 50; PE 2 waits."""
    known = Estimate(np.ones(4), np.array([0.0, 10.0, 20.0, 30.0, 40.0]), 0.0, np.array([1.0, 1.0, 2.0]))
    running = ExecutedChunks(np.array([0, 1]), np.array([0, 10]), np.array([10, 10]), np.array([5.0, 30.0]))
    free, speed = when_free(known, running, 3)
    np.testing.assert_allclose(free, [5.0, 20.0, 0.0])
    np.testing.assert_allclose(speed, [1.0, 0.2, 2.0])


@pytest.mark.parametrize(
    ("execution", "parameters", "message"),
    [
        ({"model": "hdca"}, {}, "model hdca has several queues"),
        ({"model": "dca", "lock": "polling"}, {}, "no order of turns"),
        ({"model": "cca"}, {"compat": "lb4mpi"}, "one technique for a loop"),
        ({"model": "cca", "request_ahead": 1}, {}, "allowed: request_ahead: 0"),
    ],
)
def test_where_a_loop_cannot_stop_it_is_refused(
    execution: dict[str, Any], parameters: dict[str, Any], message: str
) -> None:
    prefix = np.arange(101.0)
    with pytest.raises(InputError, match=message):
        simulate(
            prefix, np.ones(P), LATENCY, "auto", ExecutionConfig(**execution), time_steps=2,
            parameters=ParametersConfig(**parameters), selection=SelectionConfig(every=0.1),
        )  # fmt: skip


def test_a_scenario_that_asks_ahead_cannot_choose_amid_a_loop() -> None:
    told: dict[str, Any] = {"model": "loop", "technique": "auto", "selection": {"every": 0.1}}
    ApplicationConfig.model_validate({**told, "execution": {"model": "cca"}})
    with pytest.raises(ValidationError, match=r"selection\.parameters\.every\n.*allowed: request_ahead: 0"):
        ApplicationConfig.model_validate({**told, "execution": {"model": "cca", "request_ahead": 1}})


@pytest.mark.parametrize("technique", ["AWF", "AWF-B"])
@pytest.mark.parametrize("model", MODELS)
def test_a_trial_of_the_rest_begins_with_the_weights_of_time_steps_before(technique: str, model: str) -> None:
    speeds, free = np.repeat([1.0, 0.4], P // 2), np.linspace(0.0, 0.02, P)
    costs, execution = COSTS["increasing"][1000:], ExecutionConfig(model=model)
    empty, known = StepHistory(P, selected=True), StepHistory(P, selected=True)
    known.add(np.full(P, 300), 0.3 / speeds, forgets=False)

    def tried(history: StepHistory) -> float:
        columns = np.zeros(1), speeds, LATENCY, np.zeros(P, np.int64)
        problem = Problem(*columns, 0.0, execution, ParametersConfig())
        sums = CostSums.of_each(prefix_sums(costs))
        return trial_by(problem, history)(technique, sums, speeds, 1e9, Rest(free, 1.0))[0]

    rest = simulate(prefix_sums(costs), speeds, LATENCY, technique, execution, history=known, asks=free)
    assert tried(known) == rest.t_loop != tried(empty)


def test_with_known_costs_the_rest_is_tried_with_those_of_the_profile() -> None:
    """Two PEs executed 2 s and 3 s of work in 4 s and 3 s; PE 0 has 2 of 8 s of its next chunk behind it."""
    profile, tried = np.array([0.5, 1.5, 3.0, 4.0, 1.0, 2.0]), []

    def trial(
        name: str, costs: CostSums, speeds: np.ndarray, until: float, rest: Rest | None
    ) -> tuple[float, float, int]:
        assert rest is not None
        tried.append((name, costs.sums.tolist(), speeds.tolist(), rest.free.tolist()))
        return {"STATIC": 1.0}.get(name, 2.0), 0.0, 1

    loop, effort = SelectedLoop(6, 2, profile), Effort(3, 1.0, 0.0)
    selector = BySimulation(("STATIC", "SS"), SelectionGoal.T_LOOP, loop, trial, 0, effort)
    executed = ExecutedChunks(np.array([0, 1]), np.array([0, 2]), np.array([2, 1]), np.array([4.0, 3.0]))
    running = ExecutedChunks(np.array([0]), np.array([3]), np.array([1]), np.array([2.0]))
    assert selector.choose_within(Progress(6.0, 4, executed, running)) == "STATIC"
    assert sorted(tried) == [(name, [0.0, 1.0, 3.0], [0.5, 1.0], [6.0, 0.0]) for name in ("SS", "STATIC")]
