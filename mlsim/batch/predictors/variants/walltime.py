"""W: what the user asked for."""

from __future__ import annotations

from mlsim.batch.predictors.job import SubmittedJob

__all__ = ["Walltime"]


class Walltime:
    """The walltime. A simulation does not ask it: its jobs come with their walltimes as estimates."""

    def predict(self, job: SubmittedJob) -> float:
        """Return the walltime."""
        return job.walltime

    def learn(self, job: SubmittedJob, run_time: float) -> None:
        """Learn nothing."""
