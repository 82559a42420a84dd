"""Nodes that come back before their job ends, and nodes that go back to it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mlsim.batch.clock.clock import Event, Order
from mlsim.batch.columns.occupancy import NODE, NODE_CORES
from mlsim.batch.columns.table import JOB_ID
from mlsim.batch.events.system import System
from mlsim.coordination import Forecast, MessageLog, NodeReturned
from mlsim.scenario import CoordinationConfig

__all__ = ["Releases"]

Ints = NDArray[np.int64]


@dataclass(slots=True)
class _Held:
    """A running job: its nodes, what is planned for them, which it gave up on request."""

    number: int
    row_of: dict[int, int]
    planned: list[tuple[float, int, Event]] = field(default_factory=list)
    yielded: set[int] = field(default_factory=set)
    returned: dict[int, int] = field(default_factory=dict)


class Releases:
    """Carries out what forecasts say about idle nodes.

    Parameters
    ----------
    system
        The batch system.
    log
        How long messages take.
    coordination
        Whether nodes given up on request go back to their owners.
    """

    def __init__(self, system: System, log: MessageLog, coordination: CoordinationConfig) -> None:
        self._system = system
        self._state = system.state
        self._log = log
        self._reclaims = coordination.reclaim
        self._jobs: dict[int, _Held] = {}
        self._lent: dict[int, list[int]] = {}  # node -> slots of the running jobs that gave it up, in order
        self._released_now: list[tuple[int, int]] = []  # nodes and cores, since the last pass

    def plan(self, slot: int, now: float, forecast: Forecast) -> None:
        """Schedule the release of every node but the last for the arrival of its message.

        The last one stays with the job, so that the job is never without a node before its end.
        Messages sent by ``now`` are on their way already.
        """
        job = self._jobs.get(slot)
        if job is None:
            rows = self._state.rows_of(slot)
            nodes = self._state.occupancy.ints[NODE, rows.start : rows.stop].tolist()
            job = self._jobs[slot] = _Held(self._state.number(slot), dict(zip(nodes, rows, strict=True)))
            now = float("-inf")
        for sent, _, event in job.planned:
            if sent > now:
                event.cancel()
        job.planned = [plan for plan in job.planned if plan[0] <= now]
        on_their_way = {(sent, node) for sent, node, _ in job.planned}
        for message in forecast.idle[:-1]:
            # A message may have been sent before and be news all the same: it would have come after the end.
            arrival = message.time + self._log.latency
            if (message.time, message.node) not in on_their_way and arrival < forecast.end:
                subject = (slot, job.row_of[message.node], message.node)
                event = self._system.clock.at(arrival, Order.RELEASE, self._release, subject)
                job.planned.append((message.time, message.node, event))

    def promise(self, slot: int, nodes: tuple[int, ...], lends: bool) -> list[int]:
        """Record the nodes that a job will release on request; return their occupancy rows.

        With ``lends`` the job keeps a claim to them: they may go back to it.
        """
        job = self._jobs[slot]
        if lends:
            job.yielded.update(nodes)
        return [job.row_of[node] for node in nodes]

    def _release(self, event: Event) -> None:
        slot, row, node = event.subject
        if not self._state.is_held(row):
            return  # the job was killed in the meantime
        self._state.release(slot, row, self._system.clock.time)
        self._released_now.append((node, int(self._state.occupancy.ints[NODE_CORES, row])))
        job = self._jobs[slot]
        if node in job.yielded:
            self._lent.setdefault(node, []).append(slot)
        self._system.clock.ask_to_close()

    def released_now(self) -> Ints:
        """Cores of each node that were released since the last pass; empty if there were none."""
        if not self._released_now:
            return np.empty(0, np.int64)
        released = np.zeros(self._state.n_nodes, np.int64)
        for node, cores in self._released_now:
            released[node] += cores
        return released

    def after_pass(self, now: float) -> None:
        """Return free nodes to the jobs that released them, with ``reclaim`` and an empty queue."""
        self._released_now.clear()
        if not self._reclaims or not self._lent or self._state.n_waiting:
            return
        for node in sorted(self._lent):
            if not self._lent[node] or not self._state.is_free(node) or self._state.n_free <= 0:
                continue
            if self._state.may_take(self._lent[node][-1], node, now):
                self._give_back(self._lent[node].pop(), node, now)

    def _give_back(self, slot: int, node: int, now: float) -> None:
        job = self._jobs[slot]
        row = self._state.return_node(slot, node, now)
        job.row_of[node] = job.returned[node] = row
        job.yielded.discard(node)
        message = NodeReturned(int(self._state.table.ints[JOB_ID, slot]), node, now)
        arrival = self._log.send(job.number, message)
        self._system.clock.at(arrival, Order.MESSAGE, self._arrive, (slot, job, message))

    def _arrive(self, event: Event) -> None:
        slot, job, message = event.subject
        if self._jobs.get(slot) is not job:
            return  # its owner has ended in the meantime, and maybe started again
        now = self._system.clock.time
        self._system.plan(slot, now, self._system.applications.apply_change(slot, now, message))

    def holders_of_returned(self, node: int) -> dict[int, int]:
        """Slot of the job, if any, that holds a node it had given up and got back, and the units of it."""
        return {
            slot: 1
            for slot, job in self._jobs.items()
            if node in job.returned and self._state.is_held(job.returned[node])
        }

    def returned_rows(self, slot: int) -> list[int]:
        """Occupancy rows that a job got by nodes that came back to it."""
        return list(self._jobs[slot].returned.values())

    def forget(self, slot: int, now: float) -> None:
        """Take note that a job ends: cancel what was planned, free what it got back."""
        job = self._jobs.pop(slot)
        for _, _, event in job.planned:
            event.cancel()
        for row in job.returned.values():
            if self._state.is_held(row):
                self._state.end_returned(slot, row, now)
        for owners in self._lent.values():
            if slot in owners:
                owners.remove(slot)
