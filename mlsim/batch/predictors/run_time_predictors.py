"""Predictors of run times: their interface, W, L2, EASY++, D and D2, user-defined ones, and all by name."""

import math
from collections import deque
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

import numpy as np

from mlsim.batch.user_dispatch import make_plugin
from mlsim.errors import InputError, user_code_error
from mlsim.scenario.words import Predictor as Word
from mlsim.workload.workload_jobs import JobBlock


class SubmittedJob(NamedTuple):
    """A job as its user submitted it; user, group, queue and partition are numbers, -1 if unknown."""

    job_id: int  # in the workload
    submit_time: float  # seconds from the scenario's start
    walltime: float  # seconds the user asked for: the limit of the run time
    processors: int  # asked for
    request: tuple[int, ...]
    """Units, and the total request of each further resource, in the platform's order; -1 where the workload
    does not specify it, and empty where it never does.
    """
    user: int
    group: int
    queue: int
    partition: int
    name: str
    """Its executable, where the workload has names for them, or else its number as a text; empty if it is not
    known.
    """
    prefix: str  # the name without trailing digits; empty if the name is a number


class JobNames:
    """Names of jobs, by the code of their executable.

    ``names`` are those of the codes 1, 2, ... as the header of a workload has them (``executable_names``); a
    code beyond them is its own name, as in SWF.

    >>> JobNames(["md12", "lammps"])(1), JobNames()(12), JobNames()(-1)
    (('md12', 'md'), ('12', ''), ('', ''))
    """

    def __init__(self, names: Sequence[str] = ()) -> None:
        self._names = names
        self._known: dict[int, tuple[str, str]] = {}

    def __call__(self, executable: int) -> tuple[str, str]:
        """Return the name and the prefix of an executable."""
        found = self._known.get(executable)
        if found is None:
            found = self._known[executable] = self._look_up(executable)
        return found

    def _look_up(self, executable: int) -> tuple[str, str]:
        if executable < 0:
            return "", ""
        is_code = 0 < executable <= len(self._names)
        name = self._names[executable - 1] if is_code else str(executable)
        return name, name.rstrip("0123456789")


def submitted_jobs(block: JobBlock, names: JobNames) -> list[SubmittedJob]:
    """Return the jobs of a block as predictors see them, in its order."""
    named = [names(executable) for executable in block.executable.tolist()]
    return list(
        map(
            SubmittedJob,
            block.job_id.tolist(),
            block.submit_time.tolist(),
            block.estimate.tolist(),
            block.processors.tolist(),
            _requests(block),
            block.user.tolist(),
            block.group.tolist(),
            block.queue.tolist(),
            block.partition.tolist(),
            [name for name, _ in named],
            [prefix for _, prefix in named],
        )
    )


def _requests(block: JobBlock) -> list[tuple[int, ...]]:
    """Return each job's units and its requests beside processors, as in the log."""
    if block.asked is None:
        return [()] * len(block)
    amounts = np.column_stack([block.asked.units, block.asked.totals])
    return list(map(tuple, amounts.tolist()))


SHORTEST = 1.0  # least prediction that a dispatcher sees [s]; policies divide by it


def cut(prediction: float, walltime: float) -> float:
    """Cut a prediction to [1 s, walltime]; a walltime below 1 s wins."""
    return min(max(prediction, SHORTEST), walltime)


class Predictor(Protocol):
    """Predicts run times.

    Calls come in simulated order. At one time, jobs that end are learned first, in order of arrival, and
    jobs that are submitted are predicted after that, in order of job id. Jobs of no length
    start after the submissions of their time, and are learned after them.
    """

    def predict(self, job: SubmittedJob) -> float:
        """Return the predicted run time of a job that is being submitted, in seconds.

        The dispatcher sees the prediction cut to [1 s, walltime].
        """
        ...

    def learn(self, job: SubmittedJob, run_time: float) -> None:
        """Record that a job has ended now, after ``run_time`` seconds.

        It completed, or was killed at its walltime. Jobs that fail with a node are not learned from.
        """
        ...


@runtime_checkable
class CorrectingPredictor(Predictor, Protocol):
    """Predicts run times, and predicts again for jobs that outlive their prediction."""

    def correct(self, job: SubmittedJob, expired: float, corrections: int) -> float:
        """Return a new prediction for a running job that has just run for ``expired`` seconds, the old one.

        It is cut to the walltime. If it is not above ``expired``, the job is expected to end 1 s from
        now, at any time, and is not asked about again. ``corrections`` counts those before this one.
        """
        ...


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


def _keys(job: SubmittedJob) -> tuple[tuple[object, ...], ...]:
    """Return what each rule of :class:`DataDriven` compares, from the first rule on."""
    name, prefix, queue, walltime = job.name, job.prefix, job.queue, job.walltime
    return (
        (1, name, queue, walltime, job.processors, job.request),
        (2, prefix, queue, walltime, job.processors, job.request),
        (3, name, queue, walltime),
        (4, prefix, queue, walltime),
        (5, name),
        (6, prefix),
    )


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
        # Of each user, the run time of the last job to end, by what each rule compares.
        self._users: dict[int, dict[tuple[object, ...], float]] = {}

    def predict(self, job: SubmittedJob) -> float:
        """Return the run time of the similar job, at most the walltime."""
        last = self._users.get(job.user)
        if last is not None:
            for key in _keys(job):
                if key in last:
                    return min(last[key], job.walltime)
        return job.walltime

    def learn(self, job: SubmittedJob, run_time: float) -> None:
        """Record an ended job in its user's history."""
        if job.user >= 0:
            self._users.setdefault(job.user, {}).update(dict.fromkeys(_keys(job), run_time))


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
    """Return a new predictor by its name in a scenario, files as seen from the current directory."""
    kind = _BY_NAME.get(name)
    return user_predictor(name) if kind is None else kind()
