"""L2: the mean of the user's last two run times."""

from __future__ import annotations

from mlsim.batch.predictors.job import SubmittedJob

__all__ = ["LastTwo"]


class LastTwo:
    """Mean run time of the two jobs of the same user that ended last (Tsafrir, Etsion and Feitelson 2007).

    The walltime, for users of whom fewer than two jobs have ended, and for jobs of an unknown user.
    """

    def __init__(self) -> None:
        self._before: dict[int, float] = {}
        self._last: dict[int, float] = {}

    def predict(self, job: SubmittedJob) -> float:
        """Return the mean of the user's last two run times, at most the walltime."""
        before = self._before.get(job.user)
        if before is None:
            return job.walltime
        return min((before + self._last[job.user]) / 2.0, job.walltime)

    def learn(self, job: SubmittedJob, run_time: float) -> None:
        """Record a run time as the user's last one, and the last one as the one before it."""
        if job.user < 0:
            return
        last = self._last.get(job.user)
        if last is not None:
            self._before[job.user] = last
        self._last[job.user] = run_time
