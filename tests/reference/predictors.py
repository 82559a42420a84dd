"""Predictors, written to be obviously right: each looks through the list of all jobs that have ended."""

from __future__ import annotations

from dataclasses import dataclass

from tests.reference.batch import Job, ReferenceBatchSystem


@dataclass
class Past:
    """A job as submitted, and how it ended; ``order`` is its order of arrival."""

    order: int
    submit: float
    walltime: float
    processors: int
    user: int
    queue: int
    name: str
    end: float | None = None  # None: it never ended
    run: float | None = None


def ended_before(job: Past, jobs: list[Past]) -> list[Past]:
    """Jobs that have ended when a job is submitted, the last to end first.

    A job that ended at that very time has, unless it was of no length: it started after the submission.
    """
    ended = [
        other
        for other in jobs
        if other.end is not None and (other.end < job.submit or (other.end == job.submit and other.run > 0))
    ]
    return sorted(ended, key=lambda other: (other.end, other.order), reverse=True)


def of_user(job: Past, jobs: list[Past]) -> list[Past]:
    return [other for other in ended_before(job, jobs) if other.user == job.user and job.user >= 0]


def prefix(name: str) -> str:
    while name and name[-1].isdigit():
        name = name[:-1]
    return name


RULES = (
    lambda j: (j.name, j.queue, j.walltime, j.processors),
    lambda j: (prefix(j.name), j.queue, j.walltime, j.processors),
    lambda j: (j.name, j.queue, j.walltime),
    lambda j: (prefix(j.name), j.queue, j.walltime),
    lambda j: (j.name,),
    lambda j: (prefix(j.name),),
)


def data_driven(job: Past, jobs: list[Past]) -> float:
    for rule in RULES:
        for other in of_user(job, jobs):
            if rule(other) == rule(job):
                return min(other.run, job.walltime)
    return job.walltime


def confident(job: Past, jobs: list[Past]) -> float:
    last = of_user(job, jobs)[:3]
    if last and sum(other.run / other.walltime for other in reversed(last)) / len(last) >= 0.8:
        return job.walltime
    return data_driven(job, jobs)


def last_two(job: Past, jobs: list[Past]) -> float:
    last = of_user(job, jobs)[:2]
    if len(last) < 2:
        return job.walltime
    return min((last[0].run + last[1].run) / 2, job.walltime)


REFERENCES = {"D": data_driven, "D2": confident, "L2": last_two, "EASY++": last_two}


def seen(prediction: float, job: Past) -> float:
    """What the dispatcher sees of it."""
    if prediction < 1.0:
        prediction = 1.0
    return min(prediction, job.walltime)


MINUTES = [1, 5, 15, 30, 60, 120, 300, 600, 1200, 3000, 6000]


class CorrectedBatchSystem(ReferenceBatchSystem):
    """EASY in which the expectation of a job that outlives it is raised in steps, up to its walltime.

    Expectations change only at the times when one is passed, and a pass follows.
    """

    def __init__(self, units: int, walltime: dict[int, float]) -> None:
        super().__init__(units, "easy")
        self.walltime = walltime
        self.raised: dict[int, int] = {}

    def _drive(self, env, jobs):
        to_come = sorted(jobs, key=lambda job: (job.submit, job.id))
        while to_come or self.running:
            times = [job.end for job in self.running] + [job.submit for job in to_come[:1]]
            times += [job.start + job.estimate for job in self.running if self._can_be_raised(job)]
            now = min(times)
            yield env.timeout(now - env.now)
            for job in [job for job in self.running if job.end == now]:
                self.running.remove(job)
                self.free |= job.held
            for job in self.running:
                if self._can_be_raised(job) and job.start + job.estimate == now:
                    raised = self.raised.get(job.id, 0)
                    self.raised[job.id] = raised + 1
                    job.estimate = min(job.estimate + 60 * MINUTES[min(raised, 10)], self.walltime[job.id])
            while to_come and to_come[0].submit == now:
                self.waiting.append(to_come.pop(0))
            self._pass(now)

    def _can_be_raised(self, job: Job) -> bool:
        return job.estimate < self.walltime[job.id] and job.start + job.estimate < job.end
