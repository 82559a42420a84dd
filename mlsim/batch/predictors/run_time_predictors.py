"""The predictors W, L2, EASY++, D and D2, user-defined ones, and all by name."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from numbers import Real
from typing import Any, Final

from mlsim.batch.predictors.predictor import CorrectingPredictor, Predictor, SubmittedJob
from mlsim.batch.user_dispatch import make_plugin
from mlsim.errors import InputError, user_code_error
from mlsim.scenario import Predictor as Word


class Walltime:
    """The walltime. A simulation does not ask it: its jobs come with their walltimes as estimates."""

    def predict(self, job: SubmittedJob) -> float:
        """Return the walltime."""
        return job.walltime

    def learn(self, job: SubmittedJob, run_time: float) -> None:
        """Learn nothing."""


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


_MINUTE, _HOUR = 60.0, 3600.0

STEPS = (
    *(1 * _MINUTE, 5 * _MINUTE, 15 * _MINUTE, 30 * _MINUTE),
    *(1 * _HOUR, 2 * _HOUR, 5 * _HOUR, 10 * _HOUR, 20 * _HOUR, 50 * _HOUR, 100 * _HOUR),
)  # seconds that the k-th correction of a job adds; further ones add as much as the last


class EasyPlusPlus(LastTwo):
    """Predicts as L2 does, and adds a step whenever a job outlives its prediction, up to its walltime.

    The steps are 1, 5, 15, 30 minutes, 1, 2, 5, 10, 20, 50, 100 hours (Tsafrir, Etsion and Feitelson 2007, as
    Gaussier et al. 2015 list them). Their EASY++ is this predictor with EASY backfilling in the order of
    shortest predictions.
    """

    def correct(self, job: SubmittedJob, expired: float, corrections: int) -> float:
        """Return the expired prediction plus the next step, at most the walltime."""
        return min(expired + STEPS[min(corrections, len(STEPS) - 1)], job.walltime)


_ByProfile = dict[tuple[object, ...], float]


class _History:
    """Run times of a user's ended jobs: for each rule, the last one by what the rule compares."""

    __slots__ = ("name", "name_profile", "name_request", "prefix", "prefix_profile", "prefix_request")

    def __init__(self) -> None:
        self.name_request: _ByProfile = {}
        self.prefix_request: _ByProfile = {}
        self.name_profile: _ByProfile = {}
        self.prefix_profile: _ByProfile = {}
        self.name: dict[str, float] = {}
        self.prefix: dict[str, float] = {}

    def find(self, job: SubmittedJob) -> float | None:
        """Return the run time of the last job that matches, by the first rule that matches any; else None."""
        name, prefix, queue, walltime = job.name, job.prefix, job.queue, job.walltime
        if name not in self.name and prefix not in self.prefix:
            return None  # the last rules find the most
        amounts = (job.processors, job.request)
        found = self.name_request.get((name, queue, walltime, amounts))
        if found is None:
            found = self.prefix_request.get((prefix, queue, walltime, amounts))
        if found is None:
            found = self.name_profile.get((name, queue, walltime))
        if found is None:
            found = self.prefix_profile.get((prefix, queue, walltime))
        if found is None:
            found = self.name.get(name)
        return self.prefix.get(prefix) if found is None else found

    def note(self, job: SubmittedJob, run_time: float) -> None:
        """Record an ended job as the last match of each rule."""
        name, prefix, queue, walltime = job.name, job.prefix, job.queue, job.walltime
        amounts = (job.processors, job.request)
        self.name_request[name, queue, walltime, amounts] = run_time
        self.prefix_request[prefix, queue, walltime, amounts] = run_time
        self.name_profile[name, queue, walltime] = run_time
        self.prefix_profile[prefix, queue, walltime] = run_time
        self.name[name] = run_time
        self.prefix[prefix] = run_time


class DataDriven:
    """Run time of the last job to end among similar ones of the same user (Galleguillos 2020, Algorithm 2).

    Similar is, by the first of these rules that finds a job: the same

    1. name, queue, walltime, and processors and other amounts asked for;
    2. the same with the prefix of the name, the name without trailing digits, in its place;
    3. name, queue and walltime;
    4. prefix, queue and walltime;
    5. name;
    6. prefix.

    The walltime, where no rule finds a job, and for jobs of an unknown user. Never more than the walltime.

    Numbers in place of names, as in SWF, are names of digits only: their prefix is empty, so that rules 2,
    4 and 6 do not consider names. Jobs without a name have the empty one.
    """

    def __init__(self) -> None:
        self._users: dict[int, _History] = {}

    def predict(self, job: SubmittedJob) -> float:
        """Return the run time of the similar job, at most the walltime."""
        history = self._users.get(job.user)
        found = None if history is None else history.find(job)
        return job.walltime if found is None else min(found, job.walltime)

    def learn(self, job: SubmittedJob, run_time: float) -> None:
        """Record an ended job in its user's history."""
        if job.user < 0:
            return
        history = self._users.get(job.user)
        if history is None:
            history = self._users[job.user] = _History()
        history.note(job, run_time)


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


class _Checked:
    """Calls a user-defined predictor, and raises errors that name the job."""

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
    """Make a predictor from ``path/file.py:Class`` or an entry point of ``mlsim.predictors``.

    The path is seen from the current directory, and the class is called without arguments. Raises InputError
    if there is no such class, it cannot be made, or it lacks a method.
    """
    predictor = make_plugin("predictor", name)
    checked = _CheckedCorrecting if isinstance(predictor, CorrectingPredictor) else _Checked
    return checked(f"predictor {name}", predictor)


_BY_NAME: Final[dict[str, Callable[[], Predictor]]] = {
    Word.WALLTIME: Walltime,
    Word.DATA_DRIVEN: DataDriven,
    Word.CONFIDENT: Confident,
    Word.LAST_TWO: LastTwo,
    Word.EASY_PLUS_PLUS: EasyPlusPlus,
}  # Predictors that learn at the end of each job. Others need more than a job (`estimates`)


def make_predictor(name: str) -> Predictor:
    """Return a new predictor by its name in a scenario, files as seen from the current directory.

    Raises
    ------
    InputError
        If a user-defined predictor cannot be made.
    """
    kind = _BY_NAME.get(name)
    return user_predictor(name) if kind is None else kind()
