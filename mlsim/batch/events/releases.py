"""Nodes released early, and requests for nodes of running jobs (Eleliemy 2021, ch. 6)."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import simpy

from mlsim._arrays import Ints
from mlsim.batch.clock.event_clock import Event, Order
from mlsim.batch.columns.job_table import ESTIMATE, EXECUTABLE, JOB_ID, START
from mlsim.batch.columns.occupancy import NODE, NODE_CORES
from mlsim.batch.events.event_context import Attempt, System
from mlsim.coordination import (
    Answer,
    Forecast,
    MessageLog,
    NodeReturned,
    ReleaseAccepted,
    ReleaseRejected,
    ReleaseRequest,
)
from mlsim.scenario import AnswerRule, CoordinationConfig, RequestRule


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


class ReleaseNegotiator:
    """Asks for nodes on behalf of the queue's head, one application after the other.

    Each head is asked for once. The applications are asked in order of the least expected harm: those
    whose executable has left its nodes idle the longest in earlier runs, then those with the least
    work left by estimates.

    Parameters
    ----------
    system
        The batch system.
    releases
        What schedules releases of nodes.
    log
        Where messages are noted, and how long they take.
    lends
        Whether applications give up nodes that they could use, and so have a claim to them.
    """

    def __init__(self, system: System, releases: Releases, log: MessageLog, lends: bool) -> None:
        self._lends = lends
        self._releases = releases
        self._system = system
        self._state = system.state
        self._log = log
        self._history: dict[int, tuple[float, int]] = {}  # executable -> sum of idle shares, runs
        self._asked_for: set[int] = set()
        self._is_asking = False
        self._promised: list[int] = []  # occupancy rows of nodes that will come

    @classmethod
    def of(
        cls, system: System, releases: Releases, log: MessageLog, coordination: CoordinationConfig
    ) -> ReleaseNegotiator | None:
        """Make what a scenario asks for; None if nobody is ever asked."""
        if coordination.requests is RequestRule.NEVER:
            return None
        return cls(system, releases, log, lends=coordination.answer is not AnswerRule.IDLE_ONLY)

    def record_use(self, slot: int) -> None:
        """Record how a job that is about to complete has used its nodes, if its executable is known."""
        executable = int(self._state.table.ints[EXECUTABLE, slot])
        if executable < 0:
            return
        total, runs = self._history.get(executable, (0.0, 0))
        self._history[executable] = (total + self._system.applications.idle_share(slot), runs + 1)

    def after_pass(self, now: float) -> None:
        """Start asking, if the queue's head lacks nodes and has not been asked for yet."""
        if self._is_asking or not self._state.n_waiting:
            return
        head = self._state.head(now)
        number = self._state.number(head)
        if number not in self._asked_for and not self._state.lacks_shared(head):
            self._asked_for.add(number)
            self._is_asking = True
            self._promised = []
            attempt = self._system.attempt(head)
            self._system.clock.process(self._ask_for(head, attempt, self._candidates(now)))

    def _candidates(self, now: float) -> list[tuple[int, Attempt]]:
        """Slots and attempts of the jobs that could give up a node, least harm first."""
        jobs = [slot for slot in self._state.running() if self._state.held(slot) >= 2]
        jobs.sort(key=lambda slot: self._harm(slot, now))
        return [(slot, self._system.attempt(slot)) for slot in jobs]

    def _harm(self, slot: int, now: float) -> tuple[bool, float, float, int]:
        table = self._state.table
        executable = int(table.ints[EXECUTABLE, slot])
        total, runs = self._history.get(executable, (0.0, 0))
        left = max(float(table.floats[START, slot] + table.floats[ESTIMATE, slot]) - now, 0.0)
        share = total / runs if runs else 0.0
        return runs == 0, -share, self._state.held(slot) * left, int(table.ints[JOB_ID, slot])

    def _ask_for(
        self, head: int, attempt: Attempt, candidates: list[tuple[int, Attempt]]
    ) -> Generator[simpy.Event, Any, None]:
        """SimPy process: one request and its answer after the other."""
        clock = self._system.clock
        for slot, asked in candidates:
            missing = self._missing(head, attempt)
            if missing <= 0:
                break
            request = ReleaseRequest(
                self._job_id(slot) if self._state.number(slot) == asked[0] else -1,
                clock.time,
                missing,
                self._job_id(head),
                self._state.reservation(head, clock.time),
            )
            yield clock.until(self._log.send(asked[0], request), Order.MESSAGE)
            answer = self._answer(slot, asked, request)
            if isinstance(answer, ReleaseAccepted):
                self._promised += self._releases.promise(slot, answer.nodes, self._lends)
            yield clock.until(self._log.send(asked[0], answer), Order.MESSAGE)
        self._is_asking = False
        clock.ask_to_close()

    def _answer(self, slot: int, asked: Attempt, request: ReleaseRequest) -> Answer:
        now = self._system.clock.time
        self._system.free_ended()
        if self._system.attempt(slot) != asked or not self._is_running(slot):
            return ReleaseRejected(request.job, now, "the job has ended")
        answer, forecast = self._system.applications.request_release(slot, now, request)
        if isinstance(answer, ReleaseAccepted):
            self._system.plan(slot, now, forecast)
        return answer

    def _is_running(self, slot: int) -> bool:
        return slot in self._state.running()

    def _missing(self, head: int, attempt: Attempt) -> int:
        """Nodes that the head lacks beyond those that are free or promised."""
        self._system.free_ended()
        if self._system.attempt(head) != attempt or not self._state.is_waiting(head, attempt[0]):
            return 0
        if self._state.lacks_shared(head):
            return 0
        now = self._system.clock.time
        coming = sum(self._state.will_come(row, head, now) for row in self._promised)
        return self._state.units(head) - self._state.room_for(head, now) - coming

    def _job_id(self, slot: int) -> int:
        return int(self._state.table.ints[JOB_ID, slot])
