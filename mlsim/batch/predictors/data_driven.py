"""D: the last run time of a similar job of the same user."""

from __future__ import annotations

from mlsim.batch.predictors.job import SubmittedJob

__all__ = ["DataDriven"]

_RULES = 6


class _History:
    """Run times of a user's ended jobs: for each rule, the last one by what the rule compares."""

    __slots__ = ("by_rule",)

    def __init__(self) -> None:
        self.by_rule: tuple[dict[tuple[object, ...], float], ...] = tuple({} for _ in range(_RULES))


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

    Numbers that stand for names, as in SWF, are names of digits only: their prefix is empty, so that rules 2,
    4 and 6 do not look at names. Jobs without a name have the empty one.
    """

    def __init__(self) -> None:
        self._users: dict[int, _History] = {}

    def predict(self, job: SubmittedJob) -> float:
        """Give the run time of the similar job, or the walltime if that is less."""
        history = self._users.get(job.user)
        if history is None:
            return job.walltime
        for rule, key in zip(history.by_rule, _keys(job), strict=True):
            run_time = rule.get(key)
            if run_time is not None:
                return min(run_time, job.walltime)
        return job.walltime

    def learn(self, job: SubmittedJob, run_time: float) -> None:
        """Let the job be the last one by each rule."""
        if job.user < 0:
            return
        history = self._users.get(job.user)
        if history is None:
            history = self._users[job.user] = _History()
        for rule, key in zip(history.by_rule, _keys(job), strict=True):
            rule[key] = run_time


def _keys(job: SubmittedJob) -> tuple[tuple[object, ...], ...]:
    """Give what each rule compares."""
    name, prefix, queue, walltime = job.name, job.prefix, job.queue, job.walltime
    amounts = (job.processors, *job.request)
    return (
        (name, queue, walltime, amounts),
        (prefix, queue, walltime, amounts),
        (name, queue, walltime),
        (prefix, queue, walltime),
        (name,),
        (prefix,),
    )
