"""EASY++: L2 with corrections."""

from __future__ import annotations

from mlsim.batch.predictors.job import SubmittedJob
from mlsim.batch.predictors.variants.last_two import LastTwo

__all__ = ["STEPS", "EasyPlusPlus"]

_MINUTE, _HOUR = 60.0, 3600.0

STEPS = (
    *(1 * _MINUTE, 5 * _MINUTE, 15 * _MINUTE, 30 * _MINUTE),
    *(1 * _HOUR, 2 * _HOUR, 5 * _HOUR, 10 * _HOUR, 20 * _HOUR, 50 * _HOUR, 100 * _HOUR),
)
"""Seconds that the k-th correction of a job adds; further ones add as much as the last."""


class EasyPlusPlus(LastTwo):
    """Predicts as L2 does, and adds a step whenever a job outlives its prediction, up to its walltime.

    The steps are 1, 5, 15, 30 minutes, 1, 2, 5, 10, 20, 50, 100 hours (Tsafrir, Etsion and Feitelson 2007, as
    Gaussier et al. 2015 list them). Their EASY++ is this predictor with EASY backfilling in the order of
    shortest predictions.
    """

    def correct(self, job: SubmittedJob, expired: float, corrections: int) -> float:
        """Return the expired prediction plus the next step, at most the walltime."""
        return min(expired + STEPS[min(corrections, len(STEPS) - 1)], job.walltime)
