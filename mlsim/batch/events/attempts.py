"""Attempts of jobs: how they end, failures that send jobs back to the queue, departures."""

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mlsim._runtime.arrays import Ints
from mlsim.batch.clock.event_clock import Event, Order
from mlsim.batch.columns import job_columns as at
from mlsim.batch.columns.occupancy import BEGIN, COUNT, FINISH, NODE_CORES
from mlsim.batch.columns.running_jobs import leave_time
from mlsim.batch.events.estimates import JobClasses
from mlsim.batch.events.handler import Handler, Transitions
from mlsim.batch.job_recorder import JobRecorder
from mlsim.coordination import Forecast, NodeFailed
from mlsim.record import Attempts, Jobs, JobState, empty
from mlsim.scenario import BatchConfig
from mlsim.scenario.words import FailureRule, OverrunRule

NO_NODE = -1  # in place of the failed node where the safeguard ended the attempt

# Columns from which the work that an attempt saved is subtracted.
_SHRINKING = (at.RUN, at.ESTIMATE, at.WALLTIME)

_NODE = 1  # place of the node in an attempt

_SHORTEST_ESTIMATE = 1.0  # estimate of the rest of a job that has outlived its estimate [s]


@dataclass(slots=True)
class _Past:
    """A job that has started again: its row of the table before the first attempt, and its attempts."""

    number: int
    run_time: float
    estimate: float
    walltime: float
    attempts: list[tuple[float, ...]]
    cores: int = 0
    backfilled: int = 0


class Restarts(Handler):
    """Ends attempts at failures of nodes and at the safeguard, and records them (``batch.on_failure``)."""

    def __init__(self, transitions: Transitions, config: BatchConfig) -> None:
        super().__init__(transitions)
        self._rule = config.on_failure
        self._most = config.most_restarts
        self._checkpoint = config.checkpoint
        self._pasts: dict[int, _Past] = {}  # by slot, of jobs in the system
        self._ended: list[tuple[float, ...]] = []

    def fail(self, slot: int, node: int) -> None:
        """End a running job that loses a node; it may return to the queue."""
        state, now = self._state, self._clock.time
        state.applications.apply_change(slot, now, NodeFailed(node))
        if self._may_restart(slot):
            self.restart(slot, node)
            return
        state.table.ints[at.STATE, slot] = JobState.FAILED
        self._transitions.end(slot, JobState.FAILED)
        state.ending.remove(slot)
        state.end(slot, now)
        self._transitions.depart([slot])

    def _may_restart(self, slot: int) -> bool:
        past = self._pasts.get(slot)
        failures = 0 if past is None else sum(attempt[_NODE] != NO_NODE for attempt in past.attempts)
        return self._rule is not FailureRule.DIE and failures < self._most

    def restart(self, slot: int, node: int) -> None:
        """End an attempt at the failure of a node, or at the safeguard, and requeue its job."""
        state, now = self._state, self._clock.time
        busy = state.applications.requeue(slot, now)
        rows = [*state.rows_of(slot), *state.returned.get(slot, {}).values()]
        self._transitions.end_attempt(slot, now)
        state.end(slot, now)
        ints, times = state.occupancy.ints[:, rows], state.occupancy.floats[:, rows]
        core_seconds = ints[COUNT] * ints[NODE_CORES] * (times[FINISH] - times[BEGIN])
        self._record_attempt(slot, now, node, busy, float(core_seconds.sum()))
        state.requeue(slot, now)
        self._clock.request_pass()

    def _record_attempt(self, slot: int, now: float, node: int, busy: float, core_seconds: float) -> None:
        """Record an attempt that computed ``busy`` PE-seconds and held so many core-seconds.

        The job still has the times of its attempt.
        """
        state = self._state
        floats, ints = state.table.floats, state.table.ints
        past = self._pasts.get(slot)
        if past is None:
            run_time, estimate, walltime = (float(floats[column, slot]) for column in _SHRINKING)
            past = self._pasts[slot] = _Past(state.number(slot), run_time, estimate, walltime, [])
        past.cores, past.backfilled = int(ints[at.CORES, slot]), int(ints[at.BACKFILLED, slot])
        start = float(floats[at.START, slot])
        kept = 0.0 if node == NO_NODE else self._kept(now - start)
        floats[at.RUN, slot] -= kept
        for column in (at.ESTIMATE, at.WALLTIME):
            time = float(floats[column, slot])
            floats[column, slot] = time - kept if time > kept else min(time, _SHORTEST_ESTIMATE)
        # A job that can keep work holds all its nodes to its end.
        lost = core_seconds - kept * past.cores
        past.attempts.append((past.number, node, start, now, kept, lost, busy))
        state.restarts[slot] = len(past.attempts)

    def _kept(self, ran: float) -> float:
        """Return the seconds of an attempt that need not be done again."""
        if self._rule is not FailureRule.RESUME:
            return 0.0
        if self._checkpoint is None:
            return ran
        return min(math.floor(ran / self._checkpoint + 1e-9) * self._checkpoint, ran)

    def on_departure(self, slots: Sequence[int]) -> None:
        """Keep the attempts of jobs that leave; restore the run times and walltimes of the workload."""
        for slot in slots if self._pasts else ():
            past = self._pasts.pop(slot, None)
            if past is not None:
                del self._state.restarts[slot]
                self._state.table.floats[_SHRINKING, slot] = past.run_time, past.estimate, past.walltime
                self._ended += past.attempts

    def on_finish(self) -> None:
        """Remove jobs that can never start from the queue: those that ran before fail, others are rejected.

        Nodes that are out of use for good may leave such jobs.
        """
        stranded = self._state.empty_queue()
        failed = [slot for slot in stranded if self._fail_stranded(slot)]
        self._transitions.depart(failed)
        never = [slot for slot in stranded if slot not in failed]
        self._transitions.reject(never, "waited until nothing could start it any more")

    def _fail_stranded(self, slot: int) -> bool:
        """Mark a job that ran before as failed, with the times of its last attempt; return whether it did."""
        past = self._pasts.get(slot)
        if past is None:
            return False
        table = self._state.table
        _, _, start, end, *_ = past.attempts.pop()
        table.floats[at.START, slot], table.floats[at.END, slot] = start, end
        table.ints[at.CORES, slot], table.ints[at.BACKFILLED, slot] = past.cores, past.backfilled
        table.ints[at.STATE, slot] = JobState.FAILED
        return True

    def record(self) -> Attempts:
        """Return the ended attempts of jobs that have left, by job, then start."""
        if not self._ended:
            return empty(Attempts)
        rows = sorted(self._ended, key=lambda row: (row[0], row[2]))
        job, node, *others = (np.array(column) for column in zip(*rows, strict=True))
        return Attempts(job.astype(np.int64), node.astype(np.int64), *others)


class JobEnds(Handler):
    """Ends running jobs at their forecast end, at their walltime, or at the safeguard of classes.

    With ``cancels`` ends may be cancelled: forecasts change, or attempts end early.
    """

    def __init__(
        self,
        transitions: Transitions,
        restarts: Restarts,
        classes: JobClasses | None,
        config: BatchConfig,
        cancels: bool,
    ) -> None:
        super().__init__(transitions)
        self._restarts, self._classes = restarts, classes
        self._kills = config.on_overrun is OverrunRule.KILL
        self._events: dict[int, Event] | None = {} if cancels else None  # by slot

    def on_forecast(self, slot: int, _now: float, forecast: Forecast) -> None:
        """Schedule the end of a job; ``planned_end`` is when it leaves."""
        floats = self._state.table.floats
        start, walltime = float(floats[at.START, slot]), float(floats[at.WALLTIME, slot])
        end = leave_time(forecast.end, start, walltime, self._kills)
        handler = self._kill if end < forecast.end else self._complete
        if self._classes is not None and (limit := start + self._classes.limit(slot)) < end:
            end, handler = float(limit), self._restart_as_large
        floats[at.PLANNED, slot] = end
        event = self._clock.at(end, Order.END, handler, slot)
        if self._events is not None:
            if slot in self._events:
                self._events[slot].cancel()
            self._events[slot] = event

    def on_attempt_end(self, slot: int, _now: float) -> None:
        """Cancel the end of a job that stops."""
        if self._events is not None:
            self._events.pop(slot).cancel()

    def _complete(self, event: Event) -> None:
        self._transitions.end(event.subject, JobState.COMPLETED)
        self._clock.event_over()

    def _kill(self, event: Event) -> None:
        self._state.table.ints[at.STATE, event.subject] = JobState.KILLED
        self._transitions.end(event.subject, JobState.KILLED)
        self._clock.event_over()

    def _restart_as_large(self, event: Event) -> None:
        """Kill a job that was taken for small and runs past its divider; it starts again as a large one."""
        assert self._classes is not None
        self._classes.make_large(event.subject)
        self._restarts.restart(event.subject, NO_NODE)


class DispatchTimes(Handler):
    """Records the wall-clock time of the pass that started each job."""

    def __init__(self, transitions: Transitions) -> None:
        super().__init__(transitions)
        self._numbers: list[Ints] = []
        self._seconds = array("d")

    def on_start(self, slots: Ints, _now: float, seconds: float) -> None:
        """Record a pass that started jobs."""
        self._numbers.append(self._state.table.ints[at.NUMBER, slots])
        self._seconds.append(seconds)

    def add_columns(self, jobs: Jobs) -> Jobs:
        """Return the jobs with their dispatch times, those of the last attempt where there were several."""
        times = np.full(len(jobs.job_id), np.nan)
        if self._numbers:
            many = [len(numbers) for numbers in self._numbers]
            times[np.concatenate(self._numbers)] = np.repeat(np.array(self._seconds), many)
        return replace(jobs, dispatch_time=times)


class Departures(Handler):
    """Moves the rows of jobs that have left to the recorder, many at a time; ``count`` are all so far."""

    def __init__(self, transitions: Transitions, recorder: JobRecorder) -> None:
        super().__init__(transitions)
        self._recorder = recorder
        self._slots: list[int] = []
        self.count = 0

    def on_departure(self, slots: Sequence[int]) -> None:
        """Keep slots until the next flush."""
        self._slots.extend(slots)
        self.count += len(slots)

    def flush(self) -> None:
        """Record the rows, and free the slots."""
        self._recorder.record_ended(np.array(self._slots, np.int64))
        self._slots.clear()

    def on_finish(self) -> None:
        """Record the remaining rows."""
        self.flush()
