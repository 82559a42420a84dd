"""Choosing techniques: what each method does by its rules, and that it pays."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.application import LoopOutcome, simulate, trial_by
from mlsim.application.iteration_costs import CostSums, prefix_sums, sums_of_each
from mlsim.application.loop_binding import Problem
from mlsim.application.selection.measured_costs import Estimate, by_profile, estimate
from mlsim.application.selection.selector import (
    ByTrial,
    ExecutedChunks,
    Expert,
    Learner,
    RandomSelector,
    Rest,
    StepFacts,
    percent_imbalance,
    rungs,
)
from mlsim.application.selection.simulation_selector import BySimulation, Correction, Effort, SelectedLoop
from mlsim.application.time_steps import StepHistory
from mlsim.errors import InputError
from mlsim.execution_models.loop_state import Perturbation
from mlsim.scenario.application_section import ExecutionConfig
from mlsim.scenario.costs_section import SelectionConfig, SelectionParameters
from mlsim.scenario.technique_section import ParametersConfig
from mlsim.scenario.words import SelectionGoal, TemporalDifference

T_LOOP, IMBALANCE = SelectionGoal.T_LOOP, SelectionGoal.IMBALANCE
METHODS = ("expert", "exhaustive", "random", "rl", "simulation")
P = 8
LATENCY = np.concatenate([[0.0], np.full(P - 1, 1e-6)])
DCA = ExecutionConfig(model="dca", atomic_service=2e-6)
COSTS = {
    "exponential": np.random.default_rng(1).exponential(1e-3, 4000),
    "increasing": np.linspace(1e-5, 2e-3, 4000),
    "short": np.full(4000, 2e-6),
}
SPEEDS = {"equal": np.ones(P), "unequal": np.repeat([1.0, 0.3], P // 2)}


def run(costs: np.ndarray, speed: np.ndarray, steps: int, **more: Any) -> LoopOutcome:
    prefix = np.concatenate([[0.0], np.cumsum(costs)])
    selection = SelectionConfig(**more.pop("selection", {}))
    technique = more.pop("technique", "auto")
    return simulate(
        prefix, speed, LATENCY, technique, more.pop("execution", DCA), time_steps=steps, selection=selection,
        **more,
    )  # fmt: skip


def fed(selector: Any, steps: int, facts: Callable[[str, int], tuple[float, float]]) -> list[str]:
    """Let a selector choose, and tell it times and imbalances that follow from technique and step."""
    names = []
    for step in range(steps):
        names.append(selector.choose())
        selector.note(StepFacts(names[-1], *facts(names[-1], step)))
    return names


def test_trial_takes_each_once_then_the_best_until_the_imbalance_changes() -> None:
    times = {"A": 3.0, "B": 1.0, "C": 2.0}

    def facts(name: str, step: int) -> tuple[float, float]:
        return (times[name], 5.0) if step < 6 else (6.0 - times[name], 16.0)

    chosen = fed(ByTrial(("A", "B", "C"), T_LOOP, 10.0), 12, facts)
    assert chosen == [*"ABC", *"BBB", "B", *"ABC", "A", "A"]
    assert fed(ByTrial(("A", "B", "C"), T_LOOP, 11.0), 12, facts) == [*"ABC", *"B" * 9]


def test_trial_for_balance_takes_the_most_balanced() -> None:
    chosen = fed(ByTrial(("A", "B"), IMBALANCE, 100.0), 4, lambda name, _: (1.0, 9.0 if name == "A" else 3.0))
    assert chosen == ["A", "B", "B", "B"]


def test_chance_is_seeded_and_fair() -> None:
    def drawn(seed: int) -> list[str]:
        return fed(RandomSelector(("A", "B", "C"), T_LOOP, seed), 3000, lambda *_: (1.0, 1.0))

    assert drawn(4) == drawn(4) != drawn(5)
    assert all(abs(drawn(4).count(name) - 1000) < 120 for name in "ABC")


@pytest.mark.parametrize(
    ("imbalance", "points", "share", "move"),
    [
        (1.0, 0.0, 0.0, 0.0),
        (1.0, 0.0, 0.2, -1.0),
        (7.0, 0.0, 0.0, 1.0),
        (7.0, -9.0, 0.0, 0.0),
        (30.0, 0.0, 0.0, 2.0),
        (30.0, -9.0, 0.0, 1.0),
        (3.5, 0.0, 0.0, 0.5),  # half low (0), half medium (1)
        (15.0, 0.0, 0.0, 1.5),  # half medium (1), half high (2)
        (15.0, -3.0, 0.0, 1.0),  # of each half: 0, 1, 1 and 2
        (0.0, 0.0, 0.03, -0.5),
    ],
)
def test_rules_of_the_expert(imbalance: float, points: float, share: float, move: float) -> None:
    assert rungs(imbalance, points, share) == pytest.approx(move)


def test_expert_goes_to_smaller_chunks_and_not_where_it_was_worse() -> None:
    facts = {"A": (4.0, 40.0), "B": (3.5, 30.0), "C": (2.0, 7.0), "D": (2.5, 1.0)}
    chosen = fed(Expert(tuple(facts), T_LOOP), 8, lambda name, _: facts[name])
    assert chosen[:2] == ["A", "C"]
    assert "D" in chosen
    assert chosen[-3:] == ["C", "C", "C"]


def _options(rule: TemporalDifference, discount: float, exploration: float) -> SelectionParameters:
    return SelectionParameters(learner=rule, learning_rate=0.5, discount=discount, exploration=exploration)


@pytest.mark.parametrize("rule", TemporalDifference)
def test_learner_finds_the_best(rule: TemporalDifference) -> None:
    learner = Learner(("A", "B", "C"), T_LOOP, 1, _options(rule, 0.6, 0.1))
    times = {"A": 3.0, "B": 1.0, "C": 2.0}
    chosen = fed(learner, 400, lambda name, _: (times[name], 1.0))
    assert chosen[:3] == ["A", "B", "C"]
    assert chosen[200:].count("B") > 150


def test_q_learning_and_sarsa_update_by_their_formulas() -> None:
    """By hand: rewards 0 (of the first), 1 - 1/1.5 = 1/3, 1 - 2/(5/3) = -0.2; rate 0.5, discount 0.5."""
    for rule, last in ((TemporalDifference.Q_LEARNING, 1 / 6), (TemporalDifference.SARSA, 0.0)):
        learner = Learner(("A", "B"), T_LOOP, 0, _options(rule, 0.5, 0.0))
        learner.values[:] = [[0.0, 0.0], [0.0, 0.0]]
        assert fed(learner, 2, lambda name, _: (2.0 if name == "A" else 1.0, 0.0)) == ["A", "B"]
        learner.values[1] = [0.0, 1 / 3]
        following = learner.choose()  # of B's row the best is B
        assert following == "B"
        # Q(A, B) = 0.5 (1/3 + 0.5 · 1/3): the best is what is taken, so both rules agree
        assert learner.values[0, 1] == pytest.approx(0.25)
        learner = Learner(("A", "B"), T_LOOP, 0, _options(rule, 0.5, 0.0))
        learner._reward, learner._state, learner._action = 0.0, 0, 1
        learner.values[1] = [2 / 3, 0.0]
        learner._learn(1)  # takes B, though A is worth more
        assert learner.values[0, 1] == pytest.approx(last)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(100, 400))
def test_speeds_and_costs_are_found(seed: int, p: int, n: int) -> None:
    """Chunks of 1 to 5 iterations, handed to any PE: without deviation both come out exactly but for bins."""
    random = np.random.default_rng(seed)
    speed = random.uniform(0.25, 2.0, p)
    speed /= speed.mean()
    sizes = random.integers(1, 6, n)
    bounds = np.minimum(np.concatenate([[0], np.cumsum(sizes)]), n)
    bounds = np.unique(bounds)
    first, size = bounds[:-1], np.diff(bounds)
    costs = np.full(n, 2.0)
    steps = []
    for _ in range(2):
        pe = random.permutation(np.arange(len(first)) % p)
        seconds = np.add.reduceat(costs, first) / speed[pe]
        steps.append(ExecutedChunks(pe, first, size, seconds))
    found = estimate(steps, n, p)
    executed = np.bincount(steps[-1].pe, minlength=p) > 0
    scale = found.mean.mean() / 2.0
    np.testing.assert_allclose(found.speed[executed] / scale, speed[executed], rtol=0.1)
    assert found.deviation < 0.2 * scale * 2.0


def test_a_pe_that_executed_nothing_is_as_fast_as_the_median() -> None:
    chunks = ExecutedChunks(
        np.array([0, 1, 2]), np.array([0, 10, 20]), np.full(3, 10), np.array([1.0, 2.0, 4.0])
    )
    found = estimate([chunks], 30, 4)
    assert found.speed[3] == pytest.approx(np.median(found.speed[:3]))


def _steps_of(speed: np.ndarray, deviation: float, seed: int) -> list[ExecutedChunks]:
    """Three time steps of a loop whose costs rise, on 4 PEs: chunks of 16 iterations, handed out in turn."""
    random = np.random.default_rng(seed)
    first, size = np.arange(0, 640, 16), np.full(40, 16)
    costs = np.linspace(1.0, 3.0, 640)
    pe = np.arange(40) % 4
    return [
        ExecutedChunks(
            pe, first, size, np.add.reduceat(random.normal(costs, deviation * costs), first) / speed[pe]
        )
        for _ in range(3)
    ]


@pytest.mark.parametrize("seed", range(5))
def test_pes_are_as_fast_as_each_other_unless_times_tell_more_than_chance(seed: int) -> None:
    equal = estimate(_steps_of(np.ones(4), 0.5, seed), 640, 4)
    assert (equal.speed == 1.0).all()
    slow = estimate(_steps_of(np.array([1.0, 1.0, 1.0, 0.5]), 0.5, seed), 640, 4)
    np.testing.assert_allclose(slow.speed / slow.speed[:3].mean(), [1.0, 1.0, 1.0, 0.5], atol=0.2)


def test_a_pe_that_always_has_the_dear_chunk_is_not_held_for_slow() -> None:
    """Two chunks a PE, the first of each dear: speeds could explain what costs explain as well."""
    pe, first, size = np.array([0, 1, 0, 1]), np.array([0, 100, 150, 200]), np.array([100, 50, 50, 50])
    seconds = np.array([9.0, 2.0, 1.0, 1.1])
    found = estimate([ExecutedChunks(pe, first, size, seconds)] * 3, 250, 2)
    assert (found.speed == 1.0).all()


def test_a_correction_is_learned_and_those_of_others_are_forgotten() -> None:
    correction = Correction()
    assert correction.of("A") == 1.0
    correction.learn("A", 3.0, 2.0)
    assert correction.of("A") == 1.5
    correction.learn("A", 2.0, 2.0)
    assert correction.of("A") == 1.25
    correction.learn("B", 1.0, 2.0)
    assert correction.of("A") == pytest.approx(1.25 - 0.1 * 0.25)
    correction.learn("B", 1.0, 0.0)  # tells nothing
    assert correction.of("B") == 0.5


def test_a_technique_that_is_not_known_is_as_far_off_as_others_were() -> None:
    correction = Correction()
    correction.learn("A", 3.0, 2.0)
    assert correction.of("B") == pytest.approx(1.5**0.3)
    correction.learn("A", 3.0, 2.0)
    assert correction.of("B") == pytest.approx(1.5**0.51)


def test_how_far_predictions_are_off() -> None:
    correction = Correction()
    correction.judge(1.1, 1.0)
    assert correction.error == pytest.approx(0.3 * np.log(1.1))
    correction.judge(1.0, 1.1)
    assert correction.error == pytest.approx(0.51 * np.log(1.1))
    correction.judge(9.0, 1.0)  # the machine has changed
    assert correction.error == pytest.approx(0.7 * 0.51 * np.log(1.1) + 0.3 * 0.3)
    correction.judge(0.0, 1.0)  # tells nothing
    assert correction.error > 0.1


def _speeds_in_turn(speeds: Sequence[Sequence[float]]) -> np.ndarray:
    """Return the speeds that are estimated from steps of 80 chunks that tell the speed of each exactly."""
    first, rng, steps = np.arange(80) * 8, np.random.default_rng(4), []
    for of_step in speeds:
        pe = rng.permutation(np.arange(80) % 4)
        steps.append(ExecutedChunks(pe, first, np.full(80, 8), 8e-3 / np.asarray(of_step)[pe]))
    found = estimate(steps, 640, 4).speed
    scaled: np.ndarray = found / found.mean()
    return scaled


def test_speeds_of_a_step_count_as_far_as_they_last() -> None:
    equal, slow, other = [1.0] * 4, [1.0, 1.0, 1.0, 0.5], [0.5, 1.0, 1.0, 1.0]
    expected = np.array(slow) / np.mean(slow)
    np.testing.assert_allclose(_speeds_in_turn([slow]), expected, rtol=1e-6)
    np.testing.assert_allclose(_speeds_in_turn([slow] * 3), expected, rtol=1e-6)
    np.testing.assert_allclose(_speeds_in_turn([equal, equal, slow]), expected, rtol=1e-6)  # changed once
    np.testing.assert_allclose(_speeds_in_turn([slow, equal, equal]), 1.0, rtol=1e-6)
    np.testing.assert_allclose(_speeds_in_turn([other, [1.0, 0.5, 1.0, 1.0], slow]), 1.0, rtol=1e-6)


@pytest.mark.parametrize("n", [1, 5, 1024, 1025, 5000])
def test_costs_of_blocks_are_those_of_their_iterations(n: int) -> None:
    mean, bounds = np.array([1.0, 3.0]), np.array([0.0, n / 2, n])
    drawn = Estimate(mean, bounds, 0.5, np.ones(2)).draw_sums(n, np.random.default_rng(1), 1024)
    assert drawn.n == n
    assert drawn.block == -(-n // 1024)
    assert len(drawn.sums) == -(-n // drawn.block) + 1
    each = np.zeros(n + 1)
    sums_of_each(drawn.block, drawn.sums, each)
    np.testing.assert_allclose(each[:: drawn.block], drawn.sums[: len(each[:: drawn.block])], rtol=1e-12)
    assert each[-1] == pytest.approx(drawn.sums[-1])
    costs = np.diff(each)
    for begin in range(0, n, drawn.block):
        np.testing.assert_allclose(costs[begin : begin + drawn.block], costs[begin], rtol=1e-6)


@pytest.mark.parametrize("model", ["cca", "dca", "hdca", "hmw"])
@pytest.mark.parametrize("technique", ["STATIC", "SS", "GSS", "FAC2", "mFSC", "AWF-B"])
@pytest.mark.parametrize("block", [2, 7, 600])
def test_a_trial_with_costs_of_blocks_is_one_with_those_of_their_iterations(
    model: str, technique: str, block: int
) -> None:
    """The last block is shorter, chunks begin and end inside blocks, and masters stop inside them.

    No two PEs are as fast as each other: which of two that ask at the same time is first hangs on rounding.
    """
    n, rng = 599, np.random.default_rng(2)
    speeds = SPEEDS["unequal"] * (1.0 + 0.1 * rng.random(P))
    sums = np.cumsum(np.r_[0.0, rng.random(-(-n // block)) * 1e-3])
    each = np.zeros(n + 1)
    sums_of_each(block, sums, each)
    nodes = np.arange(P) // 2
    execution = ExecutionConfig(
        model=model, chunk_calculation=1e-6, break_after=5, break_time=1e-6, piece_time=1e-6
    )
    problem = Problem(np.zeros(1), speeds, LATENCY, nodes, 1e-6, execution, ParametersConfig())
    told = problem, StepHistory(P)
    found = trial_by(*told)(technique, CostSums(n, block, sums), speeds, np.inf, None)
    expected = trial_by(*told)(technique, CostSums.of_each(each), speeds, np.inf, None)
    assert found[2] == expected[2]
    np.testing.assert_allclose(found[:2], expected[:2], rtol=1e-9, atol=1e-9)


def test_techniques_that_learn_from_iterations_are_tried_with_each() -> None:
    tried: dict[str, int] = {}

    def trial(
        name: str, costs: CostSums, speeds: np.ndarray, until: float, rest: Rest | None
    ) -> tuple[float, float, int]:
        tried[name] = costs.block
        assert costs.n == 4096 or costs.n == 2
        return 1.0, 0.0, 1

    names = ("FAC2", "AF", "TAP", "mAF+SS", "SS")
    selector = BySimulation(names, T_LOOP, SelectedLoop(4096, 2), trial, 0, Effort(1, 1e9, None))
    selector.load()
    _told(selector, dict.fromkeys(names, 1.0), 2)
    assert tried == {"FAC2": 4, "AF": 1, "TAP": 1, "mAF+SS": 1, "SS": 4}


def test_a_technique_that_took_longer_than_the_one_before_is_left() -> None:
    """By 3 %, which is less than its prediction was off by: that alone would not change the technique."""
    simulated, times = {"FAC2": 1.0, "mFSC": 2.0}, {"FAC2": 1.0, "mFSC": 1.03}
    selector = _by_simulation(T_LOOP, simulated)
    assert _told(selector, times, 3) == ["FAC2"] * 3
    simulated["mFSC"] = 0.5
    assert _told(selector, times, 3) == ["mFSC", "FAC2", "FAC2"]


def _by_simulation(goal: SelectionGoal, simulated: dict[str, float]) -> BySimulation:
    def trial(
        name: str, costs: CostSums, speeds: np.ndarray, until: float, rest: Rest | None
    ) -> tuple[float, float, int]:
        return min(simulated[name], 1.02 * until), simulated[name], 1

    return BySimulation(tuple(simulated), goal, SelectedLoop(8, 2), trial, 0, Effort(1, 1.0, 0.0))


def _told(selector: BySimulation, times: dict[str, float], steps: int) -> list[str]:
    chunks = ExecutedChunks(np.array([0, 1]), np.array([0, 4]), np.array([4, 4]), np.ones(2))
    names = []
    for _ in range(steps):
        names.append(selector.choose())
        selector.note(StepFacts(names[-1], times[names[-1]], times[names[-1]], chunks))
    return names


def test_simulation_learns_where_simulations_are_wrong() -> None:
    """Of two techniques that should take 1.0 and 1.01 s the first takes 1.1: the second is tried and kept."""
    simulated, times = {"FAC2": 1.0, "mFSC": 1.01, "SS": 9.0}, {"FAC2": 1.1, "mFSC": 1.01}
    assert _told(_by_simulation(T_LOOP, simulated), times, 8) == ["FAC2"] * 2 + ["mFSC"] * 6


def test_one_disturbed_step_is_forgotten() -> None:
    """FAC2's second time step is disturbed; it comes back, as the other one takes longer."""
    selector = _by_simulation(T_LOOP, {"FAC2": 1.0, "mFSC": 1.01})
    assert _told(selector, {"FAC2": 1.0, "mFSC": 1.05}, 1) == ["FAC2"]
    assert _told(selector, {"FAC2": 1.5, "mFSC": 1.05}, 1) == ["FAC2"]
    later = _told(selector, {"FAC2": 1.0, "mFSC": 1.05}, 40)
    assert later[0] == "mFSC"
    assert later[-1] == "FAC2"


def test_balance_is_not_corrected() -> None:
    simulated = {"FAC2": 1.0, "mFSC": 1.01}
    assert set(_told(_by_simulation(IMBALANCE, simulated), {"FAC2": 5.0, "mFSC": 1.0}, 6)) == {"FAC2"}


def test_what_simulating_takes_is_known_before_the_first_choice() -> None:
    """Where time is measured, the first choice comes once the loop has taken a hundred times as long."""
    begin = time.perf_counter()
    tried: list[str] = []

    def trial(
        name: str, costs: CostSums, speeds: np.ndarray, until: float, rest: Rest | None
    ) -> tuple[float, float, int]:
        tried.append(name)
        return 1.0, 0.0, 1

    selector = BySimulation(("FAC2", "GSS"), T_LOOP, SelectedLoop(8, 2), trial, 0, Effort(1, 0.01, None))
    selector.load()
    loaded = time.perf_counter() - begin
    tried.clear()
    assert _told(selector, {"FAC2": 1e-9}, 2) == ["FAC2"] * 2
    assert not tried
    _told(selector, {"FAC2": 1e3 * loaded, "GSS": 1.0}, 2)
    assert set(tried) == {"FAC2", "GSS"}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("model", ["cca", "dca"])
def test_every_step_is_executed_and_recorded(method: str, model: str) -> None:
    execution = ExecutionConfig(model=model, chunk_calculation=1e-6)
    found = run(COSTS["increasing"], SPEEDS["unequal"], 12, selection={"method": method}, execution=execution,
                record=True)  # fmt: skip
    assert found.rows is not None
    covered = np.zeros(12 * 4000, np.int64)
    for first, size in zip(found.rows.first, found.rows.size, strict=True):
        covered[first : first + size] += 1
    assert (covered == 1).all()
    assert len(found.selected) == 12
    portfolio = SelectionConfig().portfolio
    assert all(step.technique in portfolio for step in found.selected)
    begins = [step.begin for step in found.selected]
    assert begins == sorted(begins)
    total = found.busy + found.overhead + found.idle
    np.testing.assert_allclose(total, found.notified_at, rtol=1e-9)
    again = run(COSTS["increasing"], SPEEDS["unequal"], 12, selection={"method": method}, execution=execution)
    assert again.selected == found.selected
    assert again.t_loop == found.t_loop


@pytest.mark.parametrize("speeds", SPEEDS)
@pytest.mark.parametrize("costs", COSTS)
def test_simulation_is_near_the_best_and_takes_a_hundredth(costs: str, speeds: str) -> None:
    steps = 50
    found = run(COSTS[costs], SPEEDS[speeds], steps, selection={"method": "simulation"})
    best = min(
        run(COSTS[costs], SPEEDS[speeds], steps, technique=name).t_loop
        for name in SelectionConfig().portfolio
    )
    assert found.t_loop < 1.03 * best
    assert sum(step.spent for step in found.selected) <= 0.0101 * found.t_loop


def test_simulation_follows_a_change() -> None:
    """From the middle on four PEs run at a fifth: STATIC, best on equal PEs, is left after two time steps."""
    prefix_end = 4000 * 1e-4 / P
    slow = Perturbation(
        np.arange(P), np.array([0, *[0] * 4, 1, 2, 3, 4]), np.full(4, 10.5 * prefix_end), np.full(4, 0.2)
    )
    found = run(
        np.full(4000, 1e-4), SPEEDS["equal"], 20, selection={"method": "simulation"}, perturbation=slow
    )
    names = [step.technique for step in found.selected]
    changed = next(k for k, step in enumerate(found.selected) if step.imbalance > 10.0 and k > 2)
    assert names[changed - 1] == "STATIC"
    assert "STATIC" not in names[changed + 2 :]


def test_a_trial_for_balance() -> None:
    found = run(
        COSTS["increasing"], SPEEDS["unequal"], 10,
        selection={"method": "simulation", "goal": "imbalance", "portfolio": ("STATIC", "SS")},
    )  # fmt: skip
    assert {step.technique for step in found.selected[1:]} == {"SS"}


def test_awf_goes_on_learning_where_it_is_chosen() -> None:
    """With AWF alone worth taking, the weights of all steps so far count, whatever was chosen in them."""
    alone = run(COSTS["short"], SPEEDS["unequal"], 6, technique="AWF")
    found = run(
        COSTS["short"],
        SPEEDS["unequal"],
        6,
        selection={"method": "random", "portfolio": ("AWF", "FAC2")},
        seed=2,
    )
    late = [step for step in found.selected[2:] if step.technique == "AWF"]
    assert late
    assert min(step.t_loop for step in late) < alone.t_loop / 6 * 1.05


def test_speeds_of_pes_follow_from_known_costs() -> None:
    """2 s of work in 4 s, 3 s in 3 s, none: the last counts as the median of the others."""
    step = ExecutedChunks(np.array([0, 1]), np.array([0, 2]), np.array([2, 1]), np.array([4.0, 3.0]))
    costs = np.array([0.5, 1.5, 3.0])
    np.testing.assert_allclose(by_profile(costs, step, 3).speed, [0.5, 1.0, 0.75])
    np.testing.assert_allclose(by_profile(10 * costs, step, 3).speed, [5.0, 10.0, 7.5])


def test_with_the_profile_known_every_time_step_has_the_best_technique() -> None:
    """Costs that one time step with large chunks tells little of are known from the profile."""
    costs = np.where(np.arange(4000) % 1000 < 100, 4e-3, 1e-4)
    names = ("STATIC", "GSS", "TSS", "FAC2", "SS")
    speeds, prefix = SPEEDS["unequal"], prefix_sums(costs)
    alone = {name: simulate(prefix, speeds, LATENCY, name, DCA).t_loop for name in names}
    best = min(alone, key=lambda name: alone[name])
    known = {"method": "simulation", "portfolio": names, "share": 1.0}
    found = run(costs, speeds, 3, selection={**known, "costs": "profile"})
    assert [step.technique for step in found.selected] == [best] * 3
    t_loop = found.selected[0].t_loop
    assert t_loop == pytest.approx(alone[best], rel=1e-9)
    measured = run(costs, speeds, 3, selection=known)
    assert t_loop <= measured.selected[1].t_loop * (1 + 1e-9)


@pytest.mark.parametrize("costs", COSTS)
@pytest.mark.parametrize("speeds", SPEEDS)
def test_with_the_profile_known_the_first_time_step_is_chosen_by_simulation(costs: str, speeds: str) -> None:
    """On the platform's speeds; the time of the choice is charged, and within its share of the loop."""
    names = ("STATIC", "GSS", "FAC2", "SS")
    alone = [run(COSTS[costs], SPEEDS[speeds], 1, technique=name).t_loop for name in names]
    known = {"method": "simulation", "portfolio": names, "costs": "profile"}
    (first,) = run(COSTS[costs], SPEEDS[speeds], 1, selection={**known, "share": 1.0}).selected
    assert first.technique == names[alone.index(min(alone))]
    assert first.spent > 0.0
    (hurried,) = run(COSTS[costs], SPEEDS[speeds], 1, selection={**known, "share": 0.0}).selected
    assert hurried.technique == "FAC2"  # it alone is simulated: nothing says before what that takes
    assert 0.0 < hurried.spent < first.spent
    (measured,) = run(COSTS[costs], SPEEDS[speeds], 1, selection={**known, "costs": "measured"}).selected
    assert (measured.technique, measured.spent) == ("FAC2", 0.0)


@pytest.mark.parametrize("technique", ["AWF", "AWF-B", "AWF-C", "AWF-D", "AWF-E"])
@pytest.mark.parametrize("model", ["dca", "cca"])
def test_a_trial_begins_with_the_weights_that_the_time_step_begins_with(technique: str, model: str) -> None:
    """What is tried for the next time step is what it then takes, not what it takes with equal weights."""
    costs, speeds, latency = COSTS["short"], SPEEDS["unequal"], np.zeros(P)
    execution, prefix = ExecutionConfig(model=model), prefix_sums(costs)
    empty, known = StepHistory(P, selected=True), StepHistory(P, selected=True)
    known.add(np.full(P, 500), 500 * 2e-6 / speeds, forgets=False)

    def tried(history: StepHistory) -> float:
        columns = np.zeros(1), speeds, latency, np.zeros(P, np.int64)
        problem = Problem(*columns, 0.0, execution, ParametersConfig())
        return trial_by(problem, history)(technique, CostSums.of_each(prefix), speeds, 1e9, None)[0]

    step = simulate(prefix, speeds, latency, technique, execution, history=known)
    assert tried(known) == step.t_loop != tried(empty)
    if technique == "AWF":
        assert tried(known) < tried(empty)


def test_variants_of_awf_that_are_chosen_begin_with_learned_weights() -> None:
    """A fast PE's first chunk is 250·w iterations: w = 1 at first, later 2/1.3."""
    found = run(
        COSTS["short"], SPEEDS["unequal"], 4, record=True,
        selection={"method": "random", "portfolio": ("AWF-B", "AWF-D")},
    )  # fmt: skip
    rows = found.rows
    assert rows is not None
    biggest = [rows.size[rows.first // 4000 == step].max() for step in range(4)]
    assert biggest[0] == 250
    assert all(abs(size - 250 * 2 / 1.3) < 25 for size in biggest[1:])


def test_ended_early_it_keeps_what_was_before() -> None:
    whole = run(COSTS["increasing"], SPEEDS["equal"], 10, selection={"method": "exhaustive"})
    until = whole.selected[5].begin + 1e-3
    ended = run(COSTS["increasing"], SPEEDS["equal"], 10, selection={"method": "exhaustive"}, until=until)
    assert ended.selected[:5] == whole.selected[:5]
    assert len(ended.selected) == 6
    assert ended.notified_at.max() == pytest.approx(until)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InputError, match="FSC needs the standard deviation"):
        run(COSTS["short"], SPEEDS["equal"], 2, selection={"portfolio": ("FSC", "SS")})
    with pytest.raises(InputError, match="names two, and model dca has one level"):
        run(COSTS["short"], SPEEDS["equal"], 2, selection={"portfolio": ("GSS+SS", "SS")})


def test_imbalance_is_that_of_the_pages() -> None:
    assert percent_imbalance(np.array([1.0, 3.0])) == pytest.approx(100.0 / 3.0)
    assert percent_imbalance(np.zeros(3)) == 0.0
