"""Every planner: the worked example, checked plans, optimal objectives, and odd instances."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlsim.batch.cp.cp_solve import Control, Status, solve
from mlsim.batch.cp.experience import Experience
from mlsim.batch.cp.instance import Instance, SharedPart
from mlsim.batch.cp.instance_replay import Group, Replayed, group_of, instance_as_json, instance_from_json
from mlsim.batch.cp.plan import LATER, Plan, check_plan, least_makespan, reduce
from mlsim.batch.cp.planner import Solve
from mlsim.batch.cp.planning_dispatcher import easy, make_planner
from mlsim.errors import InputError
from mlsim.scenario import CpConfig
from mlsim.scenario.words import Dispatcher, PlanGoal
from tests.batch.cp.instances import arrival, best_cost, instance, worked_example
from tests.effort import examples

IN_MODEL = [Dispatcher.PCP19, Dispatcher.PCP4, Dispatcher.PCP21, Dispatcher.PCP21S]
EVERY = [word for word in Dispatcher if word.solves]
QUICK = CpConfig(time_limit=0.5, time_limit_max=1.0, solve_jobs=12)

quickly = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def plan_of(name: Dispatcher, problem: Instance, config: CpConfig = QUICK):
    plan, solve = make_planner(name, config).plan(problem)
    assert check_plan(problem, plan) == []
    return plan, solve


@pytest.mark.parametrize("name", [*IN_MODEL, Dispatcher.HCP19, Dispatcher.CP])
def test_worked_example(name: Dispatcher):
    plan, _ = plan_of(name, worked_example())
    assert plan.starting() == [0, 1]
    assert plan.nodes[0].tolist() == [1]
    assert sorted(plan.nodes[1].tolist()) == [2, 3]


def test_the_sources_count_of_variables():
    """hcp19 has a variable a job; pcp19 one more for each place of a unit (paper, section 2.2)."""
    problem = worked_example()
    sizes = {name: plan_of(name, problem)[1].variables for name in (Dispatcher.HCP19, Dispatcher.PCP19)}
    assert sizes == {Dispatcher.HCP19: 3, Dispatcher.PCP19: 3 + 2 + 4 + 2}


def test_size_of_pcp21_does_not_depend_on_nodes():
    few, many = (
        instance([[4, 4]] * n, [(0, 1, [4, 1], 9)], [(0, 2, [4, 2], 5), (0, 1, [2, 1], 7)]) for n in (3, 200)
    )
    assert plan_of(Dispatcher.PCP21, few)[1].variables == plan_of(Dispatcher.PCP21, many)[1].variables


amounts = st.integers(0, 2)
small = st.builds(
    instance,
    st.sampled_from([[[2, 2]] * 2, [[2, 1], [1, 2]], [[2, 2], [2, 2], [1, 0]]]),
    st.lists(st.tuples(st.integers(0, 1), st.just(1), st.just([1, 1]), st.integers(1, 4)), max_size=2).filter(
        lambda boxes: len({box[0] for box in boxes}) == len(boxes)
    ),
    st.lists(
        st.tuples(
            st.integers(-5, 0),
            st.integers(1, 2),
            st.tuples(st.integers(1, 2), amounts).map(list),
            st.integers(1, 4),
        ),
        min_size=1,
        max_size=4,
    ),
)


alike = st.builds(
    instance,
    st.just([[2]] * 3),
    st.lists(st.tuples(st.integers(0, 2), st.just(1), st.just([1]), st.integers(1, 4)), max_size=2),
    st.lists(
        st.tuples(st.integers(-5, 0), st.integers(1, 3), st.just([1]), st.integers(1, 4)),
        min_size=3,
        max_size=4,
    ),
)
"""Nodes that make no difference, as all units ask for the same."""


def cost_of(plan: Plan, problem: Instance) -> float:
    return float((plan.start / problem.queued.duration).sum())


def only_considered(problem: Instance) -> Instance:
    return problem.with_queued(np.sort(reduce(problem, 100).rows))


@st.composite
def sharing(draw):
    """The same with one or two amounts that the machine has as a whole."""
    problem = draw(small)
    capacity = np.array(draw(st.lists(st.integers(1, 4), min_size=1, max_size=2)))

    def rows(n: int) -> np.ndarray:
        each = st.tuples(*(st.integers(0, most) for most in capacity.tolist()))
        return np.array(draw(st.lists(each, min_size=n, max_size=n)), np.int64).reshape(n, len(capacity))

    held = rows(len(problem.running))
    while (held.sum(axis=0) > capacity).any():
        held //= 2
    if draw(st.booleans()):  # a cap that has fallen, perhaps below what is held
        capacity = np.array([draw(st.integers(0, most)) for most in capacity.tolist()])
    free, names = capacity - held.sum(axis=0), ("a", "b")[: len(capacity)]
    asked, remaining = rows(len(problem.queued)), problem.running.remaining
    return replace(problem, shared=SharedPart(names, capacity, free, asked, held, remaining))


def check_optimum(name: Dispatcher, problem: Instance) -> None:
    """Check that a planner with nodes in its model finds the best plan of all starts and nodes."""
    problem = only_considered(problem)
    plan, solve = plan_of(name, problem)
    if len(problem.queued):
        assert solve.status is Status.OPTIMAL
        assert cost_of(plan, problem) == pytest.approx(best_cost(problem))


@pytest.mark.parametrize("name", [Dispatcher.PCP19, Dispatcher.PCP4])
@quickly
@given(sharing())
def test_objective_with_shared_amounts_is_that_of_exhaustive_search(name: Dispatcher, problem: Instance):
    check_optimum(name, problem)


@pytest.mark.parametrize("name", EVERY)
@quickly
@given(sharing())
def test_every_plan_keeps_to_shared_amounts(name: Dispatcher, problem: Instance):
    plan_of(name, problem)


def assert_cp_finds_the_best_plan(problem: Instance):
    plan, solve = plan_of(Dispatcher.CP, problem, CpConfig(time_limit=1.0))
    fits = best_cost(problem)
    if math.isfinite(fits) and solve.status is not Status.EMPTY:
        assert solve.status is Status.OPTIMAL
        assert cost_of(plan, problem) == pytest.approx(fits)


@settings(max_examples=examples(30), deadline=None)
@given(sharing())
def test_cp_finds_the_best_plan_with_shared_amounts(problem: Instance):
    assert_cp_finds_the_best_plan(problem)


@settings(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(sharing())
def test_no_optimum_with_shared_amounts_can_be_beaten(problem: Instance):
    check_claims(problem)


def test_amounts_of_a_goal_count_like_nodes():
    """Two licences and four nodes: each job holds one, so that no more than two run at a time."""
    one = np.ones((4, 1), np.int64)
    part = SharedPart(("a",), np.array([2]), np.array([2]), one, one[:0], one[:0, 0])
    problem = replace(instance([[1]] * 4, [], [(0, 1, [1], d) for d in (2, 2, 3, 3)]), shared=part)
    for name in (Dispatcher.CP, Dispatcher.LISTS):
        plan, solve = plan_of(name, problem, CpConfig(time_limit=1.0, goal=PlanGoal.MAKESPAN))
        assert (plan.start + problem.queued.duration).max() == solve.objective == solve.bound == 5
    assert least_makespan(problem) == 5


@settings(max_examples=60, deadline=None)
@given(sharing())
def test_easy_keeps_to_shared_amounts(problem: Instance):
    assert check_plan(problem, easy(problem)) == []


@pytest.mark.parametrize("name", [Dispatcher.PCP19, Dispatcher.PCP4])
@quickly
@given(small)
def test_objective_is_that_of_exhaustive_search(name: Dispatcher, problem: Instance):
    check_optimum(name, problem)


def check_positions(problem: Instance) -> None:
    """Check that boxes cost no less than nodes.

    A unit's pieces lie side by side in pcp21, on the same positions all the time, which can cost time.
    It cannot where nobody asks for more than one piece: intervals of one piece that never overlap more than
    there are positions can always be given positions, those that run already first.
    """
    problem = only_considered(problem)
    costs = []
    for name in (Dispatcher.PCP21, Dispatcher.PCP21S):
        plan, solve = plan_of(name, problem)
        costs.append(cost_of(plan, problem))
        if len(problem.queued):
            assert solve.status is Status.OPTIMAL
            assert costs[-1] >= best_cost(problem) - 1e-9
            if problem.queued.request.max() <= 1:
                assert costs[-1] == pytest.approx(best_cost(problem))
    assert costs[0] == pytest.approx(costs[1])


@quickly
@given(small)
def test_positions_cost_no_less_than_nodes(problem: Instance):
    check_positions(problem)


def check_pooled(problem: Instance) -> None:
    """Check what hcp19 calls optimal: it is so on one big node. A cap may say more."""
    problem = only_considered(problem)
    _, solve = plan_of(Dispatcher.HCP19, problem)
    if len(problem.queued):
        queued = problem.queued
        constant = float(((problem.now - queued.arrival + queued.duration) / queued.duration).sum())
        least = best_cost(problem, pooled=True) + constant
        assert least - 1e-6 <= solve.objective <= best_cost(problem) + constant + 1e-6
        assert problem.power or solve.objective == pytest.approx(least)


@quickly
@given(small)
def test_pooled_objective_is_that_of_one_big_node(problem: Instance):
    check_pooled(problem)


@settings(max_examples=60, deadline=None)
@given(small)
def test_cp_is_optimal_where_it_says_so(problem: Instance):
    plan, solve = plan_of(Dispatcher.CP, problem)
    fits = best_cost(problem)
    if math.isinf(fits) or solve.status is Status.EMPTY:
        return
    assert cost_of(plan, problem) >= fits - 1e-9
    if solve.status is Status.OPTIMAL:
        assert cost_of(plan, problem) == pytest.approx(fits)


@settings(max_examples=examples(30), deadline=None)
@given(small)
def test_cp_finds_the_best_plan_of_a_small_instance(problem: Instance):
    assert_cp_finds_the_best_plan(problem)


MEANS = [goal for goal in PlanGoal if goal is not PlanGoal.MAKESPAN]


def weights_of(problem: Instance, goal: PlanGoal, by_size: bool) -> np.ndarray:
    """What a second of waiting costs by each goal, from their definitions."""
    queued = problem.queued
    each = {
        PlanGoal.SLOWDOWN: 1.0 / queued.duration,
        PlanGoal.BOUNDED_SLOWDOWN: 1.0 / np.maximum(queued.duration, 10),
        PlanGoal.WAIT: np.ones(len(queued)),
    }[goal]
    asked = queued.request * queued.units[:, None] / np.maximum(problem.capacity.sum(axis=0), 1)
    return each * asked.max(axis=1) if by_size else each


@pytest.mark.parametrize("by_size", [False, True])
@pytest.mark.parametrize("goal", MEANS)
@settings(max_examples=examples(10), deadline=None)
@given(small)
def test_the_best_plan_by_each_goal_is_that_of_exhaustive_search(
    goal: PlanGoal, by_size: bool, problem: Instance
):
    """Durations go beyond 10 s, below which bounded slowdown counts no job as shorter."""
    problem = replace(problem, queued=replace(problem.queued, duration=problem.queued.duration * 7))
    config = CpConfig(time_limit=1.0, goal=goal, by_size=by_size)
    plan, solve = plan_of(Dispatcher.CP, problem, config)
    weights = weights_of(problem, goal, by_size)
    best = best_cost(problem, weights=weights)
    if math.isinf(best) or solve.status is Status.EMPTY:
        return
    assert float(weights @ plan.start) == pytest.approx(best)
    assert solve.status is Status.OPTIMAL
    assert solve.bound == pytest.approx(solve.objective)
    so_far = problem.now - problem.queued.arrival
    so_far = so_far if goal is PlanGoal.WAIT else so_far + problem.queued.duration
    assert solve.objective == pytest.approx(float(weights @ so_far) + best)


def check_makespan(problem: Instance) -> None:
    """Check what cp proves is the least, what lists claims is, and that no bound is above it."""
    best = best_cost(problem, makespan=True)
    for name in (Dispatcher.CP, Dispatcher.LISTS):
        plan, solve = plan_of(name, problem, CpConfig(time_limit=1.0, goal=PlanGoal.MAKESPAN))
        if math.isinf(best) or solve.status is Status.EMPTY:
            continue
        assert solve.objective == (plan.start + problem.queued.duration).max() >= best
        assert least_makespan(problem) <= solve.bound <= best
        if name is Dispatcher.CP or solve.status is Status.OPTIMAL:
            assert (solve.objective, solve.bound, solve.status) == (best, best, Status.OPTIMAL)


@settings(max_examples=examples(30), deadline=None)
@given(small | sharing())
def test_the_least_makespan_is_that_of_exhaustive_search(problem: Instance):
    check_makespan(problem)


def test_a_batch_ends_earlier_where_its_makespan_is_the_goal():
    """Two nodes, three jobs of 2 s and two of 3 s: by the mean the short ones go first, and one is left."""
    problem = instance([[1]] * 2, [], [(0, 1, [1], d) for d in (2, 2, 2, 3, 3)])
    ends = {}
    for goal in (PlanGoal.WAIT, PlanGoal.MAKESPAN):
        plan, _ = plan_of(Dispatcher.CP, problem, CpConfig(time_limit=1.0, goal=goal))
        ends[goal] = int((plan.start + problem.queued.duration).max())
    assert ends == {PlanGoal.WAIT: 7, PlanGoal.MAKESPAN: 6}


@pytest.mark.parametrize("jobs", [30, 100])
def test_the_makespan_of_many_jobs_is_no_longer_than_that_of_other_goals(jobs: int):
    problem, ends = many(jobs), {}
    for goal in PlanGoal:
        for name in (Dispatcher.LISTS, Dispatcher.CP):
            plan, solve = plan_of(name, problem, CpConfig(goal=goal))
            ends[goal, name] = int((plan.start + problem.queued.duration).max())
    least = ends[PlanGoal.MAKESPAN, Dispatcher.CP]
    assert solve.bound <= least == solve.objective
    assert least <= ends[PlanGoal.MAKESPAN, Dispatcher.LISTS]
    assert least <= min(ends.values())


def test_no_size_where_the_last_job_counts():
    with pytest.raises(ValueError, match="by_size"):
        CpConfig(goal=PlanGoal.MAKESPAN, by_size=True)


@settings(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(small)
def test_no_dispatcher_claims_an_optimum_that_can_be_beaten(problem: Instance):
    check_claims(problem)


def check_claims(problem: Instance) -> None:
    """Check every plan; what is called optimal costs what exhaustive search over its jobs finds."""
    considered = only_considered(problem)
    best, pooled = best_cost(considered), best_cost(considered, pooled=True)
    for name in EVERY:
        plan, solve = plan_of(name, considered, CpConfig(time_limit=0.2, time_limit_max=0.2))
        if solve.status is not Status.OPTIMAL:
            continue
        if name in (Dispatcher.PCP19, Dispatcher.PCP4, Dispatcher.CP, Dispatcher.LISTS):
            assert cost_of(plan, considered) == pytest.approx(best)
        elif name in (Dispatcher.PCP21, Dispatcher.PCP21S):  # stricter than the machine
            assert cost_of(plan, considered) >= best - 1e-9
        elif name is Dispatcher.HCP19 and solve.unplaced == 0:  # on the pool of all nodes
            assert pooled - 1e-9 <= cost_of(plan, considered) <= best + 1e-9
            assert considered.power or cost_of(plan, considered) == pytest.approx(pooled)


@pytest.mark.parametrize(
    ("name", "seed"),
    [(Dispatcher.CP, 26), (Dispatcher.CP, 37), (Dispatcher.PCP19, 25), (Dispatcher.PCP4, 38)],
)
def test_nothing_is_claimed_that_rounded_weights_hide(name: Dispatcher, seed: int):
    """90 jobs of a second, which start at once, and four of weeks: in integers these weigh alike."""
    rng = np.random.default_rng(seed)
    weeks = [
        (
            0,
            int(rng.integers(1, 3)),
            [int(rng.choice([20, 30, 31, 45]))],
            int(rng.choice([1, 3, 5, 10])) * 10**6,
        )
        for _ in range(4)
    ]
    nodes = [[60], [60]]
    # Beside them the long ones wait for a second.
    least = 94 + best_cost(instance(nodes, [], weeks))
    most = least + 4e-6
    config = CpConfig(time_limit=0.5, time_limit_max=0.5)
    _, solve = plan_of(name, instance(nodes, [], [(0, 1, [1], 1)] * 90 + weeks), config)
    assert solve.considered == 94
    assert solve.bound <= min(most, solve.objective) + 1e-9
    if solve.status is Status.OPTIMAL:
        assert solve.objective <= most * (1 + 1e-5)


def test_bounds_of_early_versions_are_none():
    """They make another sum small, of which a proof says nothing of slowdowns."""
    problem = instance([[4]], [(0, 2, [1], 9)], [(0, 2, [1], 5), (0, 2, [1], 6), (0, 3, [1], 2)])
    for name in (Dispatcher.HCP1, Dispatcher.HCP2, Dispatcher.PCP1, Dispatcher.PCP2):
        _, solve = plan_of(name, problem)
        assert solve.status is Status.OPTIMAL
        assert math.isnan(solve.bound)


@settings(max_examples=40, deadline=None)
@given(small)
def test_easy_gives_a_plan_that_fits(problem: Instance):
    plan = easy(problem)
    assert check_plan(problem, plan) == []
    first = reduce(problem.with_queued(np.array([0])), 1)
    assert not len(first.rows) or plan.start[0] == 0


@pytest.mark.parametrize("name", EVERY)
@quickly
@given(small)
def test_every_plan_is_checked(name: Dispatcher, problem: Instance):
    plan_of(name, problem)


@pytest.mark.parametrize("name", EVERY)
def test_odd_instances(name: Dispatcher):
    full = instance([[2]] * 2, [(0, 2, [1], 5), (1, 2, [1], 5)], [(0, 1, [1], 3)])
    plan, solve = plan_of(name, full)
    assert (plan.starting(), solve.status) == ([], Status.EMPTY)
    one = instance([[2]] * 2, [], [(0, 1, [1], 1)])
    assert plan_of(name, one)[0].starting() == [0]
    nobody = instance([[2]] * 2)
    assert plan_of(name, nobody)[0].starting() == []
    never = instance([[2]] * 2, [], [(0, 1, [3], 5), (0, 1, [1], 5)])
    assert plan_of(name, never)[0].starting() == [1]


def test_experience_counts_types_that_no_possible_job_asks_for():
    """A job waits for nodes that are down, and no job asks for the second type, of which jobs did before."""
    problem = instance([[4, 2]] * 2, [], [(0, 3, [3, 0], 5), (0, 1, [1, 0], 5)])
    planner = make_planner(Dispatcher.LISTS, QUICK)
    planner.experience = Experience()
    planner.experience.observe(arrival(0, [1, 1]))
    assert planner.plan(problem)[0].starting() == [1]


@pytest.mark.parametrize(
    "name", [Dispatcher.HCP19, Dispatcher.CP, pytest.param(Dispatcher.PCP21S, marks=pytest.mark.slow)]
)
def test_many_jobs_and_a_wide_one(name: Dispatcher):
    config = CpConfig(time_limit=0.05, time_limit_max=0.05)
    jobs = [(k * 0.001, 1 + k % 7, [4, 8], 10 + k % 50) for k in range(1000)]
    plan, solve = plan_of(name, instance([[20, 64]] * 60, [], jobs, now=1.0), config)
    # As many as have a model within the limit, where it grows with units; as can be listed in half of it.
    considered = {Dispatcher.HCP19: (100, 100), Dispatcher.CP: (101, 300), Dispatcher.PCP21S: (2, 100)}[name]
    assert considered[0] <= solve.considered <= considered[1]
    assert plan.starting() or solve.status is Status.UNKNOWN
    wide = instance([[20, 64]] * 1152, [], [(0, 1152, [20, 64], 100), (0, 1, [1, 1], 5)])
    plan, solve = plan_of(name, wide, config)
    assert plan.starting() or solve.status is Status.UNKNOWN


def test_no_time_is_no_crash():
    wide = instance([[20, 64]] * 40, [(0, 1, [1, 1], 50)], [(0, 20, [20, 64], 90 + k) for k in range(8)])
    for deterministic in (True, False):
        config = CpConfig(time_limit=1e-9, time_limit_max=1e-9, deterministic=deterministic)
        for name in EVERY:
            plan_of(name, wide, config)


def test_version_1_is_infeasible_where_a_late_job_shrinks_the_horizon():
    problem = instance([[1], [1]], [(0, 1, [1], 1)], [(0, 1, [1], 5)])
    late = replace(problem, running=replace(problem.running, late=np.array([100])))
    for one, two in ((Dispatcher.HCP1, Dispatcher.HCP2), (Dispatcher.PCP1, Dispatcher.PCP2)):
        assert plan_of(one, late)[1].status is Status.INFEASIBLE
        assert plan_of(two, late)[0].starting() == [0]


def test_extensions_go_on_until_proof_or_the_last_limit():
    jobs = [(0, 1 + k % 3, [2 + k % 3], 7 + 3 * k) for k in range(25)]
    problem = instance([[4]] * 6, [(0, 1, [2], 9)], jobs)
    config = CpConfig(time_limit=0.02, time_limit_max=0.2, extensions=50)
    _, solve = plan_of(Dispatcher.PCP19, problem, config)
    assert solve.extensions == 4  # 1, 2, 4, 8, 10 times the first limit
    _, wall = plan_of(Dispatcher.PCP19, problem, config.model_copy(update={"deterministic": False}))
    assert wall.status is not Status.INFEASIBLE


def test_the_same_answers_twice():
    rng = np.random.default_rng(1)
    drawn = rng.integers([1, 1, 5], [4, 4, 99], (20, 3)).tolist()
    jobs = [(0, units, [each], duration) for units, each, duration in drawn]
    problem = instance([[4]] * 5, [(1, 1, [3], 20)], jobs)
    config = CpConfig(time_limit=0.05, time_limit_max=0.1)
    for name in (Dispatcher.CP, Dispatcher.HCP19, Dispatcher.PCP4, Dispatcher.PCP21):
        (plan, solve), (again, other) = (plan_of(name, problem, config) for _ in range(2))
        assert plan.start.tolist() == again.start.tolist()
        assert (solve.branches, solve.objective) == (other.branches, other.objective)


def test_a_wide_job_that_has_waited_comes_first():
    """Short jobs would fill the machine for ever; past the patience the wide job has its start reserved."""
    jobs = [(-1000.0, 4, [1], 50), *((0.0, 1, [1], 10) for _ in range(30))]
    problem = instance([[1]] * 4, [(0, 1, [1], 5)], jobs)
    eager = CpConfig(patience=500.0)
    plan, _ = plan_of(Dispatcher.CP, problem, eager)
    assert plan.start[0] == 5
    assert plan.starting() == []
    assert len(plan_of(Dispatcher.CP, problem)[0].starting()) == 3


def test_cp_keeps_off_nodes_with_what_others_ask_for():
    """Half of the arrivals ask for a GPU: who does not goes to the node without, though both are as full."""
    problem = instance([[4, 2], [4, 0]], [], [(0, 1, [2, 0], 9)], ("cores", "gpu"))
    planner = make_planner(Dispatcher.CP, QUICK)
    assert planner.plan(problem)[0].nodes[0].tolist() == [0]
    planner.experience = Experience()
    for number in range(4):
        planner.experience.observe(arrival(number, [1, number % 2]))
    assert planner.plan(problem)[0].nodes[0].tolist() == [1]


@pytest.mark.parametrize(
    ("units", "request_", "reserve", "waited", "start"),
    [
        (4, [1, 0], 0.5, 0.0, 50),
        (4, [1, 0], 0.2, 0.0, 0),  # a fifth of four nodes is none
        (4, [1, 1], 0.5, 0.0, 0),  # it asks for a GPU
        (4, [1, 0], 0.5, 11.0, 0),  # it has lost its patience
        (8, [1, 0], 0.5, 0.0, 50),
    ],
)
def test_cp_keeps_some_nodes_for_those_who_ask_for_what_they_have(units, request_, reserve, waited, start):
    """All arrivals ask for a GPU; two of four nodes with one are free, and no other. A sixth is down."""
    nodes = [[4, 4], [4, 4], [4, 4], [4, 4], [4, 0], [0, 0]]
    boxes = [(node, 4, [1, 0], 50) for node in (0, 1, 4)]
    problem = instance(nodes, boxes, [(0.0, units, request_, 9)], ("cores", "gpu"), now=waited)
    planner = make_planner(Dispatcher.CP, CpConfig(reserve=reserve, patience=10.0))
    planner.experience = Experience()
    for number in range(4):
        planner.experience.observe(arrival(number, [1, 1]))
    assert planner.plan(problem)[0].start.tolist() == [start]
    wide = instance(nodes, [], [(0.0, 13, [1, 0], 9)], ("cores", "gpu"))
    assert planner.plan(wide)[0].starting() == [0], "elsewhere it would not fit on an empty machine"


def test_of_jobs_that_have_waited_long_one_start_is_kept_where_estimates_are_not_trusted():
    """Two wide jobs wait; a long one ends before the second, which has waited less, is to start."""
    jobs = [(0.0, 4, [1], 10), (1.0, 4, [1], 10), (8.0, 1, [1], 16)]
    problem = instance([[1]] * 5, [(0, 1, [1], 5), (1, 1, [1], 5)], jobs, now=8.0)
    planner = make_planner(Dispatcher.CP, QUICK)
    planner.experience = Experience()
    assert planner.plan(problem)[0].starting() == [2]


def test_starts_are_kept_where_estimates_are_right_or_the_wait_is_long():
    """A later job ends after the start of a wide one, which it delays unless that start is kept."""
    jobs = [(0.0, 4, [1], 10), (0.0, 1, [1], 1000)]
    boxes = [(0, 1, [1], 5)]
    for waited, starting in ((0.0, [1]), (4.0, [1]), (5.0, [])):
        problem = instance([[1]] * 4, boxes, jobs, now=waited)
        planner = make_planner(Dispatcher.CP, QUICK)
        assert planner.plan(problem)[0].starting() == []
        planner.experience = Experience()  # nothing is known of estimates
        assert planner.plan(problem)[0].starting() == starting


def test_the_checker_finds_what_is_wrong():
    problem = worked_example()
    nowhere = (None, None, None)
    assert "starts now on no nodes" in check_plan(problem, Plan(np.array([0, LATER, LATER]), nowhere))[0]
    full = Plan(np.array([0, LATER, LATER]), (np.array([0]), None, None))
    assert check_plan(problem, full) == ["after 0 s: node 0: 7 of 4 memory", "after 0 s: node 0: 3 of 2 gpu"]
    short = Plan(np.array([LATER, 0, LATER]), (None, np.array([2]), None))
    assert check_plan(problem, short) == ["job 101 has 2 units and nodes for 1"]
    three, asked = np.array([3]), np.array([[2], [2], [0]])
    # What runs holds more than there is, and the third job asks for none.
    part = SharedPart(("a",), three, three - 4, asked, np.array([[4]]), np.array([9]))
    capped = replace(problem, shared=part)
    assert check_plan(capped, Plan(np.array([LATER, LATER, 5]), nowhere)) == []
    both = Plan(np.array([9, 9, LATER]), nowhere)
    assert check_plan(capped, both) == ["after 9 s: 4 of 3 a"]
    assert check_plan(capped, Plan(np.array([5, LATER, LATER]), nowhere)) == ["after 5 s: 6 of 3 a"]
    outside = Plan(np.array([0, LATER, LATER]), (np.array([7]), None, None))
    assert check_plan(problem, outside) == ["job 100 on node 7 of 4"]


def test_json_there_and_back():
    data = instance_as_json(worked_example())
    assert instance_as_json(instance_from_json(data)) == data
    row = np.array([[1]])
    part = SharedPart(("a",), row[0] * 3, row[0] * 2, np.repeat(row, 3, axis=0), row, row[0])
    data = instance_as_json(replace(worked_example(), shared=part))
    assert instance_as_json(instance_from_json(data)) == data
    with pytest.raises(InputError, match="line 3: no 'running'"):
        instance_from_json({"now": 1.0, "resources": []}, "line 3")
    with pytest.raises(InputError, match=r"queued\.duration: allowed: .*, 1 and more; there is 0"):
        instance_from_json(data | {"queued": data["queued"] | {"duration": [1, 0, 1]}})


@pytest.mark.parametrize(
    ("section", "key", "value", "words"),
    [
        (None, "now", "x", "now: allowed: a list of numbers"),
        (None, "resources", 5, "resources: allowed: a list of names"),
        (
            None,
            "capacity",
            [[4, 4, 2, -5]] * 4,
            "capacity: allowed: rows of 4 whole numbers, 0 and more, one a ",
        ),
        (None, "capacity", [[4, 4]] * 8, "capacity: allowed: rows of 4 whole numbers"),
        (None, "capacity", [[2**62, 4, 2, 0]] * 4, "capacity: allowed: numbers whose sum, with units, stays"),
        (None, "free", [[4, 4, 2, 0]] * 4, "free: node 0, cores: 4 free and 1 held of 4"),
        (None, "queued", [], "queued: allowed: columns by name"),
        ("queued", "ewt", math.nan, "queued.ewt: allowed: a list of numbers"),
        ("queued", "ewt", [1.0, 0.0, 1.0], "queued.ewt: allowed: numbers above 0"),
        ("queued", "units", [1, 1.5, 1], "queued.units: allowed: a list of whole numbers, 1 and more"),
        ("queued", "units", [1, True, None], "queued.units: allowed: a list of whole numbers, 1 and more"),
        ("queued", "units", [1, 0, 1], "queued.units: allowed: .*; there is 0"),
        ("queued", "duration", [2**62] * 3, "queued.duration: allowed: times whose sum stays below 2"),
        ("queued", "request", [[1, 2], [3]], "queued.request: allowed: rows of 4"),
        ("running", "units", [-(2**63)], "running.units: allowed: a list of whole numbers, 1 and more"),
        ("running", "node", [4], "running.node: allowed: 0 to 3"),
        ("shared", "names", 5, "shared.names: allowed: a list of names"),
        ("shared", "held", [[1], [1]], "shared.held: allowed: a row for each number of shared.remaining"),
        ("shared", "free", [1, 2], "shared.free, shared.capacity: allowed: 1 whole numbers"),
    ],
)
def test_what_is_no_instance_is_named(section: str | None, key: str, value: object, words: str) -> None:
    one = np.array([[1]])
    part = SharedPart(("a",), one[0] * 3, one[0] * 2, np.repeat(one, 3, axis=0), one, one[0])
    data = instance_as_json(replace(worked_example(), shared=part))
    (data if section is None else data[section])[key] = value
    with pytest.raises(InputError, match=f"line 3: not an instance: {words}"):
        instance_from_json(data, "line 3")


@pytest.mark.parametrize("deterministic", [True, False])
def test_numbers_that_cp_sat_does_not_take_are_named(deterministic: bool) -> None:
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    model.add(10**18 * model.new_int_var(0, 100, "x") + model.new_int_var(0, 9, "y") == 3)
    with pytest.raises(
        InputError, match="CP-SAT does not take the model of a pass: Possible integer overflow"
    ):
        solve(model, Control(deterministic=deterministic), fixed_search=False)


@pytest.mark.parametrize("deterministic", [True, False])
def test_limits_of_ages_are_taken(deterministic: bool):
    problem = instance([[2]], [(0, 1, [1], 4)], [(0, 1, [1], 5), (0, 1, [2], 9), (0, 2, [1], 3)])
    config = CpConfig(time_limit=9e15, time_limit_max=9e15, deterministic=deterministic)
    for name in (Dispatcher.CP, Dispatcher.HCP19):
        assert plan_of(name, problem, config)[1].status is Status.OPTIMAL


def test_a_wait_of_ages_may_be_expected():
    problem = instance([[2]], [(0, 1, [1], 4)], [(0, 1, [1], 5), (0, 1, [2], 9)])
    problem = replace(problem, queued=replace(problem.queued, ewt=np.array([1e300, 1.0])))
    for name in (Dispatcher.PCP1, Dispatcher.PCP2):
        assert plan_of(name, problem)[1].status is Status.OPTIMAL


def test_building_counts_against_limits():
    """By the clock, or as the size of the model tells it where answers have to repeat."""
    left = Control(0.5, 2.0, deterministic=False).after(0.25, 9.0)
    assert (left.limit, left.last_limit) == (0.25, 1.75)
    left = Control(0.5, 2.0).after(9.0, 0.25)
    assert (left.limit, left.last_limit) == (0.25, 1.75)
    none = Control(0.5, 2.0).after(9.0, 9.0)
    assert (none.limit, none.last_limit) == pytest.approx((0.05, 0.2))


def many(jobs: int, nodes: int = 64) -> Instance:
    """Jobs of some units that queue on a machine of many nodes."""
    rng = np.random.default_rng(jobs)
    rows = rng.integers([1, 1, 30], [9, 9, 8000], (jobs, 3)).tolist()
    boxes = [(node, 1, [8, 8], 100 + 7 * node) for node in range(nodes)]
    asks = [(-9.0 * k, units, [each, each], d) for k, (units, each, d) in enumerate(rows)]
    return instance([[16, 16]] * nodes, boxes, asks)


@pytest.mark.parametrize("name", [Dispatcher.PCP19, Dispatcher.PCP4, Dispatcher.PCP21, Dispatcher.PCP1])
def test_a_model_has_no_more_jobs_than_can_be_built_within_the_limit(name: Dispatcher):
    problem = many(60)
    short, long = (
        make_planner(name, CpConfig(time_limit=limit, time_limit_max=limit)).plan(problem)[1]
        for limit in (0.01, 0.5)
    )
    assert 1 <= short.considered < long.considered
    assert 10e-6 * (short.variables + short.constraints) < 0.02


def test_all_that_wait_are_searched_in_a_few_passes():
    """Each pass searches the first neighbourhood, and others in turn."""
    planner = make_planner(Dispatcher.CP, QUICK)
    order = np.arange(100)
    seen: set[int] = set()
    for _ in range(4):
        chosen = planner._neighbourhoods(order, 3)
        assert chosen[0].tolist() == list(range(20))
        assert len(chosen) == 3
        seen |= {int(job) for free in chosen for job in free}
    assert seen == set(range(100))


SHORT = CpConfig(time_limit=1e-6, jobs=2)
"""Two jobs are planned for at most."""


@pytest.mark.parametrize("limit", [1e-6, 0.02])
@pytest.mark.parametrize("waiting", [101, 1000])
def test_all_that_wait_are_planned_for_in_a_few_passes(waiting: int, limit: float):
    """The first of the order in each pass, others in turn; as many as can be listed within the limit."""
    planner = make_planner(Dispatcher.CP, CpConfig(time_limit=limit))
    seen: set[int] = set()
    for _ in range(100):
        chosen = planner.planned(waiting, 64).tolist()
        assert chosen == sorted(set(chosen))
        assert chosen[:90] == list(range(90))
        assert len(chosen) == 100 if limit < 0.01 else 101 <= len(chosen) <= 130
        seen |= set(chosen)
    assert seen == set(range(waiting))


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(small | sharing() | alike)
def test_jobs_beyond_those_planned_for_start_if_they_fit(problem: Instance):
    """Where all that is planned for starts now, nobody who waits on fits on what is left.

    Beyond two that are planned for two more are tried, which are all.
    """
    plan, solve = plan_of(Dispatcher.CP, problem, SHORT)
    queued = problem.queued
    planned = plan.start >= 0
    if solve.status is Status.EMPTY or (plan.start > 0).any():
        return
    assert solve.considered <= 2
    asked_in_all = problem.shared.asked_by(len(queued))
    free, left = problem.free.copy(), problem.shared.free - asked_in_all[planned].sum(axis=0)
    for job in np.flatnonzero(planned).tolist():
        np.subtract.at(free, plan.nodes[job], queued.request[job])
    for job in np.flatnonzero(~planned).tolist():
        asked = queued.request[job] > 0
        units = (free[:, asked] // queued.request[job, asked]).min(axis=1, initial=10).clip(0).sum()
        asks = asked_in_all[job]
        assert units < queued.units[job] or ((asks > left) & (asks > 0)).any()


def test_a_job_that_never_fits_keeps_nobody_beyond_from_starting():
    """The two smallest are planned for; one of them asks for more than any node has."""
    jobs = [(0, 1, [3], 1), (0, 1, [1], 2), (0, 1, [1], 50), (0, 1, [1], 60)]
    plan, _ = plan_of(Dispatcher.CP, instance([[2], [2]], [(0, 1, [1], 5)], jobs), SHORT)
    assert plan.start[0] == LATER
    assert plan.starting() == [1, 2, 3]


def check_bounds(problem: Instance) -> None:
    """Check that no plan costs less than the bound that is recorded with a plan."""
    best = best_cost(problem)
    for name in (Dispatcher.CP, Dispatcher.LISTS):
        plan, solve = plan_of(name, problem)
        if solve.status is Status.EMPTY or math.isinf(best):
            continue
        queued = problem.queued
        so_far = float(((problem.now - queued.arrival + queued.duration) / queued.duration).sum())
        assert solve.bound <= so_far + best + 1e-6
        assert solve.bound <= solve.objective + 1e-6
        assert cost_of(plan, problem) >= best - 1e-9
        if solve.status is Status.OPTIMAL:
            assert solve.bound == pytest.approx(solve.objective)


@quickly
@given(small | sharing())
def test_bounds_of_ours_hold(problem: Instance):
    check_bounds(problem)


@pytest.mark.parametrize(("considered", "expected"), [(3, 5.0), (2, float("nan"))])
def test_a_plan_for_fewer_jobs_is_not_compared_with_others(considered: int, expected: float) -> None:
    """Its sum of slowdowns is smaller for that; a dispatcher that could not build more would look better."""
    solve = Solve(queued=3, considered=considered, status=Status.FEASIBLE, objective=5.0)
    one = Replayed(0, Dispatcher.PCP19, solve, ())
    assert one.objective == pytest.approx(expected, nan_ok=True)
    whole = Replayed(0, Dispatcher.LISTS, Solve(3, 3, status=Status.FEASIBLE, objective=6.0), ())
    assert (group_of(one, whole) is Group.UNSOLVED) == (considered < 3)
