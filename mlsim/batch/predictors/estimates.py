"""Predictions in a simulation: made at submissions, learned at ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from mlsim._runtime.arrays import Floats, Ints
from mlsim.batch.columns.job_table import ESTIMATE, NUMBER, RUN, START, WALLTIME
from mlsim.batch.predictors.run_time_predictors import (
    SHORTEST,
    JobNames,
    Predictor,
    SubmittedJob,
    make_predictor,
    submitted_jobs,
)
from mlsim.batch.predictors.weekly_forests import WEEKLY, RunTimeLearner, WeeklyEstimates
from mlsim.scenario import BatchConfig
from mlsim.scenario.words import OverrunRule
from mlsim.scenario.words import Predictor as Word
from mlsim.workload.workload_jobs import JobBlock

if TYPE_CHECKING:
    from mlsim.batch.columns.job_table import JobTable


def cut(prediction: float, walltime: float) -> float:
    """Cut a prediction to [1 s, walltime]; a walltime below 1 s wins."""
    return min(max(prediction, SHORTEST), walltime)


class Estimates(Protocol):
    """Writes estimates other than the walltime into the job table."""

    def admit(self, block: JobBlock, slots: Ints, /) -> None:
        """Register jobs that will be submitted."""
        ...

    def arrive(self, slots: Ints) -> None:
        """Make the estimates of jobs that are submitted now."""
        ...

    def learn(self, slot: int, now: float) -> None:
        """Register a job that completes now, or is killed at its walltime."""
        ...


class ActualRunTimes:
    """R: the run time in the workload, at most the walltime where jobs are killed then.

    An oracle: the only one that reads the column of run times. Where jobs execute loops, run times are
    unknown before they have run, and those of the workload replace them.
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
        """No-op: estimates are complete."""

    def learn(self, slot: int, now: float) -> None:
        """Learn nothing."""


class LearnedEstimates:
    """Estimates of a predictor, which predicts at submissions and learns at ends, in simulated order."""

    def __init__(self, table: JobTable, predictor: Predictor, names: JobNames) -> None:
        self.predictor = predictor
        self._table = table
        self._names = names
        self._jobs: dict[int, SubmittedJob] = {}  # by slot; what a slot's next job overwrites
        self._ended: list[tuple[float, int, float, SubmittedJob]] = []

    def job(self, slot: int) -> SubmittedJob:
        """Return the job in a slot as predictors see it."""
        return self._jobs[slot]

    def admit(self, block: JobBlock, slots: Ints, /) -> None:
        """Register the jobs of a block; none has an estimate yet."""
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


def estimates_for(
    config: BatchConfig,
    table: JobTable,
    executable_names: Sequence[str] = (),
    local: Callable[[Floats], Floats] = np.asarray,
    seed: int = 0,
) -> Estimates | None:
    """Make the estimates of a scenario's predictor; None where estimates are walltimes.

    ``config`` names files as seen from the current directory, ``executable_names`` are those behind codes,
    and ``local`` converts submit times (s) to seconds since 1970 on the clocks of the log's time zone. Raises
    InputError if a user-defined predictor cannot be made, or a library is missing.
    """
    name = config.predictor
    if name == Word.WALLTIME:
        return None
    if name == Word.ACTUAL:
        return ActualRunTimes(table, config.on_overrun is OverrunRule.KILL)
    if name in WEEKLY:
        return WeeklyEstimates(table, RunTimeLearner(name, config.quantile_or_default, seed), local)
    return LearnedEstimates(table, make_predictor(name), JobNames(executable_names))
