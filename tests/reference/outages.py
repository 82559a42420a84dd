"""Rigid jobs on nodes that fail, are drained, and have a power cap: FCFS and EASY, obviously right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

FOREVER = float("inf")


@dataclass
class Job:
    id: int
    submit: float
    run: float
    estimate: float
    units: int
    state: str = "waiting"
    start: float | None = None
    end: float | None = None  # while it runs: when it will end if nothing happens
    held: dict[int, int] = field(default_factory=dict)  # node: units
    attempts: list[tuple[float, float, int, float, float]] = field(default_factory=list)
    stays: list[tuple[int, float, float, int]] = field(default_factory=list)  # node, from, to, units
    backfilled: bool = False
    killed: bool = False


@dataclass(frozen=True)
class Outage:
    """A node fails, or is drained, from a time to another; for good without one."""

    node: int
    start: float
    end: float | None
    drained: bool = False


@dataclass(frozen=True)
class Rules:
    nodes: int
    cores: int
    exclusive: bool
    easy: bool = False
    kill: bool = False
    on_failure: str = "die"
    max_restarts: int = 5
    checkpoint: float | None = None
    outages: tuple[Outage, ...] = ()
    idle: float = 0.0
    busy: float = 0.0
    off: float = 0.0
    caps: tuple[tuple[float, float], ...] = ()


class Machine:
    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.down: list[int] = []  # a node once for each reason
        self.waiting: list[Job] = []
        self.running: list[Job] = []
        self.cap = FOREVER

    @property
    def size(self) -> int:
        """Units of a node."""
        return 1 if self.rules.exclusive else self.rules.cores

    def used(self, node: int) -> int:
        return sum(job.held.get(node, 0) for job in self.running)

    def free(self, node: int) -> int:
        return 0 if node in self.down else self.size - self.used(node)

    def power(self) -> float:
        total = 0.0
        for node in range(self.rules.nodes):
            used = self.used(node)
            if used == 0 and node in self.down:
                total += self.rules.off
            else:
                total += self.rules.idle + (self.rules.busy - self.rules.idle) * used / self.size
        return total

    def room(self) -> int:
        """Units that may be taken now."""
        free = sum(self.free(node) for node in range(self.rules.nodes))
        a_unit = (self.rules.busy - self.rules.idle) / self.size
        while free > 0 and self.power() + free * a_unit > self.cap + 1e-6:
            free -= 1
        return free

    def simulate(self, jobs: Sequence[Job]) -> None:
        to_come = sorted(jobs, key=lambda job: (job.submit, job.id))
        changes: list[tuple[float, int, Outage | float]] = []
        for outage in self.rules.outages:
            changes.append((outage.start, 1, outage))
            if outage.end is not None:
                changes.append((outage.end, -1, outage))
        changes += [(at, 0, cap) for at, cap in self.rules.caps]
        biggest = self.biggest()
        while to_come or self.running or changes:
            times = [job.end for job in self.running] + [job.submit for job in to_come[:1]]
            now = min(times + [change[0] for change in changes])
            for job in [job for job in self.running if job.end == now]:
                self.stop(job, now, "killed" if job.killed else "completed")
            for change in [change for change in changes if change[0] == now]:
                changes.remove(change)
                self.change(now, *change[1:])
            while to_come and to_come[0].submit == now:
                job = to_come.pop(0)
                if job.units > biggest:
                    job.state = "rejected"
                else:
                    self.waiting.append(job)
            self.make_pass(now)
        for job in self.waiting:
            self.strand(job)

    def biggest(self) -> int:
        """Units that the whole empty machine may give to a job at the best of times."""
        most = self.rules.nodes * self.size
        caps = self.rules.caps
        best = max(cap for _, cap in caps) if caps and caps[0][0] == 0.0 else FOREVER
        a_unit = (self.rules.busy - self.rules.idle) / self.size
        while most > 0 and self.rules.idle * self.rules.nodes + most * a_unit > best + 1e-6:
            most -= 1
        return most

    def strand(self, job: Job) -> None:
        job.state = "rejected"
        if job.attempts:
            job.state = "failed"
            job.start, job.end, *_ = job.attempts.pop()

    def stop(self, job: Job, now: float, state: str) -> None:
        job.stays += [(node, job.start, now, units) for node, units in job.held.items()]
        job.state, job.end, job.held = state, now, {}
        self.running.remove(job)

    def change(self, now: float, kind: int, what: Outage | float) -> None:
        if isinstance(what, float):
            self.cap = what
        elif kind < 0:
            self.down.remove(what.node)
        else:
            if not what.drained:
                for job in [job for job in self.running if what.node in job.held]:
                    self.lose(job, now, what.node)
            self.down.append(what.node)

    def lose(self, job: Job, now: float, node: int) -> None:
        """A node of a running job fails."""
        cores = sum(job.held.values()) * (self.rules.cores if self.rules.exclusive else 1)
        self.stop(job, now, "failed")
        if self.rules.on_failure == "die" or len(job.attempts) >= self.rules.max_restarts:
            return
        ran, kept = now - job.start, 0.0
        if self.rules.on_failure == "resume":
            kept = (
                ran if self.rules.checkpoint is None else ran // self.rules.checkpoint * self.rules.checkpoint
            )
        job.attempts.append((job.start, now, node, kept, cores * (ran - kept)))
        job.run -= kept
        job.estimate = job.estimate - kept if job.estimate > kept else min(job.estimate, 1.0)
        job.state, job.backfilled = "waiting", False
        self.waiting.append(job)

    def make_pass(self, now: float) -> None:
        self.waiting.sort(key=lambda job: (job.submit, job.id))
        while self.waiting and self.waiting[0].units <= self.room():
            self.start(self.waiting[0], now)
        if not self.waiting or not self.rules.easy:
            return
        for job in self.waiting[1:]:
            if job.units > self.room():
                continue
            time, extra = self.reservation(self.waiting[0], now)
            if now + job.estimate <= time or job.units <= extra:
                job.backfilled = True
                self.start(job, now)

    def reservation(self, head: Job, now: float) -> tuple[float, int]:
        def expected(job: Job) -> float:
            end = job.start + job.estimate
            if end > now:
                return end
            return now if now in (job.end, job.start) else now + 1.0

        def coming(job: Job) -> int:
            return sum(units for node, units in job.held.items() if node not in self.down)

        # Below 0 where the cap has fallen, or nodes came back, below what runs.
        room = self.room()
        if room == 0 and self.rules.caps:
            room = self.shortage()
        for time in sorted({expected(job) for job in self.running}):
            available = room + sum(coming(job) for job in self.running if expected(job) <= time)
            if available >= head.units:
                return time, available - head.units
        return FOREVER, 0

    def shortage(self) -> int:
        """Units, as a number below 0, that would have to be given back before one could be taken."""
        a_unit = (self.rules.busy - self.rules.idle) / self.size
        missing = 0
        while a_unit > 0 and self.power() - missing * a_unit > self.cap + 1e-6:
            missing += 1
        return -missing

    def start(self, job: Job, now: float) -> None:
        self.waiting.remove(job)
        wanted = job.units
        for node in range(self.rules.nodes):
            taken = min(wanted, self.free(node))
            if taken:
                job.held[node] = taken
                wanted -= taken
        assert wanted == 0
        job.state, job.start = "running", now
        job.killed = self.rules.kill and job.run > job.estimate
        job.end = now + (min(job.run, job.estimate) if self.rules.kill else job.run)
        self.running.append(job)


class UnevenMachine(Machine):
    """Nodes that add different power when they are held: node n takes ``scale[n]`` times idle and busy."""

    def __init__(self, rules: Rules, scale: Sequence[float]) -> None:
        super().__init__(rules)
        self.scale = scale

    def a_unit(self, node: int) -> float:
        return self.scale[node] * (self.rules.busy - self.rules.idle) / self.size

    def power(self) -> float:
        total = 0.0
        for node in range(self.rules.nodes):
            used = self.used(node)
            is_off = used == 0 and node in self.down
            total += (
                self.rules.off if is_off else self.scale[node] * self.rules.idle + used * self.a_unit(node)
            )
        return total

    def place(self, units: int, free: Sequence[int]) -> dict[int, int] | None:
        """First-fit."""
        placed: dict[int, int] = {}
        for node, room in enumerate(free):
            taken = min(units, room)
            if taken > 0:
                placed[node] = taken
                units -= taken
        return placed if units == 0 else None

    def fits(self, units: int, free: Sequence[int], watts: float) -> dict[int, int] | None:
        """Where a job would be put, if the power suffices."""
        placed = self.place(units, free)
        return placed if placed is not None and self.cost(placed) <= watts + 1e-4 else None

    def cost(self, placed: dict[int, int]) -> float:
        return sum(units * self.a_unit(node) for node, units in placed.items())

    def biggest(self) -> int:
        return 10**9

    def can_never_start(self, job: Job) -> bool:
        caps = self.rules.caps
        best = max(cap for _, cap in caps) if caps and caps[0][0] == 0.0 else FOREVER
        best -= sum(self.scale) * self.rules.idle
        return self.fits(job.units, [self.size] * self.rules.nodes, best) is None

    def make_pass(self, now: float) -> None:
        for job in [job for job in self.waiting if self.can_never_start(job)]:
            self.waiting.remove(job)
            job.state = "rejected"
        self.waiting.sort(key=lambda job: (job.submit, job.id))
        while self.waiting and self.start_if_fits(self.waiting[0], now):
            pass
        if not self.waiting or not self.rules.easy:
            return
        head = self.waiting[0]
        time, free, watts = self.foresee(head, now)
        for job in self.waiting[1:]:
            placed = self.fits(job.units, self.all_free(), self.cap - self.power())
            if placed is None:
                continue
            if now + job.estimate > time:
                left = [room - placed.get(node, 0) for node, room in enumerate(free)]
                if self.fits(head.units, left, watts - self.cost(placed)) is None:
                    continue
                free, watts = left, watts - self.cost(placed)
            job.backfilled = True
            self.start(job, now)

    def all_free(self) -> list[int]:
        return [self.free(node) for node in range(self.rules.nodes)]

    def start_if_fits(self, job: Job, now: float) -> bool:
        if self.fits(job.units, self.all_free(), self.cap - self.power()) is None:
            return False
        self.start(job, now)
        return True

    def foresee(self, head: Job, now: float) -> tuple[float, list[int], float]:
        """When the head fits, and what is free then; infinity if that is not known."""
        free, watts = self.all_free(), self.cap - self.power()

        def expected(job: Job) -> float:
            end = job.start + job.estimate
            if end > now:
                return end
            return now if now in (job.end, job.start) else now + 1.0

        for time in sorted({expected(job) for job in self.running}):
            for job in [job for job in self.running if expected(job) == time]:
                for node, units in job.held.items():
                    if node not in self.down:
                        free[node] += units
                        watts += units * self.a_unit(node)
            if self.fits(head.units, free, watts) is not None:
                return time, free, watts
        return FOREVER, free, watts
