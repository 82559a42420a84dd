"""D2: the walltime of users whose walltimes have been right, and D for all others."""

from __future__ import annotations

from collections import deque
from typing import Final

from mlsim.batch.predictors.job import SubmittedJob
from mlsim.batch.predictors.variants.data_driven import DataDriven

__all__ = ["Confident"]

RECORDS: Final = 3
THRESHOLD: Final = 0.8


class Confident(DataDriven):
    """D with the user's confidence (Galleguillos 2020, Algorithm 3).

    Gives the walltime where run time / walltime of the user's last three jobs to end is at least 0.8 in the
    mean (of fewer, if there were no more), and what D gives otherwise.
    """

    def __init__(self) -> None:
        super().__init__()
        self._accuracy: dict[int, deque[float]] = {}

    def predict(self, job: SubmittedJob) -> float:
        """Return the walltime for a user whose walltimes are accurate, else the run time of a similar job."""
        records = self._accuracy.get(job.user)
        if records is not None and sum(records) / len(records) >= THRESHOLD:
            return job.walltime
        return super().predict(job)

    def learn(self, job: SubmittedJob, run_time: float) -> None:
        """Record the job, and how right its user was."""
        super().learn(job, run_time)
        if job.user < 0:
            return
        records = self._accuracy.get(job.user)
        if records is None:
            records = self._accuracy[job.user] = deque(maxlen=RECORDS)
        records.append(run_time / job.walltime)
