"""A plan: when each queued job starts and where; and a checker that trusts nothing else of this room."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mlsim._arrays import Ints
from mlsim.batch.cp.problem.instance import Instance

__all__ = ["LATER", "Plan", "check_plan", "objective_of"]


LATER = -1
"""Start of a job that the plan says nothing about: it goes back to the queue."""


@dataclass(frozen=True, slots=True)
class Plan:
    """An answer to an instance."""

    start: Ints
    """int64[n]: seconds from now at which each queued job starts, or ``LATER``."""
    nodes: tuple[Ints | None, ...]
    """The node of each unit of each job; None where only the time is planned. Jobs that start now always have
    nodes.
    """

    @classmethod
    def empty(cls, n: int) -> Plan:
        """Start nothing."""
        return cls(np.full(n, LATER, np.int64), (None,) * n)

    def starting(self) -> list[int]:
        """Rows of the jobs that start now."""
        rows: list[int] = np.flatnonzero(self.start == 0).tolist()
        return rows


def objective_of(instance: Instance, start: Ints) -> float:
    """Return the sum of expected slowdowns of the jobs in a plan."""
    planned = start != LATER
    queued = instance.queued
    wait = instance.now + start - queued.arrival
    slowdown = (wait + queued.duration) / queued.duration
    return float(slowdown[planned].sum())


def check_plan(instance: Instance, plan: Plan) -> list[str]:
    """Say what is wrong with a plan; an empty list if nothing is.

    Checks, at every instant at which a job starts: every unit whole on one node that exists, and on every
    node no more of any resource in use than there is, running jobs included where they are; nor more of what
    the machine has as a whole, if a job that starts then asks for it; nor more power than a cap allows, where
    a job of which only the time is planned counts with the least that it can add.
    """
    queued = instance.queued
    wrong = []
    if len(plan.start) != len(queued) or len(plan.nodes) != len(queued):
        return [f"the plan is for {len(plan.start)} jobs, the instance has {len(queued)}"]
    boxes: list[tuple[int, int, int, Ints]] = [  # start, end, node, amounts
        (0, int(box.remaining[k]), int(box.node[k]), box.request[k] * box.units[k])
        for box in (instance.running,)
        for k in range(len(box))
    ]
    for k, (start, nodes) in enumerate(zip(plan.start.tolist(), plan.nodes, strict=True)):
        name = f"job {queued.job_id[k]}"
        if start == LATER:
            continue
        if start < 0:
            wrong.append(f"{name} starts {-start} s ago")
        if nodes is None:
            if start == 0:
                wrong.append(f"{name} starts now on no nodes")
            continue
        if len(nodes) != queued.units[k]:
            wrong.append(f"{name} has {queued.units[k]} units and nodes for {len(nodes)}")
        end = start + int(queued.duration[k])
        for node in nodes.tolist():
            if 0 <= node < instance.n_nodes:
                boxes.append((start, end, node, queued.request[k]))
            else:
                wrong.append(f"{name} on node {node} of {instance.n_nodes}")
    for at in sorted({box[0] for box in boxes}):
        used = np.zeros_like(instance.capacity)
        for start, end, node, amounts in boxes:
            if start <= at < end:
                used[node] += amounts
        for node, r in np.argwhere(used > instance.capacity).tolist():
            wrong.append(
                f"after {at} s: node {node}: {used[node, r]} of {instance.capacity[node, r]} "
                f"{instance.resources[r]}"
            )
    return wrong + _check_shared(instance, plan) + _check_power(instance, plan)


def _check_shared(instance: Instance, plan: Plan) -> list[str]:
    """Say of what the machine has as a whole a plan takes too much, and when."""
    shared = instance.shared
    spans = [(0, int(end), held) for end, held in zip(shared.remaining, shared.held, strict=True)]
    for k, start in enumerate(plan.start.tolist() if shared.names else ()):
        if start != LATER:
            spans.append((start, start + int(instance.queued.duration[k]), shared.asked[k]))
    wrong = []
    planned = spans[len(shared.remaining) :]
    for at in sorted({begin for begin, _, _ in planned}):
        used = sum((held for begin, end, held in spans if begin <= at < end), np.zeros_like(shared.capacity))
        # Running jobs alone may hold more than a cap that has fallen, and hold ever less of it.
        asks = sum(held for begin, _, held in planned if begin == at) > 0
        for k in np.flatnonzero((used > shared.capacity) & asks).tolist():
            wrong.append(f"after {at} s: {used[k]} of {shared.capacity[k]} {shared.names[k]}")
    return wrong


def _check_power(instance: Instance, plan: Plan) -> list[str]:
    """Say when a plan takes more power than a cap on unequal nodes allows."""
    power = instance.power
    running = [(0, int(end), int(held)) for end, held in zip(power.remaining, power.held, strict=True)]
    planned = []
    for k, (start, nodes) in enumerate(zip(plan.start.tolist(), plan.nodes, strict=True)):
        if power and start != LATER:
            end = start + int(instance.queued.duration[k])
            planned.append((start, end, int(power.least[k]) if nodes is None else power.added(k, nodes)))
    most, wrong = power.free + int(power.held.sum()), []
    for at in sorted({begin for begin, _, _ in planned}):
        used = sum(added for begin, end, added in running + planned if begin <= at < end)
        if used > most:
            wrong.append(f"after {at} s: {used / 1e6:g} of {most / 1e6:g} W that jobs may add")
    return wrong
