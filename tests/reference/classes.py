"""Small and large jobs under EASY with the safeguard, one event at a time, in plain words."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass
class Job:
    submit: float
    run: float
    walltime: float
    units: int
    small: bool
    divider: float
    number: int = 0
    start: float = math.nan
    end: float = math.nan
    killed: float = math.nan
    lost: float = 0.0
    expected: float = math.nan
    attempts: int = 0


def simulate(jobs: list[Job], units: int, key, threshold: float, safeguard: bool, kills: bool) -> None:
    """Simulate in place; ``key(job, now)`` is the policy's."""
    for number, job in enumerate(jobs):
        job.number = number
    todo = [job for job in jobs if job.units <= units]
    queue: list[Job] = []
    running: list[Job] = []

    def rank(job: Job, now: float):
        if now - job.submit > threshold:
            return (0, 0.0, job.number)
        return (1 if job.small else 2, key(job, now), job.number)

    def length(job: Job) -> float:
        time = min(job.run, job.walltime) if kills else job.run
        return min(time, job.divider) if safeguard and job.small else time

    while todo or running:
        now = min([job.submit for job in todo] + [job.start + length(job) for job in running])
        for job in [job for job in running if job.start + length(job) == now]:
            running.remove(job)
            full = min(job.run, job.walltime) if kills else job.run
            if length(job) < full:  # only the safeguard ends a job before that
                job.killed, job.lost = job.start, job.units * job.divider
                job.small, job.start = False, math.nan
                queue.append(job)
            else:
                job.end = now
        while todo and todo[0].submit == now:
            queue.append(todo.pop(0))
        _pass(queue, running, units, now, rank)


def _pass(queue, running, units, now, rank) -> None:
    def start(job: Job) -> None:
        job.start, job.attempts = now, job.attempts + 1
        job.expected = now + job.walltime
        queue.remove(job)
        running.append(job)

    def free() -> int:
        return units - sum(job.units for job in running)

    for job in sorted(queue, key=lambda job: rank(job, now)):
        if job.units > free():
            break
        start(job)
    if not queue:
        return
    head, *rest = sorted(queue, key=lambda job: rank(job, now))
    ends = sorted(
        (job.expected if job.expected > now or job.start == now else now + 1, job.units) for job in running
    )
    available, reserved = free(), now
    for end, size in ends:
        if available >= head.units:
            break
        available, reserved = available + size, end
    available = free() + sum(size for end, size in ends if end <= reserved)
    extra = available - head.units
    for job in rest:
        if job.units > free():
            continue
        if now + job.walltime <= reserved:
            start(job)
        elif job.units <= extra:
            extra -= job.units
            start(job)
