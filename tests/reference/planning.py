"""A batch level whose dispatchers plan around announced drains: every rule of backfilling, slow and obvious.

Time is looked at as a whole: what is free of a node in a stretch of time is found by asking for every
moment of it. Ends come before outages, these before submissions, then there is one pass.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.reference.allocators import Nodes

FOREVER = float("inf")
UNKNOWN = float("nan")


@dataclass
class Job:
    """A job, and what became of it."""

    number: int
    submit: float
    run: float
    estimate: float
    units: int
    request: tuple[int, ...]
    shares: tuple[int, ...] = ()  # what it asks in all of what the machine has as a whole
    state: str = "waiting"
    start: float = UNKNOWN
    end: float = UNKNOWN
    nodes: list[int] = field(default_factory=list)
    backfilled: bool = False
    reserved: tuple[float, list[int]] | None = None
    attempts: int = 0
    stays: list[tuple[float, float, list[int]]] = field(default_factory=list)


@dataclass(frozen=True)
class Outage:
    """A stretch of time out of use: a failure, a drain, or one that is announced at a time."""

    node: int
    start: float
    end: float
    kind: str = "announced"
    announced_at: float = 0.0


@dataclass(frozen=True)
class Rules:
    backfill: str = "none"
    reservations: int = 1
    kill: bool = True
    restart: bool = False
    max_restarts: int = 5
    power: tuple[tuple[float, float, float], ...] = ()  # idle, busy, off of each node
    caps: tuple[tuple[float, float], ...] = ()


class PlanningSystem:
    def __init__(
        self, nodes: Nodes, allocate, rules: Rules, outages, key=lambda job, now: job.submit, shared=()
    ) -> None:
        self.shared = tuple(shared)
        self.nodes, self.allocate, self.rules, self.key = nodes, allocate, rules, key
        self.outages = list(outages)
        self.running: list[Job] = []
        self.waiting: list[Job] = []

    def run(self, jobs: list[Job]) -> None:
        to_come = list(jobs)
        times = {time for outage in self.outages for time in (outage.start, outage.end)} - {FOREVER}
        times |= {time for time, _ in self.rules.caps}
        while to_come or self.running or times:
            now = min([job.end for job in self.running] + [job.submit for job in to_come[:1]] + list(times))
            self.now = now
            times.discard(now)
            for job in [job for job in self.running if job.end == now]:
                self.leave(job, "completed" if job.run <= job.estimate or not self.rules.kill else "killed")
            for outage in self.outages:
                if outage.kind == "failed" and outage.start == now:
                    self.fail(outage.node)
            while to_come and to_come[0].submit == now:
                job = to_come.pop(0)
                nodes = self.allocate(
                    self.nodes, job.units, job.request, list(self.nodes.capacity), job.number
                )
                too_much = any(asks > has for asks, has in zip(job.shares, self.shared, strict=True))
                if nodes is None or too_much or self.cost(nodes, job.request) > self.highest() + 1e-4:
                    job.state = "rejected"
                else:
                    self.waiting.append(job)
            self.make_pass()
        for job in self.waiting:
            job.state = "failed" if job.attempts else "rejected"
            if job.stays:
                job.start, job.end, _ = job.stays[-1]

    def leave(self, job: Job, state: str) -> None:
        job.state, job.end = state, self.now
        job.stays.append((job.start, job.end, job.nodes))
        self.running.remove(job)

    def fail(self, node: int) -> None:
        for job in [job for job in self.running if node in job.nodes]:
            self.leave(job, "failed")
            if self.rules.restart and job.attempts < self.rules.max_restarts:
                job.attempts += 1
                job.state, job.start, job.end = "waiting", UNKNOWN, UNKNOWN
                job.backfilled, job.reserved = False, None
                self.waiting.append(job)

    # What is free, and when

    def is_known(self, outage: Outage) -> bool:
        return outage.kind == "announced" and outage.announced_at <= self.now < outage.end

    def is_out(self, node: int, begin: float, end: float) -> bool:
        """Whether a job could not be on a node from a time to another, for all that is known now."""
        for outage in self.outages:
            if outage.node != node:
                continue
            if self.is_known(outage):
                if outage.start < end and begin < outage.end:
                    return True
            elif outage.start <= self.now < outage.end:
                return True  # nobody knows until when
        return False

    def expected(self, job: Job) -> float:
        end = job.start + job.estimate
        return end if end > self.now else self.now + 1.0

    def free_at(self, time: float, planned) -> list[tuple[int, ...]]:
        """What nobody holds at a time, by estimates and by plans: (begin, end, nodes, request) each."""
        held = [
            (job.nodes, job.request) for job in self.running if time == self.now or self.expected(job) > time
        ]
        held += [(nodes, request) for begin, end, nodes, request, _ in planned if begin <= time < end]
        left = [list(row) for row in self.nodes.capacity]
        for nodes, request in held:
            for node in nodes:
                taken = self.nodes.capacity[node] if self.nodes.exclusive else request
                left[node] = [has - part for has, part in zip(left[node], taken, strict=True)]
        return [tuple(row) for row in left]

    def free_for(self, begin: float, estimate: float, planned=()) -> list[tuple[int, ...]]:
        """What is free throughout a job's time, on nodes that no outage takes away from it."""
        end = begin + estimate
        moments = {begin} | {time for time in self.moments(planned) if begin < time < end}
        free = [self.free_at(time, planned) for time in moments]
        least = [
            tuple(min(amounts) for amounts in zip(*rows, strict=True)) for rows in zip(*free, strict=True)
        ]
        return [(0,) * len(row) if self.is_out(node, begin, end) else row for node, row in enumerate(least)]

    def moments(self, planned) -> list[float]:
        """When what is free may change, from now on."""
        times = {self.now} | {self.expected(job) for job in self.running}
        times |= {time for begin, end, *_ in planned for time in (begin, end)}
        times |= {outage.end for outage in self.outages if self.is_known(outage)}
        return sorted(time for time in times if self.now <= time < FOREVER)

    def place(self, job: Job, begin: float, planned=()) -> list[int] | None:
        if not self.shares_suffice(job, begin, planned):
            return None
        free = self.free_for(begin, job.estimate, planned)
        nodes = self.allocate(self.nodes, job.units, job.request, free, job.number)
        if nodes is None or self.cost(nodes, job.request) > self.watts_left(begin, planned) + 1e-4:
            return None
        return nodes

    # What the machine has as a whole

    def shared_at(self, time: float, planned) -> list[int]:
        """What nobody holds of it at a time: a job holds its share from start to end, whatever its nodes."""
        held = [job.shares for job in self.running if time == self.now or self.expected(job) > time] + [
            shares for begin, end, _, _, shares in planned if begin <= time < end
        ]
        return [has - sum(each[k] for each in held) for k, has in enumerate(self.shared)]

    def shares_suffice(self, job: Job, begin: float, planned) -> bool:
        end = begin + job.estimate
        moments = {begin} | {time for time in self.moments(planned) if begin < time < end}
        return all(
            asks <= free
            for time in moments
            for asks, free in zip(job.shares, self.shared_at(time, planned), strict=True)
        )

    # Power

    def highest(self) -> float:
        """What jobs may add to the idle machine at the best of times."""
        caps = self.rules.caps
        if not caps or caps[0][0] > 0:
            return FOREVER
        return max(watts for _, watts in caps) - sum(idle for idle, _, _ in self.rules.power)

    def of_unit(self, node: int, request) -> float:
        """What a unit adds."""
        if not self.rules.power:
            return 0.0
        idle, busy, _ = self.rules.power[node]
        return (busy - idle) * (1 if self.nodes.exclusive else request[0] / self.nodes.capacity[node][0])

    def cost(self, nodes, request) -> float:
        return sum(self.of_unit(node, request) for node in nodes)

    def watts_left(self, time: float, planned=()) -> float:
        """What jobs may add at a time: the cap is as it is now; running jobs give back what they take."""
        cap = ([FOREVER] + [watts for at, watts in self.rules.caps if at <= self.now])[-1]
        if cap == FOREVER:
            return cap
        left = cap
        for node, (idle, _, off) in enumerate(self.rules.power):
            held = any(node in job.nodes for job in self.running)
            returns = self.returns(node)
            left -= idle if held or returns <= time else off
        for job in self.running:
            is_gone = time > self.now and self.expected(job) <= time
            stay = [node for node in job.nodes if not is_gone or self.returns(node) == FOREVER]
            left -= self.cost(stay, job.request)
        return left - sum(
            self.cost(nodes, request) for begin, end, nodes, request, _ in planned if begin <= time
        )

    def returns(self, node: int) -> float:
        """When a node is expected to be in use: now, or at the end of the announced drains it is in."""
        now = [
            outage for outage in self.outages if outage.node == node and outage.start <= self.now < outage.end
        ]
        if not all(self.is_known(outage) for outage in now):
            return FOREVER
        return max([self.now] + [outage.end for outage in now])

    def earliest(self, job: Job, planned=()) -> tuple[float, list[int]] | None:
        for time in self.moments(planned):
            nodes = self.place(job, time, planned)
            if nodes is not None:
                return time, nodes
        return None

    def plan_of(self, job: Job, begin: float, nodes: list[int]):
        return (begin, begin + job.estimate, nodes, job.request, job.shares)

    # Passes

    def start(self, job: Job, nodes: list[int], backfilled: bool = False) -> None:
        job.state, job.start, job.nodes, job.backfilled = "running", self.now, nodes, backfilled
        job.end = self.now + (min(job.run, job.estimate) if self.rules.kill else job.run)
        self.waiting.remove(job)
        self.running.append(job)

    def make_pass(self) -> None:
        self.waiting.sort(key=lambda job: (self.key(job, self.now), job.number))
        if self.rules.backfill == "conservative":
            self.conservative()
            return
        while self.waiting:
            nodes = self.place(self.waiting[0], self.now)
            if nodes is None:
                break
            self.start(self.waiting[0], nodes)
        if not self.waiting or self.rules.backfill == "none":
            return
        if self.rules.backfill == "greedy":
            for job in self.waiting[1:]:
                nodes = self.place(job, self.now)
                if nodes is not None:
                    self.start(job, nodes, True)
        elif self.rules.reservations > 1:
            self.several()
        else:
            self.easy()

    def easy(self) -> None:
        """The head keeps its time; whichever nodes it has then."""
        head = self.waiting[0]
        found = self.earliest(head)
        time = FOREVER if found is None else found[0]
        for job in self.waiting[1:]:
            nodes = self.place(job, self.now)
            if nodes is None:
                continue
            beside = [(time, FOREVER, nodes, job.request, job.shares)]
            if self.now + job.estimate > time and self.place(head, time, beside) is None:
                continue
            self.start(job, nodes, True)

    def several(self) -> None:
        """The first k jobs that do not fit have a place each, with nodes."""
        planned, reserved = [], 0
        for job in list(self.waiting):
            nodes = None
            if job is not self.waiting[0]:
                nodes = self.place(job, self.now, planned)
            if nodes is not None:
                self.start(job, nodes, True)
            elif reserved < self.rules.reservations:
                reserved += 1
                found = self.earliest(job, planned)
                if found is not None:
                    planned.append(self.plan_of(job, *found))

    def conservative(self) -> None:
        planned = self.kept()
        if planned is None:
            for job in self.waiting:
                job.reserved = None
        else:
            self.compress()
        overtakes = False
        for job in list(self.waiting):
            if job.reserved is None:
                others = [self.plan_of(other, *other.reserved) for other in self.waiting if other.reserved]
                job.reserved = self.earliest(job, others)
            if job.reserved is None or job.reserved[0] > self.now:
                overtakes = True
                continue
            self.start(job, job.reserved[1], overtakes)
            job.reserved = None

    def kept(self):
        """The places that jobs have, if all of them still hold together."""
        planned = []
        for job in self.waiting:
            if job.reserved is None:
                continue
            time, nodes = job.reserved
            if time < self.now or any(self.is_out(node, time, time + job.estimate) for node in nodes):
                return None
            planned.append(self.plan_of(job, time, nodes))
        for time in self.moments(planned):
            for row in [*self.free_at(time, planned), self.shared_at(time, planned)]:
                if min(row, default=0) < 0:
                    return None
        return planned

    def compress(self) -> None:
        """Each job moves to its earliest place given all others, in order, until nothing moves."""
        moved = True
        while moved:
            moved = False
            for job in self.waiting:
                if job.reserved is None:
                    continue
                others = [
                    self.plan_of(other, *other.reserved)
                    for other in self.waiting
                    if other.reserved and other is not job
                ]
                found = self.earliest(job, others)
                if found is not None and found[0] < job.reserved[0]:
                    job.reserved, moved = found, True
