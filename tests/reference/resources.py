"""A batch level of nodes with several resources, slow and obvious, with EASY per node."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.reference.allocators import Nodes


@dataclass
class Job:
    """A job, and what became of it."""

    number: int
    submit: float
    run: float
    estimate: float
    units: int
    request: tuple[int, ...]
    start: float = float("nan")
    end: float = float("nan")
    nodes: list[int] = field(default_factory=list)
    backfilled: bool = False
    rejected: bool = False


class ReferenceSystem:
    """Jobs are killed at their estimates; ends come before submissions, then there is one pass."""

    def __init__(self, nodes: Nodes, allocate, backfill: str, key) -> None:
        self.nodes, self.allocate, self.backfill, self.key = nodes, allocate, backfill, key
        self.running: list[Job] = []
        self.waiting: list[Job] = []

    def run(self, jobs: list[Job]) -> None:
        for job in jobs:
            job.rejected = self.place(job, list(self.nodes.capacity)) is None
        to_come = [job for job in jobs if not job.rejected]
        while to_come or self.running:
            now = min([job.end for job in self.running] + [job.submit for job in to_come[:1]])
            self.running = [job for job in self.running if job.end != now]
            while to_come and to_come[0].submit == now:
                self.waiting.append(to_come.pop(0))
            self.pass_at(now)

    def place(self, job: Job, free):
        return self.allocate(self.nodes, job.units, job.request, free, job.number)

    def free_at(self, time: float, now: float):
        """What is free at a time if running jobs end as expected; now itself: what is free now."""
        free = list(self.nodes.capacity)
        for job in self.running:
            if time == now or self.expected(job, now) > time:
                for node in job.nodes:
                    self.nodes.take(node, job.request, free)
        return free

    def expected(self, job: Job, now: float) -> float:
        end = job.start + job.estimate
        return end if end > now else now + 1.0

    def start(self, job: Job, nodes: list[int], now: float) -> None:
        job.nodes, job.start, job.end = nodes, now, now + min(job.run, job.estimate)
        self.waiting.remove(job)
        self.running.append(job)

    def pass_at(self, now: float) -> None:
        self.waiting.sort(key=lambda job: (self.key(job, now), job.number))
        while self.waiting:
            nodes = self.place(self.waiting[0], self.free_at(now, now))
            if nodes is None:
                break
            self.start(self.waiting[0], nodes, now)
        if not self.waiting or self.backfill == "none":
            return
        head = self.waiting[0]
        reserved = float("inf")
        if self.backfill == "easy":
            ends = sorted({self.expected(job, now) for job in self.running})
            reserved = next(time for time in ends if self.place(head, self.free_at(time, now)) is not None)
        for job in self.waiting[1:]:
            nodes = self.place(job, self.free_at(now, now))
            if nodes is None:
                continue
            if now + job.estimate > reserved:
                left = self.free_at(reserved, now)
                for node in nodes:
                    self.nodes.take(node, job.request, left)
                if self.place(head, left) is None:
                    continue
            job.backfilled = True
            self.start(job, nodes, now)
