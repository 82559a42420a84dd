"""Predictors of the user: a class in a file, or one that an installed package offers."""

from __future__ import annotations

import math
import runpy
from importlib.metadata import entry_points
from numbers import Real
from pathlib import Path
from typing import Any

from mlsim.batch.predictors.base import CorrectingPredictor, Predictor
from mlsim.batch.predictors.job import SubmittedJob
from mlsim.errors import InputError
from mlsim.scenario import user_function

__all__ = ["user_predictor"]

_METHODS = ("predict", "learn")


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
        except Exception as error:  # whatever the user's code raises
            raise InputError(
                f"{self._title}: {method} failed for job {job.job_id}, submitted at {job.submit_time:g} s: "
                f"{type(error).__name__}: {error}"
            ) from error


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
    title = f"predictor {name}"
    own = user_function(name)
    kind = _installed(title, name) if own is None else _load(title, *own)
    try:
        predictor = kind()
    except Exception as error:  # whatever the user's class raises
        raise InputError(f"{title}: cannot be made: {type(error).__name__}: {error}") from error
    missing = [method for method in _METHODS if not callable(getattr(predictor, method, None))]
    if missing:
        raise InputError(
            f"{title}: has no method {' and no '.join(missing)}; "
            "needed: predict(job) and learn(job, run_time)"
        )
    checked = _CheckedCorrecting if isinstance(predictor, CorrectingPredictor) else _Checked
    return checked(title, predictor)


def _installed(title: str, name: str) -> Any:
    for point in entry_points(group="mlsim.predictors", name=name):
        try:
            return point.load()
        except Exception as error:  # whatever the package raises
            raise InputError(f"{title}: cannot be loaded: {type(error).__name__}: {error}") from error
    raise InputError(f"{title}: no installed package offers it")


def _load(title: str, file: str, name: str) -> Any:
    path = Path(file).expanduser()
    if not path.is_file():
        raise InputError(f"{title}: there is no file {path}")
    try:
        names = runpy.run_path(str(path), run_name="mlsim_predictor")
    except Exception as error:  # whatever the user's file raises
        raise InputError(f"{title}: the file cannot be executed: {type(error).__name__}: {error}") from error
    kind = names.get(name)
    if not isinstance(kind, type):
        classes = sorted(
            key
            for key, value in names.items()
            if isinstance(value, type) and value.__module__ == "mlsim_predictor"
        )
        raise InputError(f"{title}: there is no class {name!r}; the file has: {', '.join(classes) or 'none'}")
    return kind
