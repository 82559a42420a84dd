"""Predictions in a simulation: when they are made, learned from and corrected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from mlsim.batch.clock import Event, Order
from mlsim.batch.predictors.base import CorrectingPredictor, Predictor
from mlsim.batch.predictors.catalogue import make_predictor
from mlsim.batch.predictors.job import JobNames, SubmittedJob, submitted_jobs
from mlsim.batch.table import ESTIMATE, EXPECTED, NUMBER, RUN, START, WALLTIME
from mlsim.scenario import Predictor as Word
from mlsim.workload.jobs import JobBlock

if TYPE_CHECKING:
    from mlsim.batch.simulator import BatchSystem
    from mlsim.batch.table import JobTable

__all__ = ["SHORTEST", "Corrections", "Estimates", "LearnedEstimates", "cut", "estimates_for"]

Ints = NDArray[np.int64]

SHORTEST = 1.0
"""Least prediction that a dispatcher sees [s]; policies divide by it."""


def cut(prediction: float, walltime: float) -> float:
    """Cut a prediction to [1 s, walltime]; a walltime below 1 s wins."""
    return min(max(prediction, SHORTEST), walltime)


class Estimates(Protocol):
    """What makes estimates other than the walltime; writes them into the job table."""

    def admit(self, block: JobBlock, slots: Ints, /) -> None:
        """Take note of jobs that will be submitted."""
        ...

    def arrive(self, slots: Ints) -> None:
        """Make the estimates of jobs that are submitted now."""
        ...

    def learn(self, slot: int, now: float) -> None:
        """Take note that a job completes now, or is killed at its walltime."""
        ...


class ActualRunTimes:
    """R: the run time in the workload, at most the walltime where jobs are killed then.

    An oracle: the only one that reads the column of run times. Where jobs execute loops, their run times
    are not known before they have run; the workload's stand for them.
    """

    def __init__(self, table: JobTable, kills: bool) -> None:
        self._table = table
        self._kills = kills

    def admit(self, _block: JobBlock, slots: Ints, /) -> None:
        """Write the estimates of a whole block."""
        floats = self._table.floats
        known = np.maximum(floats[RUN, slots], SHORTEST)
        floats[ESTIMATE, slots] = np.minimum(known, floats[WALLTIME, slots]) if self._kills else known

    def arrive(self, slots: Ints) -> None:
        """Nothing is left to do."""

    def learn(self, slot: int, now: float) -> None:
        """Learn nothing."""


class LearnedEstimates:
    """Asks a predictor at submissions, tells it of ends, in simulated order.

    Parameters
    ----------
    table
        The jobs in the system.
    predictor
        Whom to ask.
    names
        Names of jobs.
    """

    def __init__(self, table: JobTable, predictor: Predictor, names: JobNames) -> None:
        self.predictor = predictor
        self._table = table
        self._names = names
        self._jobs: dict[int, SubmittedJob] = {}  # by slot; what a slot's next job overwrites
        self._ended: list[tuple[float, int, float, SubmittedJob]] = []

    def job(self, slot: int) -> SubmittedJob:
        """Give the job in a slot as predictors see it."""
        return self._jobs[slot]

    def admit(self, block: JobBlock, slots: Ints, /) -> None:
        """Take note of the jobs of a block; none has an estimate yet."""
        self._jobs.update(zip(slots.tolist(), submitted_jobs(block, self._names), strict=True))
        self._table.floats[ESTIMATE, slots] = np.nan

    def arrive(self, slots: Ints) -> None:
        """Learn from the jobs that have ended by now, then predict."""
        if self._ended:
            self._learn()
        predict, jobs, floats = self.predictor.predict, self._jobs, self._table.floats
        for slot in slots.tolist():
            job = jobs[slot]
            floats[ESTIMATE, slot] = cut(predict(job), job.walltime)

    def learn(self, slot: int, now: float) -> None:
        """Keep the job until the next submission: order of ends at one time is that of arrival."""
        table = self._table
        run_time = now - float(table.floats[START, slot])
        self._ended.append((now, int(table.ints[NUMBER, slot]), run_time, self._jobs[slot]))

    def _learn(self) -> None:
        self._ended.sort(key=lambda ended: ended[:2])
        for _, _, run_time, job in self._ended:
            self.predictor.learn(job, run_time)
        self._ended.clear()


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

    def __init__(
        self, system: BatchSystem, estimates: LearnedEstimates, predictor: CorrectingPredictor
    ) -> None:
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


def estimates_for(
    name: str, table: JobTable, kills: bool, executable_names: Sequence[str] = ()
) -> Estimates | None:
    """Make what a scenario's predictor needs; None where estimates are walltimes.

    Parameters
    ----------
    name
        The predictor, files as seen from the current directory.
    table
        Where to write estimates.
    kills
        Whether jobs are killed at their walltime.
    executable_names
        Names behind the codes of executables.

    Raises
    ------
    InputError
        If a predictor of the user cannot be made.
    """
    if name == Word.WALLTIME:
        return None
    if name == Word.ACTUAL:
        return ActualRunTimes(table, kills)
    return LearnedEstimates(table, make_predictor(name), JobNames(executable_names))
