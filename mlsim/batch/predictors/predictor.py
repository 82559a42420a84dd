"""The interface of predictors, and what they know of a job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from mlsim.workload.workload_jobs import JobBlock


class SubmittedJob(NamedTuple):
    """A job as its user submitted it.

    Attributes
    ----------
    job_id
        Identifier in the workload.
    submit_time
        Seconds from the scenario's start.
    walltime
        Seconds the user asked for: the limit of the run time.
    processors
        Processors asked for.
    request
        Units, and the total request of each further resource, in the platform's order; -1 where the workload
        does not specify it, and empty where it never does.
    user, group, queue, partition
        Numbers from the workload; -1 unknown.
    name
        Name of the job: its executable, where the workload has names for them, or else its number as a
        text; empty if it is not known.
    prefix
        The name without trailing digits; empty if the name is a number.
    """

    job_id: int
    submit_time: float
    walltime: float
    processors: int
    request: tuple[int, ...]
    user: int
    group: int
    queue: int
    partition: int
    name: str
    prefix: str


class JobNames:
    """Names of jobs, by the code of their executable.

    Parameters
    ----------
    names
        Names behind the codes 1, 2, ... as the header of a workload has them (``executable_names``); a code
        beyond them is its own name, as in SWF.

    Examples
    --------
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
