"""FCFS and EASY, written to be obviously right: SimPy, sets of numbered units, no cleverness."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import simpy


@dataclass
class Job:
    id: int
    submit: float
    run: float
    estimate: float
    units: int
    releases: list[float] = field(default_factory=list)  # offsets from the start at which one unit goes back
    start: float | None = None
    end: float | None = None
    held: set[int] = field(default_factory=set)
    first_units: frozenset[int] = frozenset()
    backfilled: bool = False
    killed: bool = False


class ReferenceBatchSystem:
    """Handles one timestamp at a time: ends and releases, then submissions, then one pass."""

    def __init__(
        self,
        units: int,
        easy: bool,
        key: Callable[[Job, float], float] = lambda job, now: job.submit,
        kill: bool = False,
    ) -> None:
        self.free = set(range(units))
        self.easy, self.key, self.kill = easy, key, kill
        self.waiting: list[Job] = []
        self.running: list[Job] = []

    def run(self, jobs: list[Job]) -> None:
        env = simpy.Environment()
        env.process(self._drive(env, jobs))
        env.run()

    def _drive(self, env: simpy.Environment, jobs: list[Job]):
        to_come = sorted(jobs, key=lambda job: (job.submit, job.id))
        while to_come or self.running:
            times = [job.end for job in self.running] + [job.submit for job in to_come[:1]]
            times += [job.start + offset for job in self.running for offset in job.releases]
            now = min(times)
            yield env.timeout(now - env.now)
            for job in [job for job in self.running if job.end == now]:
                self.running.remove(job)
                self.free |= job.held
                job.held = set()
            for job in self.running:
                for offset in [offset for offset in job.releases if job.start + offset == now]:
                    job.releases.remove(offset)
                    unit = max(job.held)
                    job.held.remove(unit)
                    self.free.add(unit)
            while to_come and to_come[0].submit == now:
                self.waiting.append(to_come.pop(0))
            self._pass(now)

    def _pass(self, now: float) -> None:
        self.waiting.sort(key=lambda job: (self.key(job, now), job.submit, job.id))
        while self.waiting and self.waiting[0].units <= len(self.free):
            self._start(self.waiting.pop(0), now)
        if not self.waiting or not self.easy:
            return
        head = self.waiting[0]
        for job in self.waiting[1:]:
            if job.units > len(self.free):
                continue
            time, extra = self._reservation(head, now)
            if now + job.estimate <= time or job.units <= extra:
                job.backfilled = True
                self.waiting.remove(job)
                self._start(job, now)

    def _reservation(self, head: Job, now: float) -> tuple[float, int]:
        """When the head can start if running jobs end as expected, and what it leaves over then."""

        def expected(job: Job) -> float:
            end = job.start + job.estimate
            return end if end > now else now + 1.0

        # A job backfilled in this pass counts like any other running job: it either ends by the
        # reservation, or holds some of what the head leaves over.
        for time in sorted({expected(job) for job in self.running}):
            available = len(self.free) + sum(len(job.held) for job in self.running if expected(job) <= time)
            if available >= head.units:
                return time, available - head.units
        raise AssertionError("the head never fits")

    def _start(self, job: Job, now: float) -> None:
        chosen = sorted(self.free)[: job.units]
        self.free -= set(chosen)
        job.held, job.first_units = set(chosen), frozenset(chosen)
        job.start = now
        job.killed = self.kill and job.run > job.estimate
        job.end = now + min(job.run, job.estimate) if self.kill else now + job.run
        job.releases = [offset for offset in job.releases if now + offset < job.end]
        self.running.append(job)
