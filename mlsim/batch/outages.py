"""Nodes that go out of use and come back: failures, listed or random, and drains."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np

from mlsim.batch.clock import Event, Order
from mlsim.batch.failing import FailureProcess, OutagePlan
from mlsim.record import OutageKind, Outages
from mlsim.scenario import DrainConfig, FailureConfig

if TYPE_CHECKING:
    from mlsim.batch.simulator import BatchSystem

__all__ = ["OutageCalendar"]


class OutageCalendar:
    """Carries out a plan of outages, and notes them.

    Parameters
    ----------
    system
        The batch system.
    plan
        What is known beforehand.
    """

    def __init__(self, system: BatchSystem, plan: OutagePlan) -> None:
        self._system = system
        self._plan = plan
        self._nodes, self._kinds = array("q"), array("b")
        self._starts, self._ends = array("d"), array("d")
        self._suspended: list[FailureProcess] = []

    def begin(self) -> None:
        """Schedule what is known at time 0."""
        clock = self._system.clock
        for failure in self._plan.failures:
            clock.at(failure.at, Order.FAILURE, self._fail_as_listed, failure)
        for drain in self._plan.drains:
            clock.at(drain.start, Order.FAILURE, self._drain, drain)
        for process in self._plan.processes():
            clock.at(process.time_in_use(), Order.FAILURE, self._fail_at_random, process)

    def after_pass(self, now: float, n_started: int) -> None:
        """Let nodes fail at random again once there is a job that could suffer."""
        if n_started and self._suspended:
            for process in self._suspended:
                self._next_failure(process, now)
            self._suspended.clear()

    def record(self) -> Outages:
        """Give the outages so far, in order of start."""
        return Outages(
            np.array(self._nodes, np.int64),
            np.array(self._kinds, np.int8),
            np.array(self._starts, np.float64),
            np.array(self._ends, np.float64),
        )

    # Failures

    def _fail_as_listed(self, event: Event) -> None:
        failure: FailureConfig = event.subject
        row = self._fail(failure.node)
        if failure.repair is not None:
            now = self._system.clock.time
            self._system.clock.at(now + failure.repair, Order.FAILURE, self._return, row)

    def _fail_at_random(self, event: Event) -> None:
        process: FailureProcess = event.subject
        now = self._system.clock.time
        if self._system.is_running_out:
            # No job could suffer. If one still waits for nodes to be repaired, it shall get them.
            self._suspended.append(process)
            return
        row = self._fail(process.node)
        self._system.clock.at(
            now + process.time_to_repair(), Order.FAILURE, self._repair_at_random, (row, process)
        )

    def _repair_at_random(self, event: Event) -> None:
        row, process = event.subject
        self._bring_up(row)
        self._next_failure(process, self._system.clock.time)

    def _next_failure(self, process: FailureProcess, now: float) -> None:
        self._system.clock.at(now + process.time_in_use(), Order.FAILURE, self._fail_at_random, process)

    def _fail(self, node: int) -> int:
        """Let a node fail, and every job that holds it; gives the row of the outage."""
        self._system.settle()  # what ends at this very time has ended before
        state = self._system.state
        for slot in sorted(self._holders(node), key=state.number):
            self._system.fail_job(slot, node)
        return self._take_down(node, OutageKind.FAILED)

    # Drains

    def _drain(self, event: Event) -> None:
        """Let no job start on some nodes; those that run there go on."""
        drain: DrainConfig = event.subject
        self._system.settle()
        for node in self._plan.nodes_of(drain.nodes):
            row = self._take_down(node, OutageKind.DRAINED)
            if drain.end is not None:
                self._system.clock.at(drain.end, Order.FAILURE, self._return, row)

    # Both

    def _take_down(self, node: int, kind: OutageKind) -> int:
        self._system.state.take_down(node, self._holders(node))
        self._system.clock.ask_to_close()
        self._nodes.append(node)
        self._kinds.append(kind)
        self._starts.append(self._system.clock.time)
        self._ends.append(np.nan)
        return len(self._nodes) - 1

    def _return(self, event: Event) -> None:
        self._bring_up(event.subject)

    def _bring_up(self, row: int) -> None:
        """End the outage of a row."""
        self._system.settle()
        self._ends[row] = self._system.clock.time
        node = self._nodes[row]
        self._system.state.bring_up(node, self._holders(node))
        self._system.clock.ask_to_close()

    def _holders(self, node: int) -> dict[int, int]:
        """Slots of the running jobs that hold part of a node, and the units each holds there."""
        system = self._system
        holders: dict[int, int] = system.state.holders(node)
        if system.releases is not None:
            holders |= system.releases.holders_of_returned(node)
        return holders
