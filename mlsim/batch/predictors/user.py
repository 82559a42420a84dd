"""Predictors of the user: a class in a file, or one that an installed package offers."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

from mlsim.batch.plugins import make_plugin
from mlsim.batch.predictors.base import CorrectingPredictor, Predictor
from mlsim.batch.predictors.job import SubmittedJob
from mlsim.errors import InputError, user_code_error

__all__ = ["user_predictor"]


class _Checked:
    """Asks a predictor of the user, and turns what goes wrong into errors that name the job."""

    def __init__(self, title: str, predictor: Predictor) -> None:
        self._title = title
        self._predictor = predictor

    def predict(self, job: SubmittedJob) -> float:
        return self._seconds("predict", job, job)

    def learn(self, job: SubmittedJob, run_time: float) -> None:
        self._call("learn", job, job, run_time)

    def _seconds(self, method: str, job: SubmittedJob, *arguments: object) -> float:
        seconds = self._call(method, job, *arguments)
        if not isinstance(seconds, Real) or isinstance(seconds, bool) or math.isnan(seconds):
            raise InputError(
                f"{self._title}: {method} gives {seconds!r} for job {job.job_id}; allowed: seconds"
            )
        return float(seconds)

    def _call(self, method: str, job: SubmittedJob, *arguments: object) -> Any:
        try:
            return getattr(self._predictor, method)(*arguments)
        except BaseException as error:  # whatever the user's code raises
            place = f"{method} failed for job {job.job_id}, submitted at {job.submit_time:g} s"
            raise user_code_error(f"{self._title}: {place}", error) from error


class _CheckedCorrecting(_Checked):
    def correct(self, job: SubmittedJob, expired: float, corrections: int) -> float:
        return self._seconds("correct", job, job, expired, corrections)


def user_predictor(name: str) -> Predictor:
    """Make a predictor of a class that is not in the catalogue.

    Parameters
    ----------
    name
        ``path/file.py:Class``, the path seen from the current directory, or the name of an entry point in the
        group ``mlsim.predictors``. The class is called without arguments.

    Raises
    ------
    InputError
        If there is no such class, it cannot be made, or it lacks a method.
    """
    predictor = make_plugin("predictor", name)
    checked = _CheckedCorrecting if isinstance(predictor, CorrectingPredictor) else _Checked
    return checked(f"predictor {name}", predictor)
