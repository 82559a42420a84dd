"""Forecasts of running jobs that the dispatcher plans with, and their errors (``coordination.forecasts``)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mlsim._runtime.arrays import Floats
from mlsim.batch.clock.event_clock import Event, Order
from mlsim.batch.columns import job_columns as at
from mlsim.batch.columns.occupancy import NODE, NODE_CORES
from mlsim.batch.columns.running_jobs import OVERDUE_GRACE
from mlsim.batch.events.handler import Handler, Transitions
from mlsim.batch.state.expected_nodes import ExpectedNodes
from mlsim.coordination import NO_IDLE, Forecast, IdleNodes
from mlsim.platform import Machine
from mlsim.scenario.words import ForecastScope

_STREAM = 0xF0CA  # keeps the random numbers of errors apart from others that are keyed by seed and job
_UNSIGNED = (1 << 64) - 1


@dataclass(slots=True)
class _Foreseen:
    """A running job: the messages that will release its nodes, forecasts so far, and the next one."""

    idle: IdleNodes = NO_IDLE
    pes: int | None = None  # the most of a node
    count: int = 0
    event: Event | None = None


class Forecasts(Handler):
    """Passes forecasts of running jobs to the dispatcher, with errors, and revises those that have passed.

    Each forecast multiplies the actual remaining times, of all nodes alike, by a lognormal number of mean 1,
    keyed by seed, job, attempt and number of the forecast.
    """

    def __init__(
        self,
        transitions: Transitions,
        seen: Mapping[ForecastScope, float],
        latency: float,
        machine: Machine,
        seed: int,
    ) -> None:
        super().__init__(transitions)
        ((self._scope, error),) = seen.items()
        self._variance = math.log1p(error**2)
        self._latency, self._speed, self._seed = latency, machine.speed, seed
        self._jobs: dict[int, _Foreseen] = {}
        self._nodes: ExpectedNodes | None = None
        if self._scope is ForecastScope.NODES:
            state = self._state
            uncounted = state.room.are_uncounted
            self._nodes = state.expected_nodes = ExpectedNodes(state, machine.n_cores, uncounted)
            state.ensure_capacity()

    def on_forecast(self, slot: int, now: float, forecast: Forecast) -> None:
        """Schedule the next forecast that the dispatcher sees, in place of the one scheduled before."""
        job, end = self._jobs.setdefault(slot, _Foreseen()), self._state.table.floats[at.PLANNED, slot]
        if self._scope is not ForecastScope.ENDS:
            idle = IdleNodes.of(forecast.idle[:-1])
            job.idle = idle[: int(np.searchsorted(idle.time + self._latency, end))]
            job.pes = forecast.pes_per_node
        arrivals = job.idle.time + self._latency
        work = self._scope is ForecastScope.REMAINING_WORK
        self._schedule(slot, arrivals[arrivals >= now] if work else np.array([now + self._latency]))

    def on_attempt_end(self, slot: int, _now: float) -> None:
        """Cancel the forecasts of a job that stops."""
        self._schedule(slot, np.empty(0))
        del self._jobs[slot]
        if self._nodes is not None:
            self._nodes.forget(slot)

    def _schedule(self, slot: int, times: Floats) -> None:
        """Show the dispatcher a forecast at the first of some times [s], and at no other scheduled before."""
        job = self._jobs[slot]
        if job.event is not None:
            job.event.cancel()
        see = self._see_work if self._scope is ForecastScope.REMAINING_WORK else self._see
        job.event = self._clock.at(float(times[0]), Order.MESSAGE, see, slot) if len(times) else None

    def _see(self, event: Event) -> None:
        """Show the dispatcher when a job ends, and releases its nodes."""
        slot, now, state = event.subject, self._clock.time, self._state
        job = self._jobs[slot]
        coming = job.idle.time + self._latency > now
        actual = np.append(job.idle.time[coming] + self._latency, state.table.floats[at.PLANNED, slot])
        factor = self._draw(slot, job)
        seen = actual if factor == 1.0 else now + np.maximum(factor * (actual - now), OVERDUE_GRACE)
        seen = np.minimum(seen, self._limit(slot))
        self._expect(slot, seen[-1])
        if self._nodes is not None:
            rows = state.rows_of(slot)
            nodes = state.occupancy.ints[NODE, rows.start : rows.stop].tolist()
            place = dict(zip(nodes, rows, strict=True))
            held = np.array([place[node] for node in job.idle.node[coming].tolist()], np.int64)
            self._nodes.expect(slot, held, seen[:-1])
        self._schedule(slot, seen[seen < actual])

    def _see_work(self, event: Event) -> None:
        """Show the dispatcher the end of a job by the remaining work in its last message about an idle node.

        That is when the PEs of the nodes that it still holds have shared this work evenly.
        """
        slot, now, state = event.subject, self._clock.time, self._state
        job, ints = self._jobs[slot], state.occupancy.ints
        rows = [*state.rows_of(slot), *state.returned.get(slot, {}).values()]
        held = np.array([row for row in rows if state.is_held(row)], np.int64)
        pes = ints[NODE_CORES, held] if job.pes is None else np.minimum(ints[NODE_CORES, held], job.pes)
        speed = (pes * self._speed[ints[NODE, held]]).sum()
        arrivals = job.idle.time + self._latency
        last = int(np.searchsorted(arrivals, now, "right")) - 1
        end = job.idle.time[last] + self._draw(slot, job) * job.idle.remaining_work[last] / speed
        self._expect(slot, min(max(end, now + OVERDUE_GRACE), self._limit(slot)))
        self._schedule(slot, arrivals[last + 1 :])

    def _expect(self, slot: int, end: float) -> None:
        self._state.expect(slot, float(end))
        self._clock.request_pass()

    def _limit(self, slot: int) -> float:
        """Return the end of a job's walltime [s]; infinity if the job has outlived it."""
        floats = self._state.table.floats
        limit = float(floats[at.START, slot] + floats[at.WALLTIME, slot])
        return limit if limit > self._clock.time else math.inf

    def _draw(self, slot: int, job: _Foreseen) -> float:
        """Return forecast by actual remaining time, for the next forecast of a job."""
        job.count += 1
        key = int(self._state.table.ints[at.JOB_ID, slot]) & _UNSIGNED, self._state.restarts.get(slot, 0)
        if self._variance == 0.0:
            return 1.0
        sequence = np.random.SeedSequence(self._seed, spawn_key=(_STREAM, *key, job.count))
        normal = np.random.default_rng(sequence).standard_normal()
        return math.exp(math.sqrt(self._variance) * normal - self._variance / 2.0)
