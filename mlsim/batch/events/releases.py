"""Nodes released early, and requests for nodes of running jobs (Eleliemy 2021, ch. 6)."""

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import simpy

from mlsim import coordination
from mlsim._runtime.arrays import Ints
from mlsim.batch.clock.event_clock import Event, Order
from mlsim.batch.columns.job_columns import ESTIMATE, EXECUTABLE, JOB_ID, START
from mlsim.batch.columns.occupancy import NODE, NODE_CORES
from mlsim.batch.events.handler import Handler, Transitions
from mlsim.batch.job_recorder import MessageLog
from mlsim.batch.state.batch_state import Attempt
from mlsim.scenario.batch_section import CoordinationConfig
from mlsim.scenario.words import AnswerRule, ReleasedNodes

NOTHING = np.empty(0, np.int64)


@dataclass(slots=True)
class _Held:
    """A running job: its nodes, the releases scheduled for them, and the nodes given up on request."""

    number: int
    row_of: dict[int, int]
    planned: list[tuple[float, int, Event]] = field(default_factory=list)
    yielded: set[int] = field(default_factory=set)


class Releases(Handler):
    """Releases idle nodes according to forecasts, and returns nodes to their owners (``reclaim``)."""

    def __init__(self, transitions: Transitions, log: MessageLog, config: CoordinationConfig) -> None:
        super().__init__(transitions)
        self._log = log
        self._reclaims = config.reclaim
        self._short_first = config.released_nodes is ReleasedNodes.SHORT_FIRST
        self._jobs: dict[int, _Held] = {}
        self._lent: dict[int, list[int]] = {}  # node -> slots of the running jobs that gave it up, in order
        self._released_now: list[tuple[int, int]] = []  # nodes and cores, since the last pass

    def on_forecast(self, slot: int, now: float, forecast: coordination.Forecast) -> None:
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
                event = self._clock.at(arrival, Order.RELEASE, self._release, subject)
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
        self._state.release(slot, row, self._clock.time)
        self._released_now.append((node, int(self._state.occupancy.ints[NODE_CORES, row])))
        job = self._jobs[slot]
        if node in job.yielded:
            self._lent.setdefault(node, []).append(slot)
        self._clock.request_pass()

    def released_now(self) -> Ints:
        """Return the cores of each node released since the last pass, if they go to short jobs; else none."""
        if not self._released_now or not self._short_first:
            return NOTHING
        released = np.zeros(self._state.n_nodes, np.int64)
        for node, cores in self._released_now:
            released[node] += cores
        return released

    def on_pass(self, now: float, _n_started: int) -> None:
        """Return free nodes to the jobs that released them, with ``reclaim`` and an empty queue."""
        self._released_now.clear()
        if not self._reclaims or not self._lent or self._state.n_waiting:
            return
        room = self._state.room
        for node in sorted(self._lent):
            if not self._lent[node] or not room.is_free(node) or self._state.n_free <= 0:
                continue
            if room.may_take(self._lent[node][-1], node, now):
                self._give_back(self._lent[node].pop(), node, now)

    def _give_back(self, slot: int, node: int, now: float) -> None:
        job = self._jobs[slot]
        job.row_of[node] = self._state.return_node(slot, node, now)
        job.yielded.discard(node)
        message = coordination.NodeReturned(int(self._state.table.ints[JOB_ID, slot]), node, now)
        arrival = self._log.send(job.number, message)
        self._clock.at(arrival, Order.MESSAGE, self._node_arrives, (slot, job, message))

    def _node_arrives(self, event: Event) -> None:
        """Return a node to the application of its owner."""
        slot, job, message = event.subject
        if self._jobs.get(slot) is not job:
            return  # its owner has ended in the meantime, and maybe started again
        now = self._clock.time
        self._transitions.forecast(slot, now, self._state.applications.apply_change(slot, now, message))

    def on_attempt_end(self, slot: int, now: float) -> None:
        """Cancel what is scheduled for a job that stops; free the nodes that were returned to it."""
        job = self._jobs.pop(slot)
        for _, _, event in job.planned:
            event.cancel()
        self._state.end_returned(slot, now)
        for owners in self._lent.values():
            if slot in owners:
                owners.remove(slot)


class ReleaseNegotiator(Handler):
    """Requests nodes for the queue's head, from one application after the other.

    Each head gets one round of requests. The applications are asked in order of the least expected harm:
    those whose executable has left its nodes idle the longest in earlier runs, then those with the least work
    left by estimates.
    """

    def __init__(
        self, transitions: Transitions, releases: Releases, log: MessageLog, config: CoordinationConfig
    ) -> None:
        super().__init__(transitions)
        self._releases, self._log = releases, log
        # Whether applications give up nodes that they could use, and so have a claim to them.
        self._lends = config.answer is not AnswerRule.IDLE_ONLY
        self._history: dict[int, tuple[float, int]] = {}  # executable -> sum of idle shares, runs
        self._asked_for: set[int] = set()
        self._is_asking = False
        self._promised: list[int] = []  # occupancy rows of nodes that will come

    def on_completion(self, slot: int) -> None:
        """Record the idle share of a job's nodes, if its executable is known."""
        executable = int(self._state.table.ints[EXECUTABLE, slot])
        if executable < 0:
            return
        total, runs = self._history.get(executable, (0.0, 0))
        self._history[executable] = (total + self._state.applications.idle_share(slot), runs + 1)

    def on_pass(self, now: float, _n_started: int) -> None:
        """Start a round of requests, if the queue's head lacks nodes and has had none yet."""
        if self._is_asking or not self._state.n_waiting:
            return
        head = self._state.head(now)
        number = self._state.number(head)
        if number not in self._asked_for and not self._state.room.lacks_shared(head):
            self._asked_for.add(number)
            self._is_asking = True
            self._promised = []
            attempt = self._state.attempt(head)
            self._clock.process(self._ask_for(head, attempt, self._candidates(head, now)))

    def _candidates(self, head: int, now: float) -> list[tuple[int, Attempt]]:
        """Return slots and attempts of the jobs that could give up a node to the head, least harm first."""
        jobs = [slot for slot in self._state.running() if self._state.held(slot) >= 2]
        if self._state.requests.node_sets:
            jobs = [slot for slot in jobs if self._state.holds_usable(slot, head)]
        jobs.sort(key=lambda slot: self._harm(slot, now))
        return [(slot, self._state.attempt(slot)) for slot in jobs]

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
        clock = self._clock
        for slot, asked in candidates:
            missing = self._missing(head, attempt)
            if missing <= 0:
                break
            request = coordination.ReleaseRequest(
                self._job_id(slot) if self._state.number(slot) == asked[0] else -1,
                clock.time,
                missing,
                self._job_id(head),
                self._state.room.reservation(head, clock.time),
            )
            yield clock.until(self._log.send(asked[0], request), Order.MESSAGE)
            answer = self._answer(slot, asked, request)
            if isinstance(answer, coordination.ReleaseAccepted):
                self._promised += self._releases.promise(slot, answer.nodes, self._lends)
            yield clock.until(self._log.send(asked[0], answer), Order.MESSAGE)
        self._is_asking = False
        clock.request_pass()

    def _answer(self, slot: int, asked: Attempt, request: coordination.ReleaseRequest) -> coordination.Answer:
        now = self._clock.time
        self._transitions.free_ended()
        if self._state.attempt(slot) != asked or slot not in self._state.running():
            return coordination.ReleaseRejected(request.job, now, "the job has ended")
        answer, forecast = self._state.applications.request_release(slot, now, request)
        if isinstance(answer, coordination.ReleaseAccepted):
            self._transitions.forecast(slot, now, forecast)
        return answer

    def _missing(self, head: int, attempt: Attempt) -> int:
        """Return the nodes that the head lacks beyond those that are free or promised."""
        self._transitions.free_ended()
        state, now = self._state, self._clock.time
        if state.attempt(head) != attempt or not state.is_waiting(head, attempt[0]):
            return 0
        if state.room.lacks_shared(head):
            return 0
        coming = sum(state.will_come(row, head, now) for row in self._promised)
        return state.units(head) - state.room.room_for(head, now) - coming

    def _job_id(self, slot: int) -> int:
        return int(self._state.table.ints[JOB_ID, slot])
