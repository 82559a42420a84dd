"""Updates of estimates and classes of jobs at events, and corrections of outlived estimates."""

from dataclasses import dataclass

import numpy as np

from mlsim._runtime.arrays import Ints, Mask
from mlsim.batch.clock.event_clock import Clock, Event, Order
from mlsim.batch.columns.job_table import EXPECTED, PLANNED, START
from mlsim.batch.events.handler import Handler
from mlsim.batch.predictors.estimates import Estimates, LearnedEstimates, cut
from mlsim.batch.predictors.run_time_predictors import CorrectingPredictor
from mlsim.batch.predictors.weekly_forests import JobClasses
from mlsim.batch.state.batch_state import BatchState
from mlsim.coordination import Forecast
from mlsim.record import Jobs
from mlsim.workload.workload_jobs import JobBlock


class EstimateUpdates(Handler):
    """Makes the estimates of jobs that arrive, from the run times of those that have ended."""

    def __init__(self, estimates: Estimates) -> None:
        self._estimates = estimates

    def on_admission(self, block: JobBlock, slots: Ints, _accepted: Mask) -> None:
        """Note the jobs of a block."""
        self._estimates.admit(block, slots)

    def on_arrival(self, slots: Ints, _now: float) -> None:
        """Estimate the run times of jobs that arrive."""
        self._estimates.arrive(slots)

    def on_run_time(self, slot: int, now: float) -> None:
        """Learn a run time."""
        self._estimates.learn(slot, now)


class ClassUpdates(Handler):
    """Classifies jobs that arrive as small or large, from the run times of those that have ended."""

    def __init__(self, classes: JobClasses) -> None:
        self._classes = classes

    def on_admission(self, block: JobBlock, slots: Ints, accepted: Mask) -> None:
        """Note the jobs of a block that may enter the queue."""
        self._classes.admit(block.select(np.flatnonzero(accepted)), slots[accepted])

    def on_arrival(self, slots: Ints, now: float) -> None:
        """Classify jobs that arrive."""
        self._classes.arrive(slots, now)

    def on_run_time(self, slot: int, now: float) -> None:
        """Learn a run time."""
        self._classes.learn(slot, now)

    def add_columns(self, jobs: Jobs) -> Jobs:
        """Return the jobs with their classes and dividers."""
        return self._classes.added_to(jobs)


@dataclass(slots=True)
class _Watched:
    """A running job: its corrections so far, and the event at which its estimate is over."""

    corrections: int = 0
    event: Event | None = None


class Corrections(Handler):
    """Raises the expected ends of jobs that outlive their estimates.

    A correction requests a pass, because it moves reservations.
    """

    def __init__(
        self, state: BatchState, clock: Clock, estimates: LearnedEstimates, predictor: CorrectingPredictor
    ) -> None:
        self._state, self._clock = state, clock
        self._estimates, self._predictor = estimates, predictor
        self._watched: dict[int, _Watched] = {}

    def on_forecast(self, slot: int, _now: float, _forecast: Forecast) -> None:
        """Schedule a correction if the job will outlive its estimate."""
        watched = self._watched.get(slot)
        if watched is None:
            watched = self._watched[slot] = _Watched()
        self._schedule(slot, watched)

    def on_attempt_end(self, slot: int, _now: float) -> None:
        """Cancel the correction of a job that stops."""
        watched = self._watched.pop(slot)
        if watched.event is not None:
            watched.event.cancel()

    def _schedule(self, slot: int, watched: _Watched) -> None:
        floats = self._state.table.floats
        expected = float(floats[EXPECTED, slot])
        if watched.event is None and expected < floats[PLANNED, slot]:
            at = max(expected, self._clock.time)
            watched.event = self._clock.at(at, Order.CORRECTION, self._correct, slot)

    def _correct(self, event: Event) -> None:
        slot: int = event.subject
        watched, job = self._watched[slot], self._estimates.job(slot)
        floats = self._state.table.floats
        expired = float(floats[EXPECTED, slot] - floats[START, slot])
        seconds = cut(self._predictor.correct(job, expired, watched.corrections), job.walltime)
        expected = float(floats[START, slot]) + seconds
        if expected <= self._clock.time:
            return  # keeps its event, so that the predictor is not called again
        watched.event = None
        watched.corrections += 1
        self._state.expect(slot, expected)
        self._clock.request_pass()
        self._schedule(slot, watched)
