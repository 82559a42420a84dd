"""The base of all handlers, and the transitions of jobs that handlers start and listen to."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from mlsim._runtime.arrays import Floats, Ints, Mask
from mlsim.batch.clock.event_clock import Clock
from mlsim.batch.columns.job_columns import ESTIMATE, NUMBER, STATE
from mlsim.batch.job_recorder import RejectionLog
from mlsim.batch.state.batch_state import BatchState
from mlsim.coordination import Forecast
from mlsim.record import Jobs, JobState
from mlsim.workload.workload_jobs import JobBlock


class Handler:
    """One concern of the batch level: submissions, outages, releases, power caps ...

    A handler schedules events of its own on the clock, and overrides the methods below for the transitions of
    jobs that concern it. It gets the transitions, with the state and the clock, never the batch system. A
    method that a class does not override is never called, so that it costs nothing.
    """

    def __init__(self, transitions: "Transitions") -> None:
        self._transitions = transitions
        self._state, self._clock = transitions.state, transitions.clock

    def on_begin(self) -> None:
        """Schedule the events that are known at time 0."""

    def on_block(self) -> None:
        """Finish what is pending before the next block of jobs gets its slots."""

    def on_admission(self, block: JobBlock, slots: Ints, accepted: Mask, /) -> None:
        """Note jobs that will be submitted; clear the flags of those that never enter the queue."""

    def on_arrival(self, slots: Ints, now: float, /) -> None:
        """Note jobs that enter the queue now."""

    def on_start(self, slots: Ints, now: float, seconds: float, /) -> None:
        """Note jobs that a pass, which took so many wall-clock seconds, has started."""

    def on_forecast(self, slot: int, now: float, forecast: Forecast, /) -> None:
        """Schedule the forecast events of a running job in place of those scheduled before."""

    def on_completion(self, slot: int, /) -> None:
        """Note a job that is about to complete; its application still answers."""

    def on_attempt_end(self, slot: int, now: float, /) -> None:
        """Drop what is scheduled for a running job that stops, whether or not it starts again."""

    def on_run_time(self, slot: int, now: float, /) -> None:
        """Note a job whose run time is known now: it completes, or is killed at its walltime."""

    def on_outcome(self, numbers: list[int], times: list[float], completed: bool, /) -> None:
        """Note jobs, by number, that end for good at these times."""

    def on_departure(self, slots: Sequence[int], /) -> None:
        """Note jobs that have left the system; their slots will be reused."""

    def on_pass(self, now: float, n_started: int, /) -> None:
        """React to a pass that is over."""

    def on_finish(self) -> None:
        """Settle what is left when no event remains."""

    def add_columns(self, jobs: Jobs, /) -> Jobs:
        """Return the jobs with further columns."""
        return jobs


class Transitions:
    """Changes the state of jobs, and calls the handlers that listen, in the order of the list of handlers."""

    def __init__(self, state: BatchState, clock: Clock) -> None:
        self.state, self.clock = state, clock
        self.rejections = RejectionLog()
        self.connect(())

    def connect(self, handlers: Iterable[Handler]) -> None:
        """Determine once which handlers listen to which transition."""
        handlers = tuple(handlers)
        self.begin = _listeners(handlers, "on_begin")
        self.block = _listeners(handlers, "on_block")
        self.admission = _listeners(handlers, "on_admission")
        self._arrival = _listeners(handlers, "on_arrival")
        self._start = _listeners(handlers, "on_start")
        self._forecast = _listeners(handlers, "on_forecast")
        self._completion = _listeners(handlers, "on_completion")
        self._attempt_end = _listeners(handlers, "on_attempt_end")
        self._run_time = _listeners(handlers, "on_run_time")
        self._outcome = _listeners(handlers, "on_outcome")
        self._departure = _listeners(handlers, "on_departure")
        self.after_pass = _listeners(handlers, "on_pass")
        self.finish = _listeners(handlers, "on_finish")
        self.add_columns = _listeners(handlers, "add_columns")

    # Before a job runs

    def arrive(self, slots: Ints) -> None:
        """Announce jobs that enter the queue in the next pass."""
        for listener in self._arrival:
            listener(slots, self.clock.time)

    def queue_up(self, slots: Ints) -> None:
        """Add jobs that are not among the submissions of the block to the arrivals; request a pass."""
        if len(slots):
            self.arrive(slots)
            self.state.add_arrivals(slots)
            self.clock.event_over()

    def reject(self, slots: list[int], reason: str) -> None:
        """Reject jobs."""
        self.state.table.ints[STATE, slots] = JobState.REJECTED
        self.rejections.add(self.state.table.ints[NUMBER, slots], reason)
        self.depart(slots)

    def reject_unseen(self, slots: list[int], at: float | Floats, reason: str) -> None:
        """Reject jobs, at these times, that no dispatcher has seen."""
        self.state.table.floats[ESTIMATE, slots] = np.nan
        self.conclude(slots, at, completed=False)
        self.reject(slots, reason)

    def withdraw_unseen(self, slots: list[int], at: float | Floats) -> None:
        """Withdraw jobs, at these times, that no dispatcher has seen."""
        self.state.table.floats[ESTIMATE, slots] = np.nan
        self.conclude(slots, at, completed=False)
        self.state.table.ints[STATE, slots] = JobState.WITHDRAWN
        self.depart(slots)

    # Runs

    def start(self, slots: Ints, now: float, seconds: float) -> None:
        """Start the applications of jobs that a pass has started."""
        for listener in self._start:
            listener(slots, now, seconds)
        launch = self.state.applications.launch
        for slot in slots.tolist():
            self.forecast(slot, now, launch(slot, now))

    def forecast(self, slot: int, now: float, forecast: Forecast) -> None:
        """Replace the forecast of a running job."""
        for listener in self._forecast:
            listener(slot, now, forecast)

    def end(self, slot: int, outcome: JobState) -> None:
        """End a running job for good; its units are freed in the next pass."""
        now = self.clock.time
        if outcome is JobState.COMPLETED:
            for before in self._completion:
                before(slot)
        self.state.applications.finish(slot, now, outcome)
        self.end_attempt(slot, now)
        if outcome is not JobState.FAILED:  # how long a failed job would have run is not known
            for listener in self._run_time:
                listener(slot, now)
        self.state.ending.append(slot)
        self.conclude([slot], now, completed=outcome is JobState.COMPLETED)

    def end_attempt(self, slot: int, now: float) -> None:
        """Drop what is scheduled for a job that stops running."""
        for listener in self._attempt_end:
            listener(slot, now)

    def free_ended(self) -> None:
        """Free the units of jobs that end now at once, rather than in the pass."""
        for slot in self.state.ending:
            self.state.end(slot, self.clock.time)
        self.depart_ended()

    # Afterwards

    def conclude(self, slots: list[int] | Ints, at: float | Floats, *, completed: bool) -> None:
        """Announce that jobs end for good, at these times."""
        if self._outcome:
            numbers = self.state.table.ints[NUMBER, slots].tolist()
            times = np.broadcast_to(at, len(slots)).tolist()
            for listener in self._outcome:
                listener(numbers, times, completed)

    def depart(self, slots: Sequence[int]) -> None:
        """Announce that jobs have left the system."""
        for listener in self._departure:
            listener(slots)

    def depart_ended(self) -> None:
        """Announce the departure of the jobs whose units have been freed at this timestamp."""
        if self.state.ending:
            self.depart(self.state.ending)
            self.state.ending.clear()


def _listeners(handlers: Sequence[Handler], name: str) -> tuple[Callable[..., Any], ...]:
    """Return a method of those handlers whose class overrides it."""
    inherited = getattr(Handler, name)
    return tuple(
        getattr(handler, name) for handler in handlers if getattr(type(handler), name) is not inherited
    )
