"""EASY that sees forecasts of running jobs, written to be obviously right: lists, and no kernels."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from tests.reference import planning


@dataclass
class Job:
    id: int
    submit: float
    run: float
    walltime: float
    units: int
    idle: list[tuple[float, float]] = field(default_factory=list)  # (s after the start, remaining work)
    start: float = math.nan
    end: float = math.nan
    held: int = 0
    expected: float = math.nan  # when the dispatcher believes that it ends
    nodes: list[tuple[float, float]] = field(default_factory=list)  # releases: (when, expected when)
    drawn: int = 0

    def releases(self, latency: float) -> list[tuple[float, float, float]]:
        """When the messages about idle nodes arrive, before the end; when they were sent; their work."""
        sent = [(self.start + offset, work) for offset, work in self.idle]
        return [(time + latency, time, work) for time, work in sent if time + latency < self.end]


def factor(seed: int, job: Job, error: float, attempt: int = 0) -> float:
    """A lognormal number of mean 1 with this coefficient of variation."""
    job.drawn += 1
    if error == 0:
        return 1.0
    key = np.random.SeedSequence(seed, spawn_key=(0xF0CA, job.id, attempt, job.drawn))
    sigma = math.sqrt(math.log1p(error**2))
    return math.exp(sigma * np.random.default_rng(key).standard_normal() - math.log1p(error**2) / 2)


class Easy:
    def __init__(self, nodes, scope, error, kills, latency, saf, seed) -> None:
        self.free, self.scope, self.error, self.seed = nodes, scope, error, seed
        self.kills, self.latency, self.saf = kills, latency, saf
        self.waiting: list[Job] = []
        self.running: list[Job] = []
        self.due: list[tuple[float, Job]] = []  # forecasts to come

    def simulate(self, jobs: list[Job]) -> None:
        to_come = sorted(jobs, key=lambda job: (job.submit, job.id))
        while to_come or self.running or self.waiting:
            times = [job.submit for job in to_come[:1]] + [job.end for job in self.running]
            times += [time for job in self.running for time, _ in job.nodes] + [time for time, _ in self.due]
            now = min(times)
            for job in [job for job in self.running if job.end == now]:
                self.free += job.held
                self.running.remove(job)
                self.due = [entry for entry in self.due if entry[1] is not job]
            for job in self.running:
                gone = [node for node in job.nodes if node[0] == now]
                job.nodes = [node for node in job.nodes if node[0] > now]
                job.held -= len(gone)
                self.free += len(gone)
            for entry in [entry for entry in self.due if entry[0] == now]:
                self.due.remove(entry)
                self.see(entry[1], now)
            while to_come and to_come[0].submit == now:
                self.waiting.append(to_come.pop(0))
            self.make_pass(now)

    def see(self, job: Job, now: float) -> None:
        """Show the dispatcher a forecast; set when the next one comes."""
        limit = job.start + job.walltime
        limit = limit if limit > now else math.inf
        drawn = factor(self.seed, job, self.error)
        if self.scope == "remaining_work":
            _, sent, work = [row for row in job.releases(self.latency) if row[0] <= now][-1]
            job.expected = min(max(sent + drawn * work / job.held, now + 1), limit)
            coming = [time for time, _, _ in job.releases(self.latency) if time > now]
            self.due += [(time, job) for time in coming[:1]]
            return

        def seen(time: float) -> float:
            return min(time if drawn == 1 else now + max(drawn * (time - now), 1.0), limit)

        job.expected = seen(job.end)
        passed = [job.expected] if job.expected < job.end else []
        if self.scope == "nodes":
            job.nodes = [(time, seen(time)) for time, _ in job.nodes]
            passed += [expected for time, expected in job.nodes if expected < time]
        self.due += [(time, job) for time in sorted(passed)[:1]]

    def start(self, job: Job, now: float) -> None:
        self.waiting.remove(job)
        self.running.append(job)
        self.free -= job.units
        job.start, job.held, job.expected = now, job.units, now + job.walltime
        job.end = now + (min(job.run, job.walltime) if self.kills else job.run)
        rows = job.releases(self.latency)
        job.nodes = [(time, math.inf) for time, _, _ in rows]
        if self.scope == "remaining_work":
            self.due += [(rows[0][0], job)] if rows else []
        else:
            self.due.append((now + self.latency, job))

    def make_pass(self, now: float) -> None:
        key = (lambda job: (job.walltime * job.units, job.submit, job.id)) if self.saf else None
        order = sorted(self.waiting, key=key or (lambda job: (job.submit, job.id)))
        while order and order[0].units <= self.free:
            self.start(order.pop(0), now)
        for job in order[1:]:
            time, extra = self.reservation(order[0], now)
            if job.units <= self.free and (now + job.walltime <= time or job.units <= extra):
                self.start(job, now)

    def reservation(self, head: Job, now: float) -> tuple[float, int]:
        """When the head fits, and the units that it leaves then."""
        back = []
        for job in self.running:
            known = [expected for _, expected in job.nodes if expected < math.inf]
            back += [max(expected, now) for expected in known]
            over = job.expected <= now and now not in (job.start, job.end)
            back += [now + 1 if over else max(job.expected, now)] * (job.held - len(known))
        for time in sorted({now, *back}):
            free = self.free + sum(moment <= time for moment in back)
            if free >= head.units:
                return time, free - head.units
        raise AssertionError("the head never fits")


@dataclass
class Seen:
    """What the dispatcher sees: a scope and its error; ``speeds`` and ``pes`` are those of each node."""

    scope: str
    error: float
    latency: float
    seed: int
    speeds: list[float]  # of each core
    pes: int = 10**9  # the most PEs of a node


@dataclass
class Attempt(Job):
    """A running job as the dispatcher sees it."""

    back: dict[int, float] = field(default_factory=dict)  # node -> when it comes back
    expected_back: dict[int, float] = field(default_factory=dict)


class PlanningWithForecasts(planning.PlanningSystem):
    """All that may meet at the batch level, under EASY that sees forecasts.

    ``idle`` lists (s after the start, remaining work) of each job: its last nodes come back first.
    """

    def __init__(self, seen: Seen, idle: dict[int, list[tuple[float, float]]], *others) -> None:
        super().__init__(*others)
        self.seen, self.idle = seen, idle
        self.attempts: dict[int, Attempt] = {}  # of running jobs

    # What happens

    def start(self, job: planning.Job, nodes: list[int], backfilled: bool = False) -> None:
        super().start(job, nodes, backfilled)
        there = sorted(set(nodes))
        idle = self.idle[job.number][: len(there) - 1]  # the job keeps its last node
        it = Attempt(job.number + 1, job.submit, job.run, job.estimate, job.units, idle)
        it.start, it.end, it.expected = self.now, job.end, self.now + job.estimate
        self.attempts[job.number] = it
        for time, _, _ in it.releases(self.seen.latency):
            it.back[there.pop()] = time
        for node, time in it.back.items():
            self.at(time, 2.5, self.give_back, job, node)
        times = (
            set(it.back.values()) if self.seen.scope == "remaining_work" else {it.start + self.seen.latency}
        )
        for time in sorted(times):
            self.at(time, 3.5, self.see, job)

    def free(self, job: planning.Job) -> None:
        super().free(job)
        self.attempts.pop(job.number, None)
        self.events = [event for event in self.events if event[3] == self.leave or event[4][:1] != (job,)]

    def give_back(self, job: planning.Job, node: int) -> None:
        gone = [held for held in job.nodes if held == node]
        job.nodes = [held for held in job.nodes if held != node]
        job.stays.append((job.start, self.now, gone))
        self.want_pass()

    def see(self, job: planning.Job) -> None:
        it, now = self.attempts[job.number], self.now
        limit = it.start + it.walltime
        limit = limit if limit > now else math.inf
        drawn = factor(self.seen.seed, it, self.seen.error, job.attempts)
        self.want_pass()
        if self.seen.scope == "remaining_work":
            _, sent, work = [row for row in it.releases(self.seen.latency) if row[0] <= now][-1]
            speed = sum(self.pes(job, node) * self.seen.speeds[node] for node in set(job.nodes))
            it.expected = min(max(sent + drawn * work / speed, now + 1), limit)
            return

        def seen(time: float) -> float:
            return min(time if drawn == 1 else now + max(drawn * (time - now), 1.0), limit)

        it.expected = seen(it.end)
        revised = [it.expected] if it.expected < it.end else []
        if self.seen.scope == "nodes":
            coming = {node: time for node, time in it.back.items() if time > now}
            it.expected_back = {node: seen(time) for node, time in coming.items()}
            revised += [seen(time) for time in coming.values() if seen(time) < time]
        if revised:
            self.at(min(revised), 3.5, self.see, job)

    def pes(self, job: planning.Job, node: int) -> int:
        held = (
            self.nodes.capacity[node][0] if self.nodes.exclusive else job.nodes.count(node) * job.request[0]
        )
        return min(held, self.seen.pes)

    # What is expected

    def expected(self, job: planning.Job) -> float:
        end = self.attempts[job.number].expected
        if end > self.now:
            return end
        return self.now if self.now in (job.end, job.start) else self.now + 1.0

    def comes_back(self, job: planning.Job, node: int) -> float:
        """When a job is expected to release a node."""
        return max(self.attempts[job.number].expected_back.get(node, self.expected(job)), self.now)

    def free_at(self, time: float, planned) -> list[tuple[int, ...]]:
        held = [
            ([node for node in job.nodes if self.comes_back(job, node) > time], job.request)
            for job in self.running
        ]
        held += [(nodes, request) for begin, end, nodes, request, _ in planned if begin <= time < end]
        return self.left_of(held)

    def moments(self, planned) -> list[float]:
        back = [self.comes_back(job, node) for job in self.running for node in job.nodes]
        return sorted({*super().moments(planned), *back})

    def units_at(self, time: float, planned) -> int:
        back = [node for job in self.running for node in job.nodes if self.comes_back(job, node) <= time]
        taken = sum(len(nodes) for begin, end, nodes, _, _ in planned if begin <= time < end)
        return self.units_now() + self.units_of(back) - taken

    def watts_left(self, time: float, planned=(), starts: bool = False) -> float:
        left = super().watts_left(time, planned, starts=starts)
        for job in self.running if left < math.inf and not starts else ():
            if self.expected(job) > time:
                back = [node for node in job.nodes if self.comes_back(job, node) <= time]
                left += self.cost(back, job.request)
        return left
