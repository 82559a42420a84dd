"""The interface of predictors that learn while the simulation goes on."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from mlsim.batch.predictors.job import SubmittedJob

__all__ = ["SHORTEST", "CorrectingPredictor", "Predictor"]

SHORTEST = 1.0
"""Least prediction that a dispatcher sees [s]; policies divide by it."""


class Predictor(Protocol):
    """Predicts run times.

    Calls come in simulated order. At one time, jobs that end are learned first, in order of arrival, and
    jobs that are submitted are predicted after that, in order of job id. Jobs of no length
    start after the submissions of their time, and are learned after them.
    """

    def predict(self, job: SubmittedJob) -> float:
        """Return the predicted run time of a job that is being submitted, in seconds.

        The dispatcher sees the prediction cut to [1 s, walltime].
        """
        ...

    def learn(self, job: SubmittedJob, run_time: float) -> None:
        """Take note that a job has ended now, after ``run_time`` seconds.

        It completed, or was killed at its walltime. Jobs that fail with a node are not learned from.
        """
        ...


@runtime_checkable
class CorrectingPredictor(Predictor, Protocol):
    """Predicts run times, and predicts again for jobs that outlive their prediction."""

    def correct(self, job: SubmittedJob, expired: float, corrections: int) -> float:
        """Return a new prediction for a running job that has just run for ``expired`` seconds, the old one.

        It is cut to the walltime. If it is not above ``expired``, the job is expected to end 1 s from
        now, at any time, and is not asked about again. ``corrections`` counts those before this one.
        """
        ...
