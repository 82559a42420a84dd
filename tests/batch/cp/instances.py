"""Instances for tests of the planners, and the best plans of small ones by exhaustive search."""

from __future__ import annotations

from dataclasses import fields
from itertools import combinations_with_replacement, permutations

import numpy as np

from mlsim.batch.cp.instance import Instance, Queued, Running
from mlsim.batch.view import RunningJobs, StateView, WaitingJobs


def table(rows, width: int) -> np.ndarray:
    return np.array(rows, np.int64).reshape(-1, width)


def instance(capacity, boxes=(), jobs=(), resources=None, now: float = 0.0) -> Instance:
    """Boxes are (node, units, request, remaining); jobs are (arrival, units, request, duration)."""
    width = len(capacity[0])
    capacity = table(capacity, width)
    free = capacity.copy()
    for node, units, request, _ in boxes:
        free[node] -= units * np.array(request)
    n = len(boxes)
    running = Running(
        np.arange(n),
        np.array([box[0] for box in boxes], np.int64),
        np.array([box[1] for box in boxes], np.int64),
        table([box[2] for box in boxes], width),
        np.array([box[3] for box in boxes], np.int64),
        np.ones(n, np.int64),
        np.zeros(n, np.int64),
    )
    queued = Queued(
        np.arange(len(jobs)) + 100,
        np.array([job[0] for job in jobs], np.float64),
        np.array([job[1] for job in jobs], np.int64),
        table([job[2] for job in jobs], width),
        np.array([job[3] for job in jobs], np.int64),
        np.ones(len(jobs)),
    )
    names = resources or tuple(f"r{k}" for k in range(width))
    return Instance(now, names, capacity, free, running, queued)


def worked_example() -> Instance:
    """The paper's Figures 2 to 4: cores, memory, GPU, MIC; J1 runs on node 1, J2 to J4 wait."""
    return instance(
        [[4, 4, 2, 0], [4, 4, 2, 0], [4, 4, 0, 2], [4, 4, 0, 2]],
        [(0, 1, [1, 3, 1, 0], 100)],
        [(0, 1, [2, 4, 2, 0], 60), (1, 2, [4, 1, 0, 0], 60), (2, 1, [1, 1, 0, 1], 100)],
        ("cores", "memory", "gpu", "mic"),
        now=10.0,
    )


def arrival(number: int, request: list[int]) -> StateView:
    """A view with one job that waits."""
    one, nobody = np.ones(1, np.int64), np.empty(0, np.int64)
    table_of = dict.fromkeys(("user", "group", "executable", "queue", "partition"), one)
    nodes = np.ones((1, len(request)), np.int64)
    names = tuple(f"r{k}" for k in range(len(request)))
    waiting = WaitingJobs(
        one * number, one * number, one * 0.0, one * 10.0, one, one, table(request, len(request)), **table_of
    )
    empty = {field.name: nobody for field in fields(RunningJobs)}
    return StateView(0.0, names, nodes, nodes, False, waiting, RunningJobs(**empty))


def best_cost(
    instance: Instance, pooled: bool = False, weights: np.ndarray | None = None, makespan: bool = False
) -> float:
    """Give the least sum of weight x start over all plans of a small instance; a weight is 1 / duration.

    Or the least time until the last job ends.

    Some order of the jobs, each then started as early as its nodes allow, is a best plan. What the
    machine has as a whole is a node more, of which every job has a part and no unit; so is power under a cap,
    of which a job has what its nodes add, or what it adds at least where all nodes are one.
    """
    queued = instance.queued
    weights = 1.0 / queued.duration if weights is None else weights
    weights = None if makespan else weights
    capacity, free, node_of = instance.capacity, instance.free, instance.running.node
    if pooled:
        capacity = capacity.sum(axis=0, keepdims=True)
        node_of = np.zeros_like(node_of)
    ends = [
        (0, int(remaining), int(node), request * units)
        for remaining, node, request, units in zip(
            instance.running.remaining, node_of, instance.running.request, instance.running.units, strict=True
        )
    ]
    shared, power = instance.shared, instance.power
    width, wide = capacity.shape[1], len(shared.names)
    ends = [(begin, end, node, np.concatenate([amount, np.zeros(wide)])) for begin, end, node, amount in ends]
    ends += [
        (0, int(end), len(capacity), np.concatenate([np.zeros(width), held]))
        for end, held in zip(shared.remaining, shared.held, strict=True)
    ]
    if power:
        ends = [(begin, end, node, np.append(amount, 0.0)) for begin, end, node, amount in ends]
        ends += [
            (0, int(end), len(capacity), np.append(np.zeros(width + wide), held))
            for end, held in zip(power.remaining, power.held, strict=True)
        ]
    whole = np.zeros((len(capacity) + 1, width + wide + bool(power)))
    whole[:-1, :width], whole[-1, width : width + wide] = capacity, shared.capacity
    whole[-1, width + wide :] = power.free + power.held.sum()

    capacity = whole

    def asks(job: int, nodes: tuple[int, ...]) -> np.ndarray:
        amounts = shared.asked_by(len(queued))[job]
        if not power:
            return amounts
        added = power.least[job] if pooled else power.counts[job] * power.of_node[list(nodes)].sum()
        return np.append(amounts, added)

    best = np.inf
    assert free.shape == instance.capacity.shape
    for order in permutations(range(len(queued))):
        best = min(best, _best(order, ends, capacity, queued, asks, weights, 0.0, best))
    return best


def _best(order, boxes, capacity, queued, asks, weights, cost, bound) -> float:
    if cost >= bound:
        return np.inf
    if not order:
        return cost
    job, rest = order[0], order[1:]
    duration = int(queued.duration[job])
    for nodes in combinations_with_replacement(range(len(capacity) - 1), int(queued.units[job])):
        asked = np.zeros_like(capacity)
        for node in nodes:
            asked[node, : queued.request.shape[1]] += queued.request[job]
        asked[-1, queued.request.shape[1] :] = asks(job, nodes)
        if (asked > capacity).any():
            continue
        for start in sorted({0, *(box[1] for box in boxes)}):
            if _fits(start, start + duration, asked, boxes, capacity):
                more = [(start, start + duration, node, asked[node]) for node in {*nodes, len(capacity) - 1}]
                total = max(cost, start + duration) if weights is None else cost + weights[job] * start
                bound = min(bound, _best(rest, boxes + more, capacity, queued, asks, weights, total, bound))
                break
    return bound


def _fits(start, end, asked, boxes, capacity) -> bool:
    for at in {start, *(box[0] for box in boxes if start < box[0] < end)}:
        used = asked.copy()
        for first, last, node, amount in boxes:
            if first <= at < last:
                used[node] += amount
        # What runs may hold more than there is, where a cap has fallen; that concerns who asks for it.
        if ((used > capacity) & (asked > 0)).any():
            return False
    return True
