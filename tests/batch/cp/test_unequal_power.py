"""Planners under a cap on nodes that add unequal power: plans, claims of optima, and whole runs."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlsim.batch.cp.cp_solve import Status
from mlsim.batch.cp.experience import Experience
from mlsim.batch.cp.instance import NO_PLACE, Instance, PowerPart
from mlsim.batch.cp.instance_replay import instance_as_json, instance_from_json
from mlsim.batch.cp.plan import LATER, Plan, check_plan, pool_limits, reduce
from mlsim.batch.cp.planning_dispatcher import easy, make_planner
from mlsim.errors import InputError
from mlsim.record import JobState
from mlsim.scenario import CpConfig, from_mapping
from mlsim.scenario.words import Dispatcher
from tests.batch.builders import block, simulate
from tests.batch.cp.instances import arrival, instance
from tests.batch.cp.test_planners import (
    EVERY,
    IN_MODEL,
    SHORT,
    assert_cp_finds_the_best_plan,
    check_bounds,
    check_claims,
    check_makespan,
    check_optimum,
    check_pooled,
    check_positions,
    plan_of,
    quickly,
    sharing,
    small,
)
from tests.batch.cp.test_power_cap import beyond, by, seen_instances
from tests.batch.test_power import POWER, group, node_power, power_options, powered, records_of
from tests.effort import examples


def with_power(problem: Instance, of_node, free: int, counts=None) -> Instance:
    """The same under a cap; a unit counts as one node, unless said."""
    running, queued = problem.running, problem.queued
    of_node = np.array(of_node, np.int64)
    counts = np.ones(len(queued), np.int64) if counts is None else np.array(counts, np.int64)
    held = running.units * of_node[running.node]
    part = PowerPart.of(
        of_node, free, counts, held, running.remaining, queued.units, queued.request, problem.capacity
    )
    return replace(problem, power=part)


@st.composite
def unequal(draw) -> Instance:
    """Small instances, some with amounts of the whole machine, on nodes of which each adds what it likes."""
    problem = draw(small | sharing())
    of_node = draw(st.lists(st.integers(0, 3), min_size=problem.n_nodes, max_size=problem.n_nodes))
    counts = draw(st.sampled_from([np.ones(len(problem.queued), np.int64), problem.queued.request[:, 0]]))
    return with_power(problem, of_node, draw(st.integers(0, 8)), counts)


def least_by_trying(problem: Instance, job: int, room: np.ndarray) -> float:
    """Try all ways to put the units of a job on nodes; infinity if none fits."""
    queued, power, best = problem.queued, problem.power, np.inf
    for nodes in combinations_with_replacement(range(problem.n_nodes), int(queued.units[job])):
        asked = np.zeros_like(room)
        np.add.at(asked, list(nodes), queued.request[job])
        if (asked <= room).all():
            best = min(best, power.counts[job] * power.of_node[list(nodes)].sum())
    return best


@settings(max_examples=examples(60), deadline=None)
@given(unequal())
def test_what_a_job_adds_at_least_is_that_of_all_placements(problem: Instance):
    for job, least in enumerate(problem.power.least.tolist()):
        found = least_by_trying(problem, job, problem.capacity)
        assert least == (found if math.isfinite(found) else NO_PLACE)


@settings(max_examples=examples(60), deadline=None)
@given(unequal())
def test_jobs_that_could_start_now_are_those_that_some_placement_allows(problem: Instance):
    fit = problem.shared.fits_now(len(problem.queued))
    could = [
        job
        for job in range(len(problem.queued))
        if fit[job] and least_by_trying(problem, job, problem.free) <= problem.power.free
    ]
    assert sorted(reduce(problem, 100).rows.tolist()) == could


@pytest.mark.parametrize("name", [Dispatcher.PCP19, Dispatcher.PCP4])
@quickly
@given(unequal())
def test_objective_is_that_of_exhaustive_search(name: Dispatcher, problem: Instance):
    check_optimum(name, problem)


@quickly
@given(unequal())
def test_positions_cost_no_less_than_nodes(problem: Instance):
    check_positions(problem)


@quickly
@given(unequal())
def test_pooled_objective_is_that_of_one_node_and_the_least_power(problem: Instance):
    """What hcp19 calls optimal costs no less than with the least that jobs add, no more than on nodes."""
    check_pooled(problem)


@pytest.mark.parametrize("name", EVERY)
@quickly
@given(unequal())
def test_every_plan_keeps_to_the_cap(name: Dispatcher, problem: Instance):
    """Starts with their nodes are checked as they are; the others with the least that they can add."""
    plan, _ = plan_of(name, problem)
    added = sum(problem.power.added(job, plan.nodes[job]) for job in plan.starting())
    assert not plan.starting() or added <= problem.power.free


@settings(max_examples=examples(30), deadline=None)
@given(unequal())
def test_cp_finds_the_best_plan(problem: Instance):
    assert_cp_finds_the_best_plan(problem)


@settings(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(unequal())
def test_no_optimum_can_be_beaten(problem: Instance):
    check_claims(problem)


@quickly
@given(unequal())
def test_bounds_of_ours_hold(problem: Instance):
    check_bounds(problem)


@settings(max_examples=examples(30), deadline=None)
@given(unequal())
def test_the_least_makespan_is_that_of_exhaustive_search(problem: Instance):
    check_makespan(problem)


@settings(max_examples=examples(60), deadline=None)
@given(unequal())
def test_easy_keeps_to_the_cap_and_starts_the_first_if_it_may(problem: Instance):
    plan = easy(problem)
    assert check_plan(problem, plan) == []
    first = reduce(problem.with_queued(np.array([0])), 1)
    assert not len(first.rows) or plan.start[0] == 0


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(unequal())
def test_jobs_beyond_those_planned_for_start_if_the_cap_allows_it(problem: Instance):
    """Where all that is planned for starts now, nobody who waits on fits on what is left."""
    plan, solve = plan_of(Dispatcher.CP, problem, SHORT)
    planned = plan.start >= 0
    if solve.status is Status.EMPTY or (plan.start > 0).any():
        return
    asked, free, power = problem.shared.asked_by(len(planned)), problem.free.copy(), problem.power.free
    left = problem.shared.free - asked[planned].sum(axis=0)
    for job in np.flatnonzero(planned).tolist():
        np.subtract.at(free, plan.nodes[job], problem.queued.request[job])
        power -= problem.power.added(job, plan.nodes[job])
    for job in np.flatnonzero(~planned).tolist():
        lacks = ((asked[job] > left) & (asked[job] > 0)).any()
        assert lacks or least_by_trying(problem, job, free) > power


def test_nobody_is_planned_for_where_the_cap_lets_nobody_start():
    """There is a node for each of two jobs, and power for neither; then for one of the nodes."""
    problem = instance([[1]] * 2, [], [(0, 1, [1], 5), (0, 1, [1], 9)])
    for name in EVERY:
        assert plan_of(name, with_power(problem, [5, 2], 1))[1].status is Status.EMPTY
        plan, solve = plan_of(name, with_power(problem, [5, 2], 4))
        assert plan.start.tolist() in ([0, 5], [0, LATER])
        assert plan.nodes[0].tolist() == [1]
        assert solve.status is not Status.EMPTY


def test_hcp_leaves_jobs_that_add_too_much_where_they_would_be_placed():
    """Two jobs add two each at least, there are five; but the memory of the node that adds two is for one."""
    jobs = [(0, 1, [1, 1], 5), (0, 1, [1, 1], 9)]
    problem = with_power(instance([[2, 3], [2, 1]], [], jobs), [4, 2], 5)
    plan, solve = plan_of(Dispatcher.HCP19, problem)
    assert (plan.starting(), solve.unplaced, solve.status) == ([0], 1, Status.OPTIMAL)


@pytest.mark.parametrize("name", [Dispatcher.HCP19, *IN_MODEL, Dispatcher.CP])
def test_models_know_that_not_all_jobs_fit_on_the_nodes_that_add_least(name: Dispatcher):
    """Two fit on the node that adds one, and there is no power for the other: no second is tried in vain."""
    jobs = [(0, 1, [1], 100_000), (0, 1, [1], 300_000), (0, 1, [1], 300_000)]
    plan, solve = plan_of(name, with_power(instance([[2]] * 2, [], jobs), [100, 301], 405))
    assert solve.status is Status.OPTIMAL
    assert plan.start.tolist() == [0, 0, 100_000]
    assert solve.conflicts < 100


@settings(max_examples=examples(60), deadline=None)
@given(unequal(), st.data())
def test_limits_on_the_pool_forbid_no_placement(problem: Instance, data: st.DataObject):
    """Place jobs one by one on nodes as they come; whatever power they add, limits hold if the cap does."""
    queued, power, free = problem.queued, problem.power, problem.free.copy()
    added, on = 0, []
    for job in range(len(queued)):
        for _ in range(int(queued.units[job])):
            node = data.draw(st.integers(0, problem.n_nodes - 1))
            if (free[node] < queued.request[job]).any():
                return
            free[node] -= queued.request[job]
            added += int(power.counts[job] * power.of_node[node])
        on.append(job)
    if added > power.free:
        return
    for limit in pool_limits(problem, 100):
        assert limit.asked[on].sum() + limit.held.sum() <= limit.total


def test_a_job_keeps_off_nodes_that_others_ask_for_where_there_is_the_power_for_it():
    """Half of the arrivals ask for a GPU. The node without adds four, that with one two."""
    problem = instance([[4, 2], [4, 0]], [], [(0, 1, [2, 0], 9)], ("cores", "gpu"))
    for left, node in ((4, 1), (3, 0)):
        planner = make_planner(Dispatcher.LISTS, CpConfig())
        planner.experience = Experience()
        for number in range(4):
            planner.experience.observe(arrival(number, [1, number % 2]))
        assert planner.plan(with_power(problem, [2, 4], left))[0].nodes[0].tolist() == [node]


def test_reserved_nodes_are_open_to_those_who_have_no_power_elsewhere():
    """One of two nodes with a GPU is kept for those that ask for one; the others add more than there is."""
    problem = instance([[1, 1], [1, 1], [1, 0]], [], [(0, 1, [1, 0], 9)], ("cores", "gpu"))
    for watts, starting in (([4, 1, 4], [0]), ([4, 4, 4], [])):
        planner = make_planner(Dispatcher.LISTS, CpConfig(reserve=0.5))
        planner.experience = Experience()
        for number in range(4):
            planner.experience.observe(arrival(number, [1, 1]))
        plan, _ = planner.plan(with_power(problem, watts, 2))
        assert plan.starting() == starting
        assert not starting or plan.nodes[0].tolist() == [1]


def test_a_wide_job_has_its_power_reserved():
    """It starts when a node that adds two is back; a long job now would leave it too little."""
    jobs = [(-50.0, 2, [1], 10), (0.0, 1, [1], 50)]
    problem = with_power(instance([[1]] * 3, [(0, 1, [1], 5)], jobs), [2, 2, 4], 4)
    for name in (Dispatcher.LISTS, Dispatcher.CP):
        planner = make_planner(name, CpConfig(patience=10.0))
        plan, _ = planner.plan(problem)
        assert plan.start.tolist() == [5, 15]


def test_the_measure_of_models_rounds_nothing_where_numbers_allow_it():
    problem = instance([[1]] * 3, [], [(0, 2, [1], 5)])
    part = with_power(problem, [30_000_000, 75_000_000, 0], 200_000_000).power
    assert part.measure(10**6) == 15_000_000
    assert with_power(problem, [7, 11, 0], 20).power.measure(10**6) == 1
    # 2^44 microwatts for 2^20 s are too much for sums of 2^62: four at a time.
    assert with_power(problem, [7, 11, 0], 2**44).power.measure(2**20) == 4


@pytest.mark.parametrize("name", [Dispatcher.HCP19, Dispatcher.PCP19, Dispatcher.PCP4, Dispatcher.PCP21])
def test_plans_keep_to_a_cap_that_is_too_large_for_the_solver(name: Dispatcher):
    watts = [10**17 + 1, 3 * 10**17 + 7]
    jobs = [(0, 1, [1], 10), (0, 1, [1], 30), (0, 1, [1], 30)]
    problem = with_power(instance([[2]] * 2, [], jobs), watts, 4 * 10**17 + 10)
    assert problem.power.measure(70) > 1
    plan, solve = plan_of(name, problem)
    assert solve.status is Status.OPTIMAL
    assert len(plan.starting()) == 2


def test_the_checker_finds_what_adds_too_much():
    problem = instance([[2]] * 2, [(0, 1, [1], 4)], [(0, 1, [1], 5), (0, 2, [1], 5)])
    problem = with_power(problem, [3_000_000, 1_000_000], 2_000_000)
    both = Plan(np.array([0, 4]), (np.array([0]), None))
    assert check_plan(problem, both) == ["after 0 s: 6 of 5 W that jobs may add"]
    moved = Plan(np.array([0, 4]), (np.array([1]), None))
    assert check_plan(problem, moved) == []


def test_json_there_and_back():
    problem = with_power(instance([[2]] * 2, [(0, 1, [1], 4)], [(0, 1, [1], 5)]), [3, 1], 2)
    data = instance_as_json(problem)
    again = instance_from_json(data)
    assert instance_as_json(again) == data
    assert again.power.least.tolist() == problem.power.least.tolist() == [1]
    for wrong, words in (
        ({"of_node": [3]}, "not a number for each node"),
        ({"held": [-1]}, "held: allowed: .*, 0 and more; there is -1"),
        ({"remaining": [0]}, "remaining: allowed: .*, 1 and more; there is 0"),
    ):
        with pytest.raises(InputError, match=f"line 3: not an instance: power[.:].*{words}"):
            instance_from_json(data | {"power": data["power"] | wrong}, "line 3")


# Runs


@st.composite
def scaled(draw):
    """Jobs on nodes of which the second and the third of three take two and three times as much."""
    rules, jobs = draw(powered(capped=True))
    each, factors = rules.busy - rules.idle, 1 + np.arange(rules.nodes) % 3
    caps = tuple(
        (at, float(factors.sum() * rules.idle + (level - rules.nodes * rules.idle) * factors.mean()))
        for at, level in rules.caps
    )
    rules = replace(rules, caps=caps)
    options = power_options(rules)
    options["power"] = [
        {"idle": rules.idle * f, "busy": rules.busy * f, "off": rules.off * f} for f in factors.tolist()
    ]
    return rules, jobs, options, each * factors


def least_watts(rules, processors: list[int], each: np.ndarray) -> list[float]:
    """What each job adds on the nodes of the empty machine that add least; infinity if it does not fit."""
    size = 1 if rules.exclusive else rules.cores
    parts = np.repeat(np.sort(each) / size, size)
    return [float(parts[:units].sum()) if units <= len(parts) else math.inf for units in processors]


@pytest.mark.parametrize("name", [str(name) for name in EVERY])
@settings(deadline=None, max_examples=examples(12), suppress_health_check=[HealthCheck.too_slow])
@given(scaled())
def test_no_start_takes_the_machine_above_the_cap(name: str, study):
    """Caps rise and fall, nodes fail and come back: after each start, by tables of the run alone."""
    rules, jobs, options, each = study
    rows = block(*(np.array(column) for column in zip(*jobs, strict=True)))
    batch, done, held = simulate(rows, rules.nodes, **by(name, options))
    records = records_of(rules, batch, done, held, groups=3)
    for time in np.unique(held.start[held.end > held.start]).tolist():
        cap = [level for at, level in rules.caps if at <= time][-1:]
        now = sum(sum(node_power(records, node, time)) for node in range(rules.nodes))
        assert not cap or now <= cap[0] + 1e-4
    if rules.caps[0][0] > 0:  # before that there is no cap
        assert not beyond(batch)
        return
    highest = max(level for _, level in rules.caps) - rules.idle * (1 + np.arange(rules.nodes) % 3).sum()
    least = least_watts(rules, rows.processors.tolist(), each)
    could = [job for job, watts in enumerate(least) if watts <= highest + 1e-4]
    assert not set(beyond(batch)) & set(could)
    if len(rules.caps) == 1 and not rules.outages:
        ended = np.flatnonzero(done.state != JobState.REJECTED)
        assert ended.tolist() == could


@pytest.mark.parametrize("name", ["lists", "cp"])
@settings(deadline=None, max_examples=examples(15))
@given(scaled())
def test_a_cap_that_never_binds_changes_nothing(name: str, study):
    rules, jobs, options, _ = study
    rows = block(*(np.array(column) for column in zip(*jobs, strict=True)))
    options = by(name, options)
    capped = options | {"power_cap": 1e6}
    del options["power_cap"]
    _, free, held = simulate(rows, rules.nodes, **options)
    _, again, held_again = simulate(rows, rules.nodes, **capped)
    assert free.start_time.tobytes() == again.start_time.tobytes()
    assert held.node.tobytes() == held_again.node.tobytes()


@pytest.mark.parametrize(("cores", "mapping"), [(1, "node"), (4, "core")])
def test_what_plans_see_of_the_cap(cores: int, mapping: str):
    """Four nodes take 400 W when idle; the two first add 200 W each, others 400 W; 900 W leave 500."""
    rows = block([0, 1, 1], [10, 5, 5], [10, 5, 5], [1, 1, 7])
    power = [POWER, POWER, POWER | {"busy": 500}, POWER | {"busy": 500}]
    options = by("lists", {"power": power, "power_cap": 900})
    first, second = seen_instances(rows, 4, cores=cores, mapping=mapping, **options)[:2]
    assert not first.power  # the cap cannot keep the first from starting
    part, unit = second.power, 200_000_000 // cores
    assert part.of_node.tolist() == [unit, unit, 2 * unit, 2 * unit]
    assert part.held.tolist() == [unit]
    assert part.free == 500_000_000 + 4 * cores - unit  # a microwatt a unit to spare, as everywhere
    if mapping == "node":
        assert part.least.tolist() == [unit]  # the other is turned away
    else:
        assert (part.counts.tolist(), part.least.tolist()) == ([1, 1], [unit, 7 * unit])


def test_who_names_the_nodes_may_start_what_first_fit_could_not():
    """Two nodes that add 400 W come first, then two that add 200: the cap leaves power for the latter."""
    power = [POWER | {"busy": 500}, POWER | {"busy": 500}, POWER, POWER]
    rows = block([0], [5], [5], [2])
    cap = {"power": power, "power_cap": 800}
    assert simulate(rows, 4, **cap)[1].state.tolist() == [JobState.REJECTED]
    for name in EVERY:
        _, done, held = simulate(rows, 4, **by(str(name), cap))
        assert done.state.tolist() == [JobState.COMPLETED]
        assert (held.node.tolist(), held.count.tolist()) == ([2], [2])


def test_unequal_power_is_no_error():
    nodes = [group("a", power=POWER), group("b", power=POWER | {"busy": 400})]
    scenario = {"platform": {"nodes": nodes}, "workload": {"path": "log.swf", "mapping": "node"}}
    for name in EVERY:
        from_mapping(scenario | {"batch": {"power_cap": 1200, "dispatcher": str(name)}})


SEEING = """
import numpy as np
from mlsim.batch.view import Start


class Mine:
    def dispatch(self, view):
        assert view.power_units is None
        left, free = view.power_left, view.free[:, 0] > 0
        for job in range(len(view.waiting)):
            node = int(np.argmin(np.where(free, view.power_added, 2**60)))
            if not free[node] or (view.power_added[node] > left and {heeds}):
                return
            left, free[node] = left - view.power_added[node], False
            yield Start(job, [node])
"""


@pytest.mark.parametrize("heeds", [True, False])
def test_a_plugin_sees_what_each_node_adds_and_cannot_take_more(tmp_path, heeds: bool):
    file = tmp_path / "own.py"
    file.write_text(SEEING.replace("{heeds}", str(heeds)))
    rows = block([0, 0, 0], [5, 5, 5], [5, 5, 5], [1, 1, 1])
    options = {"dispatcher": f"{file}:Mine", "power": [POWER | {"busy": 600}, POWER, POWER], "power_cap": 800}
    if not heeds:
        with pytest.raises(InputError, match="job 3 at 0 s: adds 500 W, and the power cap leaves 100 W"):
            simulate(rows, 3, **options)
        return
    assert simulate(rows, 3, **options)[1].start_time.tolist() == [0, 0, 5]
