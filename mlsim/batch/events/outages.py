"""Nodes that go out of use and come back: failures, listed or random, and drains, announced or not."""

from __future__ import annotations

from array import array
from dataclasses import replace

import numpy as np

from mlsim.batch.clock.clock import Event, Order
from mlsim.batch.events.failing import FailureProcess, OutagePlan
from mlsim.batch.events.releases import Releases
from mlsim.batch.events.system import System
from mlsim.batch.room.announced import AnnouncedDrain
from mlsim.record import OutageKind, Outages
from mlsim.scenario import DrainConfig, FailureConfig

__all__ = ["OutageCalendar"]


class OutageCalendar:
    """Carries out a plan of outages, and notes them.

    Parameters
    ----------
    system
        The batch system.
    plan
        What is known beforehand.
    releases
        Who knows of nodes that went back to jobs; None where nodes stay with their job.
    """

    def __init__(self, system: System, plan: OutagePlan, releases: Releases | None) -> None:
        self._releases = releases
        self._system = system
        self._plan = plan
        self._nodes, self._kinds = array("q"), array("b")
        self._starts, self._ends = array("d"), array("d")
        self._suspended: list[FailureProcess] = []
        self._known: dict[int, AnnouncedDrain] = {}  # by entry: those announced and not over

    def begin(self) -> None:
        """Schedule what is known at time 0."""
        clock = self._system.clock
        for failure in self._plan.failures:
            clock.at(failure.at, Order.FAILURE, self._fail_as_listed, failure)
        for entry, drain in enumerate(self._plan.drains):
            if not drain.announced:
                clock.at(drain.start, Order.FAILURE, self._drain, drain)
            elif drain.announced_at > 0.0:
                clock.at(drain.announced_at, Order.FAILURE, self._announce, entry)
            else:
                self._announce_drain(entry)
        for process in self._plan.processes():
            clock.at(process.time_in_use(), Order.FAILURE, self._fail_at_random, process)

    def after_pass(self, now: float, n_started: int) -> None:
        """Resume suspended random failures once a job has started."""
        if n_started and self._suspended:
            for process in self._suspended:
                self._next_failure(process, now)
            self._suspended.clear()

    def record(self) -> Outages:
        """Return the outages so far, in order of start."""
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
        """Fail a node and every job that holds it; return the row of the outage."""
        self._system.free_ended()  # what ends at this very time has ended before
        state = self._system.state
        for slot in sorted(self._holders(node), key=state.number):
            self._system.fail_job(slot, node)
        return self._take_down(node, OutageKind.FAILED)

    # Drains

    def _drain(self, event: Event) -> None:
        """Take nodes out of use for new jobs; running jobs go on."""
        drain: DrainConfig = event.subject
        self._system.free_ended()
        for node in self._plan.nodes_of(drain.nodes):
            row = self._take_down(node, OutageKind.DRAINED)
            if drain.end is not None:
                self._system.clock.at(drain.end, Order.FAILURE, self._return, row)

    # Announced drains

    def _announce(self, event: Event) -> None:
        self._announce_drain(event.subject)

    def _announce_drain(self, entry: int) -> None:
        """Announce a drain to the dispatcher, and schedule its beginning."""
        drain = self._known[entry] = self._plan.announced(self._plan.drains[entry])
        self._system.state.know_of(list(self._known.values()))
        self._system.clock.at(drain.start, Order.FAILURE, self._begin_announced, entry)

    def _begin_announced(self, event: Event) -> None:
        """Take the nodes of an announced drain out of use; what runs there all the same goes on."""
        entry: int = event.subject
        self._system.free_ended()
        drain = self._known[entry] = replace(self._known[entry], has_begun=True)
        rows = [self._take_down(node, OutageKind.ANNOUNCED_DRAIN) for node in drain.nodes]
        self._system.state.know_of(list(self._known.values()))
        if drain.end < np.inf:
            self._system.clock.at(drain.end, Order.FAILURE, self._end_announced, (entry, rows))

    def _end_announced(self, event: Event) -> None:
        entry, rows = event.subject
        del self._known[entry]
        self._system.state.know_of(list(self._known.values()))
        for row in rows:
            self._bring_up(row)

    # All

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
        self._system.free_ended()
        self._ends[row] = self._system.clock.time
        node = self._nodes[row]
        self._system.state.bring_up(node, self._holders(node))
        self._system.clock.ask_to_close()

    def _holders(self, node: int) -> dict[int, int]:
        """Slots of the running jobs that hold part of a node, and the units each holds there."""
        holders: dict[int, int] = self._system.state.holders(node)
        if self._releases is not None:
            holders |= self._releases.holders_of_returned(node)
        return holders
