"""Room over time on classes of nodes, against looking at every node at every time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.batch.cp.class_profiles import (
    NEVER,
    Demands,
    Ranks,
    alone,
    list_schedule,
    profiles_of,
    reset,
    whole_of,
    work_space,
)
from mlsim.batch.cp.instance import Instance, PowerPart, SharedPart
from mlsim.batch.cp.unit_packing import Kinds
from tests.batch.cp.instances import instance
from tests.effort import examples


@st.composite
def crowded(draw) -> tuple[Instance, np.ndarray]:
    """Nodes that many jobs of different ends hold, jobs of up to nine units, and the kind of each node."""
    n = draw(st.integers(1, 5))
    capacity = [[draw(st.integers(2, 9)), draw(st.integers(0, 9))] for _ in range(n)]
    boxes = []
    for node, (cores, memory) in enumerate(capacity):
        for _ in range(draw(st.integers(0, 4))):
            held = [draw(st.integers(0, cores // 2)), draw(st.integers(0, memory // 2))]
            cores, memory = cores - held[0], memory - held[1]
            boxes.append((node, 1, held, draw(st.integers(1, 30))))
    request = st.tuples(st.integers(1, 4), st.integers(0, 4)).map(list)
    job = st.tuples(st.just(0), st.integers(1, 9), request, st.integers(1, 25))
    jobs = draw(st.lists(job, min_size=1, max_size=4))
    kind = np.array([draw(st.integers(0, 1)) for _ in range(n)], np.int64)
    return instance(capacity, boxes, jobs), kind


def amounts_of(draw, problem: Instance) -> Instance:
    """Give the machine up to two amounts of which running jobs hold some, perhaps more than there is."""
    names = ("a", "b")[: draw(st.integers(0, 2))]
    running, n = problem.running, len(problem.queued)
    if not names:
        return problem
    held = [[draw(st.integers(0, 3)) for _ in names] for _ in range(len(running))]
    asked = [[draw(st.integers(0, 4)) for _ in names] for _ in range(n)]
    capacity = np.array([draw(st.integers(0, 9)) for _ in names], np.int64)
    held_, asked_ = (np.array(rows, np.int64).reshape(-1, len(names)) for rows in (held, asked))
    free = capacity - held_.sum(axis=0)
    return replace(problem, shared=SharedPart(names, capacity, free, asked_, held_, running.remaining))


NO_POWER = np.zeros((3, 0), np.int64)


def demands(problem: Instance, dislike: np.ndarray) -> Demands:
    """What the queued jobs ask for."""
    queued, n = problem.queued, len(problem.queued)
    asked = problem.shared.asked_by(n)
    if problem.power:
        asked = np.column_stack((asked, np.zeros(n, np.int64)))
    counts = problem.power.counts_of(n)
    return Demands(queued.units, queued.duration, queued.request, dislike, asked, counts)


def enough(problem: Instance, job: int, start: int, taken: list[tuple[int, int, int]]) -> bool:
    """Whether at each second of a start there is what a job asks of the machine as a whole."""
    part, asked = problem.shared, problem.shared.asked_by(len(problem.queued))
    for at in range(start, start + int(problem.queued.duration[job])):
        used = part.held_by(len(problem.running))[problem.running.remaining > at].sum(axis=0)
        used = used + sum(asked[other] for begin, end, other in taken if begin <= at < end)
        if ((used + asked[job] > part.capacity) & (asked[job] > 0)).any():
            return False
    return True


def has_power(problem: Instance, job: int, start: int, fit: np.ndarray) -> bool:
    """Whether at each second of a start there is the power of the cheapest places among those that fit."""
    power = problem.power
    if not power:
        return True
    places = np.sort(np.repeat(power.of_node, fit))[: problem.queued.units[job]]
    least = power.counts[job] * places.sum()
    seconds = range(start, start + int(problem.queued.duration[job]))
    return all(
        least + power.held[power.remaining > at].sum() <= power.free + power.held.sum() for at in seconds
    )


def earliest(problem: Instance, job: int, allowed: np.ndarray) -> int:
    """Try one second after the other: at each, count what fits throughout on each node."""
    queued, running = problem.queued, problem.running
    request, units = queued.request[job], int(queued.units[job])
    last = int(running.remaining.max(initial=0))
    ends = range(last + int(queued.duration[job]) + 1)
    free = np.array(
        [
            [
                problem.free[node]
                + (running.request * running.units[:, None])[
                    (running.node == node) & (running.remaining <= at)
                ].sum(axis=0)
                for node in range(problem.n_nodes)
            ]
            for at in ends
        ]
    )
    asked = request > 0
    for start in range(last + 1):
        least = free[start : start + int(queued.duration[job])].min(axis=0)
        fit = (least[:, asked] // request[asked]).min(axis=1)
        fits = fit[allowed].sum() >= units and enough(problem, job, start, [])
        if fits and has_power(problem, job, start, np.where(allowed, fit, 0)):
            return start
    return NEVER


@st.composite
def pools(draw) -> tuple[Instance, list[int]]:
    """One node of units that jobs need, amounts of the whole machine, and an order of the jobs."""
    size = draw(st.integers(2, 8))
    boxes = [(0, 1, [1], draw(st.integers(1, 9))) for _ in range(draw(st.integers(0, size)))]
    job = st.tuples(st.just(0), st.integers(1, size), st.just([1]), st.integers(1, 9))
    jobs = draw(st.lists(job, min_size=1, max_size=6))
    order = draw(st.permutations(range(len(jobs))))
    return amounts_of(draw, instance([[size]], boxes, jobs)), order


def one_by_one(problem: Instance, order: list[int]) -> list[int]:
    """Schedule jobs in an order, each at the first second from which there is all that it needs."""
    queued, running = problem.queued, problem.running
    taken: list[tuple[int, int, int]] = []
    starts = [NEVER] * len(queued)
    horizon = int(running.remaining.max(initial=0) + queued.duration.sum())
    for job in order:
        for start in range(horizon + 1):
            seconds = range(start, start + int(queued.duration[job]))
            fits = all(
                running.units[running.remaining > at].sum()
                + sum(int(queued.units[other]) for begin, end, other in taken if begin <= at < end)
                + queued.units[job]
                <= problem.capacity.sum()
                for at in seconds
            )
            if fits and enough(problem, job, start, taken):
                taken.append((start, seconds.stop, job))
                starts[job] = start
                break
        else:
            break  # it never can, and nothing is planned
    return starts


@settings(deadline=None, max_examples=examples(100))
@given(pools())
def test_a_list_is_scheduled_as_second_by_second(drawn: tuple[Instance, list[int]]):
    problem, order = drawn
    n = len(problem.queued)
    base = profiles_of(problem, problem.running.remaining, np.zeros(1, np.int64))
    whole = whole_of(problem.shared, PowerPart())
    jobs = demands(problem, np.zeros((n, 1)))
    ranks = Ranks(np.ones(n), np.zeros((n, 1)), np.ones(n, np.bool_), False)
    work, whole_work = work_space(base, n), work_space(whole, n)
    reset(base, work)
    reset(whole, whole_work)
    starts, nobody = np.zeros(n, np.int64), np.empty(0, np.int64)
    order_ = np.array(order, np.int64)
    one = np.ones(1)
    cost = list_schedule(order_, jobs, ranks, one, NO_POWER, np.inf, work, whole_work, starts, nobody)
    expected = one_by_one(problem, order)
    if NEVER in expected:
        assert cost == np.inf
    else:
        assert (starts.tolist(), cost) == (expected, sum(expected))


@pytest.mark.parametrize("barred", [False, True])
@settings(deadline=None)
@given(crowded(), st.data())
def test_the_earliest_start_is_that_found_by_trying_every_second(
    barred: bool, drawn: tuple[Instance, np.ndarray], data: st.DataObject
):
    problem, kind = drawn
    problem = amounts_of(data.draw, problem)
    queued = problem.queued
    dislike = np.zeros((len(queued), 2))
    dislike[::2, 1] = np.inf if barred else 0.5
    base = profiles_of(problem, problem.running.remaining, kind)
    starts = alone(demands(problem, dislike), NO_POWER, base, whole_of(problem.shared, PowerPart()))
    for job, start in enumerate(starts.tolist()):
        assert start == earliest(problem, job, dislike[job, kind] < np.inf)


@pytest.mark.slow
@pytest.mark.parametrize("barred", [False, True])
@settings(deadline=None, max_examples=examples(150))
@given(crowded(), st.data())
def test_the_earliest_start_under_a_cap_is_that_found_by_trying_every_second(
    barred: bool, drawn: tuple[Instance, np.ndarray], data: st.DataObject
):
    """Nodes add unequal power; running jobs hold of it what they like, and it comes back as they end."""
    problem, kind = drawn
    problem = amounts_of(data.draw, problem)
    queued, n_running = problem.queued, len(problem.running)
    few = st.integers(0, 4)
    watts = data.draw(st.lists(few, min_size=problem.n_nodes, max_size=problem.n_nodes))
    held = data.draw(st.lists(few, min_size=n_running, max_size=n_running))
    counts = data.draw(st.lists(st.integers(1, 2), min_size=len(queued), max_size=len(queued)))
    power = PowerPart.of(
        np.array(watts, np.int64),
        data.draw(st.integers(0, 12)),
        np.array(counts, np.int64),
        np.array(held, np.int64),
        problem.running.remaining,
        queued.units,
        queued.request,
        problem.capacity,
    )
    problem = replace(problem, power=power)
    dislike = np.zeros((len(queued), 2))
    dislike[::2, 1] = np.inf if barred else 0.5
    kinds = Kinds(kind, dislike).by_power(power.of_node)
    base = profiles_of(problem, problem.running.remaining, kinds.kind)
    starts = alone(demands(problem, kinds.dislike), kinds.power, base, whole_of(problem.shared, power))
    for job, start in enumerate(starts.tolist()):
        assert start == earliest(problem, job, dislike[job, kind] < np.inf)


@st.composite
def single_nodes(draw) -> tuple[Instance, list[int]]:
    """Nodes for one unit each, of which no two add as much, and an order of the jobs."""
    size = draw(st.integers(2, 5))
    watts = np.array(draw(st.permutations(range(1, size + 1))), np.int64)
    boxes = [(node, 1, [1], draw(st.integers(1, 9))) for node in range(draw(st.integers(0, size)))]
    job = st.tuples(st.just(0), st.integers(1, size), st.just([1]), st.integers(1, 9))
    problem = instance([[1]] * size, boxes, draw(st.lists(job, min_size=1, max_size=5)))
    running, queued = problem.running, problem.queued
    power = PowerPart.of(
        watts,
        draw(st.integers(0, 12)),
        np.ones(len(queued), np.int64),
        watts[running.node],
        running.remaining,
        queued.units,
        queued.request,
        problem.capacity,
    )
    return replace(problem, power=power), draw(st.permutations(range(len(queued))))


def on_the_cheapest(problem: Instance, order: list[int]) -> list[int]:
    """Schedule jobs in an order, each at the first second, on the nodes free throughout that add least."""
    queued, running, power = problem.queued, problem.running, problem.power
    size, horizon = problem.n_nodes, int(problem.running.remaining.max(initial=0) + queued.duration.sum())
    busy = np.zeros((horizon + 10, size), np.bool_)
    for node, remaining in zip(running.node.tolist(), running.remaining.tolist(), strict=True):
        busy[:remaining, node] = True
    most, starts = power.free + power.held.sum(), [NEVER] * len(queued)
    for job in order:
        for start in range(horizon + 1):
            seconds = slice(start, start + int(queued.duration[job]))
            free = np.flatnonzero(~busy[seconds].any(axis=0))
            nodes = free[np.argsort(power.of_node[free])][: queued.units[job]]
            used = (busy[seconds] * power.of_node).sum(axis=1).max(initial=0)
            if len(nodes) == queued.units[job] and used + power.of_node[nodes].sum() <= most:
                busy[seconds, nodes] = True
                starts[job] = start
                break
        else:
            break  # it never can, and nothing is planned
    return starts


def scheduled(problem: Instance, order: list[int]) -> tuple[list[int], float]:
    """Schedule jobs in an order on nodes that are liked as much; return starts and their sum."""
    n, power = len(problem.queued), problem.power
    kinds = Kinds(np.zeros(problem.n_nodes, np.int64), np.zeros((n, 1))).by_power(power.of_node)
    base, whole = profiles_of(problem, problem.running.remaining, kinds.kind), whole_of(problem.shared, power)
    work, whole_work = work_space(base, n), work_space(whole, n)
    reset(base, work)
    reset(whole, whole_work)
    ranks = Ranks(np.ones(n), np.zeros((n, 1)), np.ones(n, np.bool_), False)
    jobs, starts = demands(problem, kinds.dislike), np.zeros(n, np.int64)
    order_, nobody = np.array(order, np.int64), np.empty(0, np.int64)
    cost = list_schedule(
        order_, jobs, ranks, np.ones(1), kinds.power, np.inf, work, whole_work, starts, nobody
    )
    return starts.tolist(), cost


@settings(deadline=None, max_examples=examples(150))
@given(single_nodes())
def test_a_list_under_a_cap_is_scheduled_as_second_by_second(drawn: tuple[Instance, list[int]]):
    problem, order = drawn
    starts, cost = scheduled(problem, order)
    expected = on_the_cheapest(problem, order)
    if NEVER in expected:
        assert cost == np.inf
    else:
        assert (starts, cost) == (expected, sum(expected))


def test_what_was_found_for_a_node_is_looked_at_again_where_a_planned_job_may_have_it():
    """The first job has the two nodes that add one and two from 10 on, when the second ends.

    The second would fit now on the first node. There is power from 8 on, too late to have ended by
    10; and the node that adds four, free by then, would leave too little for the first job.
    """
    problem = instance([[1]] * 3, [(1, 1, [1], 10), (2, 1, [1], 8)], [(0, 2, [1], 5), (0, 1, [1], 4)])
    running, queued = problem.running, problem.queued
    watts, ones = np.array([1, 2, 4]), np.ones(2, np.int64)
    power = PowerPart.of(
        watts, 0, ones, watts[running.node], running.remaining, queued.units, queued.request, problem.capacity
    )
    assert scheduled(replace(problem, power=power), [0, 1]) == ([10, 15], 25.0)
