"""Asking running applications for nodes that the first waiting job lacks (Eleliemy 2021, ch. 6)."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import simpy

from mlsim.batch.clock.clock import Order
from mlsim.batch.columns.table import ESTIMATE, EXECUTABLE, JOB_ID, START
from mlsim.batch.events.releases import Releases
from mlsim.batch.events.system import Attempt, System
from mlsim.coordination import Answer, MessageLog, ReleaseAccepted, ReleaseRejected, ReleaseRequest
from mlsim.scenario import AnswerRule, CoordinationConfig, RequestRule

__all__ = ["ReleaseNegotiator"]


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
