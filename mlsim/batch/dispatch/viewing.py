"""From the state of the batch level to what a dispatcher sees."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlsim.batch.allocators.nodes import CAPPED, EVEN, POWER_LEFT, Nodes, free_of_each
from mlsim.batch.columns.columns import Columns
from mlsim.batch.columns.running import running_slots
from mlsim.batch.columns.table import (
    ESTIMATE,
    HELD,
    JOB_ID,
    NUMBER,
    PROCESSORS,
    START,
    SUBMIT,
    UNITS,
    JobTable,
)
from mlsim.batch.columns.times import OVERDUE_GRACE
from mlsim.batch.dispatch.on_nodes import held_by
from mlsim.batch.matrix.shared import NOW
from mlsim.batch.view import Drains, FurtherColumns, RunningJobs, StateView, WaitingJobs
from mlsim.platform import Machine
from mlsim.workload.own import OwnColumns, joined_own

__all__ = ["OwnOfJobs", "by_arrival", "running_jobs", "view_of", "waiting_jobs"]

Ints = NDArray[np.int64]
_LABELS = ("user", "group", "executable", "queue", "partition")


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Make an array read-only."""
    array.flags.writeable = False
    return array


class OwnOfJobs:
    """The columns of the user's own, of all jobs that have come, by their numbers."""

    def __init__(self) -> None:
        self._parts: list[OwnColumns | None] = []

    def add(self, block: OwnColumns | None) -> None:
        """Take those of the next jobs."""
        if block is not None:
            self._parts.append(block)

    def of(self, numbers: Ints) -> FurtherColumns:
        """Return those of some jobs."""
        if len(self._parts) > 1:
            self._parts = [joined_own(self._parts)]
        known = self._parts[0] if self._parts else None
        if known is None:
            return FurtherColumns()
        return FurtherColumns({name: frozen(values[numbers]) for name, values in known.of.items()})


def by_arrival(slots: Ints, table: JobTable) -> Ints:
    """Order slots by the time at which their jobs came to the queue, then by their places in the log."""
    return slots[np.lexsort((table.ints[NUMBER, slots], table.floats[SUBMIT, slots]))]


def waiting_jobs(slots: Ints, table: JobTable, nodes: Nodes, own: OwnOfJobs) -> WaitingJobs:
    """Copy the columns of waiting jobs."""
    labels: dict[str, Any] = {name: frozen(table.column(name)[slots]) for name in _LABELS}
    return WaitingJobs(
        number=frozen(table.ints[NUMBER, slots]),
        job_id=frozen(table.ints[JOB_ID, slots]),
        submit_time=frozen(table.floats[SUBMIT, slots]),
        estimate=frozen(table.floats[ESTIMATE, slots]),
        processors=frozen(table.ints[PROCESSORS, slots]),
        units=frozen(table.ints[UNITS, slots]),
        request=frozen(nodes.request[slots]),
        **labels,
        columns=own.of(table.ints[NUMBER, slots]),
        shares=frozen(nodes.shares[slots]),
    )


def running_jobs(
    slots: Ints, now: float, table: JobTable, nodes: Nodes, places: tuple[int, int], own: OwnOfJobs
) -> RunningJobs:
    """Copy the columns of running jobs, and who holds what; ``places`` are those of :func:`view_of`."""
    labels: dict[str, Any] = {name: frozen(table.column(name)[slots]) for name in _LABELS}
    expected = table.floats[START, slots] + table.floats[ESTIMATE, slots]
    job, node, units = held_by(slots, *places)
    return RunningJobs(
        number=frozen(table.ints[NUMBER, slots]),
        job_id=frozen(table.ints[JOB_ID, slots]),
        start_time=frozen(table.floats[START, slots]),
        expected_end=frozen(np.maximum(expected, now + OVERDUE_GRACE)),
        units=frozen(table.ints[HELD, slots]),
        request=frozen(nodes.request[slots]),
        **labels,
        held_job=frozen(job),
        held_node=frozen(node),
        held_units=frozen(units),
        columns=own.of(table.ints[NUMBER, slots]),
        shares=frozen(nodes.shares[slots]),
    )


def view_of(
    now: float,
    waiting: Ints,
    machine: Machine,
    exclusive: bool,
    table: JobTable,
    columns: Columns,
    nodes: Nodes,
    places: tuple[int, int],
    own: OwnOfJobs,
) -> StateView:
    """Copy the state; a dispatcher may keep what it gets.

    ``places`` are the addresses at which ``columns`` and ``nodes`` are written down for kernels.
    """
    running = by_arrival(running_slots(columns), table)
    return StateView(
        now=now,
        resources=machine.resources,
        capacity=frozen(nodes.capacity.copy()),
        free=frozen(free_of_each(nodes)),
        exclusive=exclusive,
        waiting=waiting_jobs(waiting, table, nodes, own),
        running=running_jobs(running, now, table, nodes, places, own),
        drains=_drains(nodes),
        shared=machine.shared.names,
        shared_capacity=frozen(machine.shared.capacity.copy()),
        shared_free=frozen(nodes.shared[NOW].copy()),
        power_units=_power_units(nodes, len(nodes.capacity) if exclusive else machine.n_cores),
        power_left=int(nodes.settings[POWER_LEFT]) if nodes.settings[CAPPED] else None,
        power_added=frozen(nodes.power.copy() if nodes.settings[CAPPED] else nodes.power[:0].copy()),
    )


def _power_units(nodes: Nodes, most: int) -> int | None:
    """Return how many units of equal power the cap leaves, of at most so many."""
    if not (nodes.settings[CAPPED] and nodes.settings[EVEN]):
        return None
    left, each = int(nodes.settings[POWER_LEFT]), int(nodes.power[0])
    if each == 0:  # what jobs hold makes no difference
        return most if left >= 0 else -most
    return min(left // each, most)


def _drains(nodes: Nodes) -> Drains:
    """Copy what is known of announced drains."""
    begin, end = np.repeat(nodes.drain_times, np.diff(nodes.drain_first), axis=1)
    return Drains(frozen(nodes.drain_nodes.copy()), frozen(begin), frozen(end))
