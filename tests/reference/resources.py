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
        self.down: list[int] = []  # a node once for each reason

    def run(self, jobs: list[Job]) -> None:
        for job in jobs:
            job.rejected = self.place(job, list(self.nodes.capacity)) is None
        to_come = [job for job in jobs if not job.rejected]
        while to_come or self.running:
            now = min([job.end for job in self.running] + [job.submit for job in to_come[:1]])
            self.running = [job for job in self.running if job.end != now]
            self.arrive([job for job in to_come if job.submit == now])
            to_come = [job for job in to_come if job.submit != now]
            self.pass_at(now)

    def arrive(self, jobs: list[Job]) -> None:
        if hasattr(self.allocate, "arrive"):
            self.allocate.arrive(self.nodes, jobs, self.down)
        self.waiting += jobs

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
        if end > now:
            return end
        return now if now in (job.end, job.start) else now + 1.0

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


Stay = tuple[float, float, list[int], tuple[int, ...]]  # from, until, the node of each unit, what a unit asks
FOREVER = float("inf")


class ReservingSystem(ReferenceSystem):
    """Reservations of nodes at a time: of the first k jobs that do not fit, or (k None: conservative) of all.

    ``failures`` lists (node, from, until); a job that runs there is lost. Conservative reservations are kept
    with their nodes, and with ``one_round`` look for an earlier time once when something has come back early.
    """

    def __init__(self, nodes: Nodes, allocate, key, k: int | None, failures=(), *, one_round=False) -> None:
        super().__init__(nodes, allocate, "none", key)
        self.k, self.failures, self.one_round = k, list(failures), one_round
        self.promised: dict[int, tuple[float, list[int]]] = {}  # job: when and where
        self.lost: list[Job] = []
        self.early = False

    def run(self, jobs: list[Job]) -> None:
        for job in jobs:
            job.rejected = self.place(job, list(self.nodes.capacity)) is None
        to_come = [job for job in jobs if not job.rejected]
        changes = [(at, 1, node) for node, at, _ in self.failures]
        changes += [(until, -1, node) for node, _, until in self.failures]
        now = -1.0
        while to_come or self.running or changes or self.next_promise(now) < FOREVER:
            now = min(
                [job.end for job in self.running]
                + [job.submit for job in to_come[:1]]
                + [change[0] for change in changes]
                + [self.next_promise(now)]
            )
            for job in [job for job in self.running if job.end == now]:
                self.running.remove(job)
                self.early |= job.start + job.estimate != now
            for change in [change for change in changes if change[0] == now]:
                changes.remove(change)
                self.change(now, *change[1:])
            self.arrive([job for job in to_come if job.submit == now])
            to_come = [job for job in to_come if job.submit != now]
            self.pass_at(now)

    def next_promise(self, now: float) -> float:
        if not self.one_round:
            return FOREVER
        return min([time for time, _ in self.promised.values() if time > now], default=FOREVER)

    def change(self, now: float, kind: int, node: int) -> None:
        if kind < 0:
            self.down.remove(node)
            self.early |= node not in self.down
            return
        self.down.append(node)
        if hasattr(self.allocate, "lift"):
            self.allocate.lift(self.nodes, self.waiting, self.down)
        for job in [job for job in self.running if node in job.nodes]:
            job.end = now
            self.running.remove(job)
            self.lost.append(job)
            self.early |= job.start + job.estimate != now

    def stays(self, now: float, but: Job | None = None) -> list[Stay]:
        """Who holds what until when: running jobs, and those that have been promised nodes."""
        held = [(now, self.expected(job, now), job.nodes, job.request) for job in self.running]
        for job in self.waiting:
            if job.number in self.promised and job is not but:
                time, nodes = self.promised[job.number]
                held.append((time, time + job.estimate, nodes, job.request))
        return held

    def free_in(self, begin: float, end: float, stays: list[Stay]):
        """What is free on each node all the time."""
        moments = [begin] + [start for start, _, _, _ in stays if begin < start < end]
        least = list(self.nodes.capacity)
        for moment in moments:
            free = list(self.nodes.capacity)
            for start, stop, nodes, request in stays:
                if start <= moment < stop:
                    for node in nodes:
                        self.nodes.take(node, request, free)
            least = [tuple(map(min, *pair)) for pair in zip(least, free, strict=True)]
        for node in self.down:
            least[node] = tuple(0 for _ in least[node])
        return least

    def free_at(self, time: float, now: float):
        return self.free_in(now, now, [stay for stay in self.stays(now) if stay[0] <= now])

    def earliest(self, job: Job, now: float, stays: list[Stay]) -> tuple[float, list[int]]:
        times = {now} | {start for start, _, _, _ in stays} | {stop for _, stop, _, _ in stays}
        for begin in sorted(time for time in times if time >= now):
            nodes = self.place(job, self.free_in(begin, begin + job.estimate, stays))
            if nodes is not None:
                return begin, nodes
        return FOREVER, []

    def pass_at(self, now: float) -> None:
        self.waiting.sort(key=lambda job: (self.key(job, now), job.number))
        if self.k is None:
            self.keep_promises(now)
            return
        while self.waiting:
            nodes = self.place(self.waiting[0], self.free_at(now, now))
            if nodes is None:
                break
            self.start(self.waiting[0], nodes, now)
        stays, reserved = self.stays(now), 0
        for job in list(self.waiting):
            begin, nodes = self.earliest(job, now, stays)
            if begin == now:
                stays.append((now, now + job.estimate, nodes, job.request))
                job.backfilled = True
                self.start(job, nodes, now)
            elif reserved < self.k:
                reserved += 1
                if begin < FOREVER:
                    stays.append((begin, begin + job.estimate, nodes, job.request))

    def keep_promises(self, now: float) -> None:
        if not self.promises_hold(now):
            self.promised.clear()
        moved = self.early
        while moved:
            moved = False
            for job in [job for job in self.waiting if job.number in self.promised]:
                begin, nodes = self.earliest(job, now, self.stays(now, but=job))
                if begin < self.promised[job.number][0]:
                    self.promised[job.number] = begin, nodes
                    moved = not self.one_round
        self.early, overtakes = False, False
        for job in self.waiting:
            if job.number not in self.promised:
                begin, nodes = self.earliest(job, now, self.stays(now))
                if begin < FOREVER:
                    self.promised[job.number] = begin, nodes
        for job in list(self.waiting):
            begin, nodes = self.promised.get(job.number, (FOREVER, []))
            if begin <= now:
                job.backfilled = overtakes
                del self.promised[job.number]
                self.start(job, nodes, now)
            else:
                overtakes = True

    def promises_hold(self, now: float) -> bool:
        if any(time < now for time, _ in self.promised.values()):
            return False
        if any(node in self.down for _, nodes in self.promised.values() for node in nodes):
            return False
        stays = self.stays(now)
        return all(
            has >= 0
            for moment in {now} | {start for start, _, _, _ in stays}
            for node, row in enumerate(self.free_in(moment, moment, stays))
            if node not in self.down
            for has in row
        )
