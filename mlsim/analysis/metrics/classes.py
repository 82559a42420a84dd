"""How good the classes were that jobs were taken for, and what the safeguard cost."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlsim._arrays import Floats, Mask
from mlsim.record import Records
from mlsim.record.blocks import rows_of
from mlsim.record.derived import bounded_slowdown, run_time

__all__ = ["class_metrics", "class_quality"]


def class_quality(truth: Mask, said: Mask) -> dict[str, float]:
    """Compare what jobs were taken for with what they were; small is the positive class.

    Parameters
    ----------
    truth, said : ndarray of bool
        Whether each job was small, and was taken for it.

    Returns
    -------
    dict
        ``accuracy``, ``precision``, ``recall`` (Zrigui 2021, Eqs. 6.1 to 6.3); ``false_small``,
        ``false_large``: shares of all jobs. NaN where undefined.
    """

    def share(part: Mask, of: int) -> float:
        return float(np.count_nonzero(part)) / of if of else float("nan")

    n = len(truth)
    return {
        "accuracy": share(said == truth, n),
        "precision": share(said & truth, int(said.sum())),
        "recall": share(said & truth, int(truth.sum())),
        "false_small": share(said & ~truth, n),
        "false_large": share(~said & truth, n),
    }


def class_metrics(records: Records, tau: float) -> dict[str, Any]:
    """Measure classes over the jobs that ran and had a divider.

    Parameters
    ----------
    records
        Of a run with a classifier.
    tau
        The bound of bounded slowdowns, in seconds.

    Returns
    -------
    dict
        ``jobs``, ``small`` (of them), what :func:`class_quality` says; ``bounded_slowdown_small`` and
        ``bounded_slowdown_large``, means of both true classes; ``killed``: attempts that the safeguard ended;
        ``lost_core_seconds``: what these held.
    """
    jobs, attempts = records.jobs, records.attempts
    assert jobs.divider is not None
    assert jobs.taken_for_small is not None
    judged = ~np.isnan(jobs.divider) & ~np.isnan(jobs.start_time)
    truth = (run_time(jobs) < jobs.divider)[judged]
    slowdown = bounded_slowdown(jobs, tau)[judged]
    recalled = rows_of(attempts, np.flatnonzero(attempts.node < 0))
    return {
        "jobs": len(truth),
        "small": int(truth.sum()),
        **class_quality(truth, jobs.taken_for_small[judged].astype(bool)),
        "bounded_slowdown_small": _mean(slowdown[truth]),
        "bounded_slowdown_large": _mean(slowdown[~truth]),
        "killed": len(recalled.job),
        "lost_core_seconds": float(recalled.lost.sum()),
    }


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if len(values) else None
