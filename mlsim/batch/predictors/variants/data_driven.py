"""D: the last run time of a similar job of the same user."""

from __future__ import annotations

from mlsim.batch.predictors.job import SubmittedJob

__all__ = ["DataDriven"]

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

    Numbers that stand for names, as in SWF, are names of digits only: their prefix is empty, so that rules 2,
    4 and 6 do not look at names. Jobs without a name have the empty one.
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
