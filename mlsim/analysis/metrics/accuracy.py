"""How near estimates came to run times."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlsim.record import Jobs, JobState
from mlsim.record.derived import run_time

__all__ = ["WITHIN", "accuracy", "estimate_metrics"]

Floats = NDArray[np.float64]

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
    error = predicted - actual
    near = np.abs(actual / predicted - 1.0) <= WITHIN
    return {
        "jobs": len(error),
        "mae": _mean(np.abs(error)),
        "under": {"share": _mean(error < 0), "mean": _mean(-error[error < 0])},
        "over": {"share": _mean(error > 0), "mean": _mean(error[error > 0])},
        "exact": _mean(error == 0),
        "within_25": _mean(near),
    }


def estimate_metrics(jobs: Jobs) -> dict[str, Any]:
    """Compare predictions, and walltimes, with the run times of a run.

    Over jobs that completed or were killed; how long a failed job would have run is not known.
    """
    ended = (jobs.state == JobState.COMPLETED) | (jobs.state == JobState.KILLED)
    actual = run_time(jobs)[ended]
    return {
        "prediction": accuracy(jobs.prediction[ended], actual),
        "walltime": accuracy(jobs.walltime[ended], actual),
    }


def _mean(values: NDArray[Any]) -> float | None:
    return float(np.mean(values)) if len(values) else None
