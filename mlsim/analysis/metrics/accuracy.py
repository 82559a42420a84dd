"""Accuracy of estimates of run times."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlsim._arrays import Floats
from mlsim.record import Jobs, JobState
from mlsim.record.blocks import blocks_of
from mlsim.record.derived import run_time

__all__ = ["WITHIN", "accuracy", "estimate_metrics"]


WITHIN = 0.25
"""How far from 1 the accuracy A may be to count as near (Galleguillos 2020, §4.1.2)."""


def accuracy(predicted: Floats, actual: Floats) -> dict[str, Any]:
    """Compare estimates with run times.

    Parameters
    ----------
    predicted, actual
        One value a job [s]; ``predicted`` above 0.

    Returns
    -------
    dict
        ``jobs``; ``mae``, the mean of abs(predicted - actual) [s]; ``under`` and ``over``: ``share`` of the
        jobs whose estimate is too short or too long, and the ``mean`` [s] by how much, over these; ``exact``:
        share of the others; ``within_25``: share of the jobs with 0.75 <= A <= 1.25, where A = actual /
        predicted (Galleguillos 2020, §4.1.2). None where there is no job to take a share or mean of.
    """
    errors = _Errors()
    errors.add(predicted, actual)
    return errors.summary()


class _Errors:
    """Sums of errors over jobs, block by block."""

    def __init__(self) -> None:
        self._jobs = self._under = self._over = self._exact = self._near = 0
        self._error = self._too_short = self._too_long = 0.0

    def add(self, predicted: Floats, actual: Floats) -> None:
        """Add some jobs."""
        error = predicted - actual
        under, over = error < 0, error > 0
        self._jobs += len(error)
        self._under += int(np.count_nonzero(under))
        self._over += int(np.count_nonzero(over))
        self._exact += int(np.count_nonzero(error == 0))
        self._near += int(np.count_nonzero(np.abs(actual / predicted - 1.0) <= WITHIN))
        self._error += float(np.sum(np.abs(error)))
        self._too_short += float(np.sum(-error[under]))
        self._too_long += float(np.sum(error[over]))

    def summary(self) -> dict[str, Any]:
        """Return what :func:`accuracy` returns."""
        return {
            "jobs": self._jobs,
            "mae": _mean(self._error, self._jobs),
            "under": {
                "share": _mean(self._under, self._jobs),
                "mean": _mean(self._too_short, self._under),
            },
            "over": {"share": _mean(self._over, self._jobs), "mean": _mean(self._too_long, self._over)},
            "exact": _mean(self._exact, self._jobs),
            "within_25": _mean(self._near, self._jobs),
        }


def estimate_metrics(jobs: Jobs) -> dict[str, Any]:
    """Compare predictions, and walltimes, with the run times of a run.

    Over jobs that completed or were killed; how long a failed job would have run is not known.
    """
    prediction, walltime = _Errors(), _Errors()
    for block in blocks_of(jobs):
        ended = (block.state == JobState.COMPLETED) | (block.state == JobState.KILLED)
        actual = run_time(block)[ended]
        prediction.add(block.prediction[ended], actual)
        walltime.add(block.walltime[ended], actual)
    return {"prediction": prediction.summary(), "walltime": walltime.summary()}


def _mean(total: float, count: int) -> float | None:
    return total / count if count else None
