"""batsched's easy_bf and conservative_bf, as their sources have them: slices of time with free machines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

FOREVER = 1e19


@dataclass(eq=False)
class Job:
    id: int
    submit: float
    run: float
    walltime: float
    machines: int
    start: float | None = None
    where: frozenset[int] = frozenset()

    @property
    def end(self) -> float:
        assert self.start is not None
        return self.start + min(self.run, self.walltime)


@dataclass
class Slice:
    begin: float
    end: float
    free: set[int]
    jobs: dict[Job, frozenset[int]] = field(default_factory=dict)


class EasyBackfilling:
    """First come, first served; jobs are killed at their walltimes."""

    def __init__(self, machines: int) -> None:
        self.slices = [Slice(0.0, FOREVER, set(range(machines)))]
        self.queue: list[Job] = []

    def run(self, jobs: list[Job]) -> None:
        to_come = sorted(jobs, key=lambda job: (job.submit, job.id))
        running: list[Job] = []
        while to_come or running:
            now = min([job.end for job in running] + [job.submit for job in to_come[:1]])
            ended = [job for job in running if job.end == now]
            came = [job for job in to_come if job.submit == now]
            to_come = [job for job in to_come if job.submit != now]
            running = [job for job in running if job.end != now] + self.decide(now, ended, came)

    def forget(self, now: float, ended: list[Job]) -> None:
        while self.slices[0].end <= now:  # a job that ends as expected leaves a slice of no length
            del self.slices[0]
        self.slices[0].begin = now
        for job in ended:
            self.remove(job)

    def decide(self, now: float, ended: list[Job], came: list[Job]) -> list[Job]:
        started: list[Job] = []
        before = self.queue[0] if self.queue else None
        self.forget(now, ended)
        self.queue += came
        if self.queue and self.queue[0] is not before:
            while self.queue and self.add(self.queue[0]):
                started.append(self.begin(self.queue[0], now))
        if ended:
            # The head's reservation is made anew in its turn; all others are tried.
            for job in list(self.queue):
                self.remove(job)
                if self.add(job):
                    started.append(self.begin(job, now))
                elif job is not self.queue[0]:
                    self.remove(job)
        else:
            for job in came:
                if job in self.queue[1:]:
                    if self.add(job):
                        started.append(self.begin(job, now))
                    else:
                        self.remove(job)
        return started

    def begin(self, job: Job, now: float) -> Job:
        self.queue.remove(job)
        job.start, job.where = now, self.slices[0].jobs[job]
        return job

    def remove(self, job: Job) -> None:
        for each in self.slices:
            each.free |= each.jobs.pop(job, frozenset())

    def add(self, job: Job) -> bool:
        """Put a job into its first place, on the lowest machines; tell whether that is now."""
        for first, each in enumerate(self.slices):
            end = each.begin + job.walltime
            spans = [later for later in self.slices[first:] if later.begin < end]
            common = set.intersection(*(later.free for later in spans))
            if len(common) < job.machines:
                continue
            if spans[-1].end > end:
                self.split(spans[-1], end)
            where = frozenset(sorted(common)[: job.machines])
            for later in spans:
                later.free -= where
                later.jobs[job] = where
            return first == 0
        raise AssertionError(f"job {job.id} asks for more than there is")

    def split(self, each: Slice, time: float) -> None:
        rest = Slice(time, each.end, set(each.free), dict(each.jobs))
        each.end = time
        self.slices.insert(self.slices.index(each) + 1, rest)


class ConservativeBackfilling(EasyBackfilling):
    """Every job has its place; after an end all are placed anew, one by one; ``key`` orders the queue."""

    def __init__(self, machines: int, key: Callable[[Job], float] = lambda job: 0.0) -> None:
        super().__init__(machines)
        self.key = key

    def decide(self, now: float, ended: list[Job], came: list[Job]) -> list[Job]:
        started: list[Job] = []
        self.forget(now, ended)
        self.queue = sorted(self.queue + came, key=self.key)
        for job in list(self.queue):
            if ended or job in came:
                self.remove(job)
                if self.add(job):
                    started.append(self.begin(job, now))
        return started
