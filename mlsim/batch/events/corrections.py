"""Corrections of predictions that running jobs have outlived."""

from __future__ import annotations

from dataclasses import dataclass

from mlsim.batch.clock.clock import Event, Order
from mlsim.batch.columns.table import EXPECTED, START
from mlsim.batch.events.system import System
from mlsim.batch.predictors.base import CorrectingPredictor
from mlsim.batch.predictors.estimates import LearnedEstimates, cut

__all__ = ["Corrections"]


@dataclass(slots=True)
class _Watched:
    """A running job: its planned end, how often it was corrected, what will happen when its time is up."""

    end: float
    corrections: int = 0
    event: Event | None = None


class Corrections:
    """Raises the expected ends of jobs that outlive their predictions.

    A correction is followed by a pass, because it moves reservations.

    Parameters
    ----------
    system
        The batch system.
    estimates, predictor
        Who knows the jobs, and who corrects.
    """

    def __init__(self, system: System, estimates: LearnedEstimates, predictor: CorrectingPredictor) -> None:
        self._system = system
        self._estimates = estimates
        self._predictor = predictor
        self._watched: dict[int, _Watched] = {}

    def plan(self, slot: int, end: float) -> None:
        """Watch a job that will run until ``end``, as far as is known now."""
        watched = self._watched.get(slot)
        if watched is None:
            watched = self._watched[slot] = _Watched(end)
        watched.end = end
        self._wait(slot, watched)

    def forget(self, slot: int) -> None:
        """Take note that a job has ended."""
        watched = self._watched.pop(slot)
        if watched.event is not None:
            watched.event.cancel()

    def _wait(self, slot: int, watched: _Watched) -> None:
        clock, expected = self._system.clock, float(self._system.state.table.floats[EXPECTED, slot])
        if watched.event is None and expected < watched.end:
            at = max(expected, clock.time)
            watched.event = clock.at(at, Order.CORRECTION, self._correct, slot)

    def _correct(self, event: Event) -> None:
        slot: int = event.subject
        watched, job = self._watched[slot], self._estimates.job(slot)
        floats = self._system.state.table.floats
        expired = float(floats[EXPECTED, slot] - floats[START, slot])
        seconds = cut(self._predictor.correct(job, expired, watched.corrections), job.walltime)
        expected = float(floats[START, slot]) + seconds
        if expected <= self._system.clock.time:
            return  # keeps its event, so that it is not asked about again
        watched.event = None
        watched.corrections += 1
        self._system.state.expect(slot, expected)
        self._system.clock.ask_to_close()
        self._wait(slot, watched)
