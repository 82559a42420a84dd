"""A batch level in which all features may meet, one event at a time, obviously right.

Time is looked at as a whole: what is free of a node in a stretch of time is found by asking for every moment
of it. Events of one time go by their order, then as they were planned; usually one pass comes after them all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from tests.reference.allocators import Nodes

FOREVER = float("inf")
UNKNOWN = float("nan")
FIRST, ELIGIBLE, END, OUTAGE, SUBMISSION, LATER = range(6)
"""What comes first of events of one time; with ``ties: per-event`` submissions, then eligible jobs."""

After = tuple[int, bool, float]  # number of a job, whether it must have completed, think time


@dataclass
class Job:
    """A job, and what became of it."""

    number: int
    submit: float  # when it comes to the queue
    run: float
    estimate: float
    units: int
    request: tuple[int, ...]
    shares: tuple[int, ...] = ()  # what it asks in all of what the machine has as a whole
    after: list[After] = field(default_factory=list)
    small: bool = False  # of classes: whether it goes before large ones
    limit: float = FOREVER  # for how long it may run as a small one
    may_use: frozenset[int] | None = None  # the nodes that it may use; None: all
    state: str = "waiting"
    start: float = UNKNOWN
    end: float = UNKNOWN  # of one that runs: when it will
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
    ties: str = "drained"
    threshold: float = FOREVER
    one_round: bool = False
    every_end: bool = False  # one round, after every end
    feedback: bool = False
    classes: bool = False
    counts: bool = (
        False  # whether units are all that reservations know: nodes are alike, nothing is announced
    )


class PlanningSystem:
    def __init__(
        self,
        nodes: Nodes,
        allocate,
        rules: Rules,
        outages,
        key=lambda job, now: job.submit,
        shared=(),
        walk_key=None,
    ) -> None:
        self.shared = tuple(shared)
        self.nodes, self.allocate, self.rules, self.key = nodes, allocate, rules, key
        self.walk_key = walk_key or key
        self.outages = list(outages)
        self.running: list[Job] = []
        self.waiting: list[Job] = []
        self.held: list[Job] = []
        self.ends: dict[int, tuple[float, bool]] = {}  # when jobs ended for good, and whether they completed
        self.known: set[Outage] = set()  # announced, and not over
        self.active: set[Outage] = set()
        caps = rules.caps
        self.cap = caps[0][1] if caps and caps[0][0] == 0.0 else FOREVER
        self.events: list[list] = []  # time, order, when planned, what to do, with whom
        self.planned = 0
        self.wants_pass = self.early = False
        self.wake: list | None = None

    # Events

    def at(self, time: float, order: int, what, *subject) -> list:
        self.planned += 1
        event = [time, order, self.planned, what, subject]
        self.events.append(event)
        return event

    def cancel(self, job: Job) -> None:
        self.events = [event for event in self.events if event[3] != self.leave or event[4] != (job,)]

    def run(self, jobs: list[Job]) -> None:
        self.now = 0.0
        for outage in self.outages:
            if outage.kind == "announced" and outage.announced_at > 0:
                self.at(outage.announced_at, OUTAGE, self.announce, outage)
            elif outage.kind == "announced":
                self.announce(outage)
            else:
                self.at(outage.start, OUTAGE, self.begin, outage)
        for time, watts in self.rules.caps:
            self.at(time, OUTAGE, self.set_cap, watts)
        for job in jobs:
            if self.rules.feedback and job.after and self.fits_ever(job):
                self.hold(job)
            else:
                self.at(job.submit, FIRST if self.rules.ties == "per-event" else SUBMISSION, self.submit, job)
        self.go_on()
        while (promised := self.next_promise()) < FOREVER:
            self.at(promised, SUBMISSION, self.want_pass)
            self.go_on()
        for job in self.waiting + self.held:
            job.state = "failed" if job.stays else "rejected"
            if job.stays:
                job.start, job.end, _ = job.stays[-1]

    def go_on(self) -> None:
        while self.events:
            event = min(self.events, key=lambda event: event[:3])
            self.events.remove(event)
            self.now = event[0]
            event[3](*event[4])
            if self.wants_pass and all(other[0] > self.now for other in self.events):
                self.wants_pass = False
                self.make_pass()

    def want_pass(self) -> None:
        self.wants_pass = True

    def event_over(self) -> None:
        """A submission or an end is over: now there is a pass, or when the time is over."""
        if self.rules.ties == "drained":
            self.want_pass()
        else:
            self.make_pass()

    # Submissions

    def fits_ever(self, job: Job) -> bool:
        nodes = self.choose(job, list(self.nodes.capacity))
        too_much = any(asks > has for asks, has in zip(job.shares, self.shared, strict=True))
        return nodes is not None and not too_much and self.cost(nodes, job.request) <= self.highest() + 1e-4

    def submit(self, job: Job) -> None:
        if not self.fits_ever(job):
            job.state = "rejected"
            self.tell(job, completed=False)
        elif not self.rules.feedback and any(self.misses(job, one) for one in job.after):
            self.hold(job)
        else:
            self.queue_up(job)

    def misses(self, job: Job, one: After) -> bool:
        number, must_complete, think = one
        if number not in self.ends:
            return True
        end, completed = self.ends[number]
        return end + think > self.now or (must_complete and not completed)

    def hold(self, job: Job) -> None:
        self.held.append(job)
        self.look_at(job)

    def look_at(self, job: Job) -> None:
        """Find out whether a held job knows when it becomes eligible, or that it never will."""
        gone = [(*self.ends[number], must, think) for number, must, think in job.after if number in self.ends]
        never = any(must and not completed for _, completed, must, _ in gone)
        if not never and len(gone) < len(job.after):
            return
        self.held.remove(job)
        order = ELIGIBLE if self.rules.ties == "per-event" else LATER
        if never:
            self.at(self.now, order, self.turn_away, job)
        else:
            self.at(max([self.now] + [end + think for end, _, _, think in gone]), order, self.let_in, job)

    def let_in(self, job: Job) -> None:
        job.submit = self.now
        self.queue_up(job)

    def turn_away(self, job: Job) -> None:
        job.state = "rejected"
        self.tell(job, completed=False)

    def queue_up(self, job: Job) -> None:
        self.waiting.append(job)
        self.event_over()

    def tell(self, job: Job, completed: bool) -> None:
        """A job has ended for good: who waits for it hears of it."""
        self.ends[job.number] = (self.now, completed)
        for other in [other for other in self.held if job.number in [number for number, _, _ in other.after]]:
            self.look_at(other)

    # Ends

    def leave(self, job: Job) -> None:
        """The end of a job has come, by itself, at its walltime, or as it is no small one."""
        if job.limit < self.natural(job):
            self.free(job)
            job.small, job.limit = False, FOREVER
            self.again(job)
            return
        self.free(job)
        job.state = "killed" if self.rules.kill and job.run > job.estimate else "completed"
        self.tell(job, completed=job.state == "completed")
        self.event_over()

    def natural(self, job: Job) -> float:
        """How long a job stays if nothing happens to it."""
        return min(job.run, job.estimate) if self.rules.kill else job.run

    def free(self, job: Job) -> None:
        if job not in self.running:
            return  # it was taken for gone before
        self.running.remove(job)
        job.end = self.now
        job.stays.append((job.start, job.end, job.nodes))
        # One that takes no time had been reserved the shortest time that there is.
        self.early |= self.rules.every_end or job.start + job.estimate != self.now or job.start == self.now

    def again(self, job: Job) -> None:
        job.state, job.start, job.end = "waiting", UNKNOWN, UNKNOWN
        job.backfilled, job.reserved = False, None
        self.waiting.append(job)
        self.want_pass()

    def free_due(self) -> None:
        """With a pass after every event, submissions first: who ends now as expected counts as gone."""
        for job in list(self.running):
            if job.end == self.now and job.start + job.estimate <= self.now:
                self.free(job)

    # Outages and caps

    def announce(self, outage: Outage) -> None:
        self.known.add(outage)
        self.at(outage.start, OUTAGE, self.begin, outage)

    def begin(self, outage: Outage) -> None:
        if outage.kind == "failed":
            for job in [job for job in self.running if outage.node in job.nodes]:
                self.cancel(job)
                self.free(job)
                if self.rules.restart and job.attempts < self.rules.max_restarts:
                    job.attempts += 1
                    self.again(job)
                else:
                    job.state = "failed"
                    self.tell(job, completed=False)
        self.active.add(outage)
        if outage.end < FOREVER:
            self.at(outage.end, OUTAGE, self.end_outage, outage)
        self.want_pass()

    def end_outage(self, outage: Outage) -> None:
        self.active.discard(outage)
        self.known.discard(outage)
        self.early = True
        self.want_pass()

    def set_cap(self, watts: float) -> None:
        self.early |= watts > self.cap
        self.cap = watts
        self.want_pass()

    # What is free, and when

    def is_out(self, node: int, begin: float, end: float) -> bool:
        """Whether a job could not be on a node from a time to another, for all that is known now."""
        if any(outage.node == node and outage not in self.known for outage in self.active):
            return True  # nobody knows until when
        end = max(end, math.nextafter(begin, FOREVER))
        return any(outage.node == node and outage.start < end and begin < outage.end for outage in self.known)

    def expected(self, job: Job) -> float:
        end = job.start + job.estimate
        if end > self.now:
            return end
        # Whose end is still to be handled at this time, or who starts now, has not outlived the estimate.
        return self.now if self.now in (job.end, job.start) else self.now + 1.0

    def left_of(self, held) -> list[tuple[int, ...]]:
        """What others leave of each node: (nodes, request) each."""
        left = [list(row) for row in self.nodes.capacity]
        for nodes, request in held:
            for node in nodes:
                taken = self.nodes.capacity[node] if self.nodes.exclusive else request
                left[node] = [has - part for has, part in zip(left[node], taken, strict=True)]
        return [tuple(row) for row in left]

    def free_at(self, time: float, planned) -> list[tuple[int, ...]]:
        """What nobody holds at a time, by estimates and by plans: (begin, end, nodes, request) each."""
        held = [(job.nodes, job.request) for job in self.running if self.expected(job) > time]
        held += [(nodes, request) for begin, end, nodes, request, _ in planned if begin <= time < end]
        return self.left_of(held)

    def free_now(self) -> list[tuple[int, ...]]:
        """What nobody holds at all."""
        left = self.left_of([(job.nodes, job.request) for job in self.running])
        out = {outage.node for outage in self.active}
        return [(0,) * len(row) if node in out else row for node, row in enumerate(left)]

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
        times |= {outage.end for outage in self.known}
        return sorted(time for time in times if self.now <= time < FOREVER)

    def place(self, job: Job, begin: float, planned=(), starts: bool = False) -> list[int] | None:
        """Where a job could be from a time on; one that ``starts`` needs what nobody holds any more."""
        if not self.shares_suffice(job, begin, planned, starts):
            return None
        if self.rules.counts:
            return self.count_out(job, begin, planned, starts)
        free = self.free_for(begin, job.estimate, planned)
        if starts:
            free = [tuple(map(min, *pair)) for pair in zip(free, self.free_now(), strict=True)]
        nodes = self.choose(job, free)
        if nodes is None or self.cost(nodes, job.request) > self.watts_left(begin, planned, starts) + 1e-4:
            return None
        return nodes

    def choose(self, job: Job, free) -> list[int] | None:
        """Ask the allocator, which sees nothing free on nodes that the job may not use."""
        seen = [
            row if job.may_use is None or node in job.may_use else (0,) * len(row)
            for node, row in enumerate(free)
        ]
        return self.allocate(self.nodes, job.units, job.request, seen, job.number)

    # Where units are only counted

    def count_out(self, job: Job, begin: float, planned, starts: bool) -> list[int] | None:
        end = begin + job.estimate
        moments = {begin} | {time for time in self.moments(planned) if begin < time < end}
        if min(self.units_at(time, planned) for time in moments) < job.units:
            return None
        if not starts:
            return [-1] * job.units  # any will do
        if self.units_now() < job.units:
            return None
        return self.allocate(self.nodes, job.units, job.request, self.free_now(), job.number)

    def units_of(self, nodes) -> int:
        """Units on nodes that are in use."""
        return sum(not any(outage.node == node for outage in self.active) for node in nodes)

    def units_now(self) -> int:
        """Units that may be taken now; below 0 where the cap has fallen below what runs."""
        free = sum(
            int(row == full) if self.nodes.exclusive else row[0]
            for row, full in zip(self.free_now(), self.nodes.capacity, strict=True)
        )
        if not self.rules.power or self.cap == FOREVER:
            return free
        # Of equal nodes: units that the cap leaves, whoever holds them, in use or not.
        a_unit, watts = self.of_unit(0, (1,)), self.watts_left(self.now, (), starts=True)
        most = sum(1 if self.nodes.exclusive else full[0] for full in self.nodes.capacity)
        left = next(units for units in range(most, -most - 1, -1) if units * a_unit <= watts + 1e-4)
        return min(free, left)

    def units_at(self, time: float, planned) -> int:
        back = sum(self.units_of(job.nodes) for job in self.running if self.expected(job) <= time)
        taken = sum(len(nodes) for begin, end, nodes, _, _ in planned if begin <= time < end)
        return self.units_now() + back - taken

    # What the machine has as a whole

    def shared_at(self, time: float, planned, starts: bool = False) -> list[int]:
        """What nobody holds of it at a time: a job holds its share from start to end, whatever its nodes."""
        held = [job.shares for job in self.running if starts or self.expected(job) > time] + [
            shares for begin, end, _, _, shares in planned if begin <= time < end
        ]
        return [has - sum(each[k] for each in held) for k, has in enumerate(self.shared)]

    def shares_suffice(self, job: Job, begin: float, planned, starts: bool = False) -> bool:
        end = begin + job.estimate
        moments = {begin} | {time for time in self.moments(planned) if begin < time < end}
        free = [self.shared_at(time, planned) for time in moments]
        free += [self.shared_at(self.now, (), True)] if starts else []
        return all(asks <= has for row in free for asks, has in zip(job.shares, row, strict=True))

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

    def watts_left(self, time: float, planned=(), starts: bool = False) -> float:
        """What jobs may add at a time: the cap is as it is now; running jobs give back what they take."""
        left = self.cap
        if left == FOREVER:
            return left
        for node, (idle, _, off) in enumerate(self.rules.power):
            held = any(node in job.nodes for job in self.running)
            left -= idle if held or self.returns(node) <= time else off
        for job in self.running:
            is_gone = not starts and self.expected(job) <= time
            stay = [node for node in job.nodes if not is_gone or self.returns(node) == FOREVER]
            left -= self.cost(stay, job.request)
        return left - sum(
            self.cost(nodes, request) for begin, end, nodes, request, _ in planned if begin <= time
        )

    def returns(self, node: int) -> float:
        """When a node is expected to be in use: now, or at the end of the announced drains it is in."""
        now = [outage for outage in self.active if outage.node == node]
        if not all(outage in self.known for outage in now):
            return FOREVER
        return max([self.now] + [outage.end for outage in now])

    def earliest(self, job: Job, planned=()) -> tuple[float, list[int]] | None:
        for time in self.moments(planned):
            nodes = self.place(job, time, planned)
            if nodes is not None:
                return time, nodes
        return None

    def plan_of(self, job: Job, begin: float, nodes: list[int]):
        """However short, a stay takes some time, else two jobs could have the same units."""
        end = begin + job.estimate
        return (begin, end if end > begin else math.nextafter(begin, FOREVER), nodes, job.request, job.shares)

    # Passes

    def start(self, job: Job, nodes: list[int], backfilled: bool = False) -> None:
        job.state, job.start, job.nodes, job.backfilled = "running", self.now, nodes, backfilled
        job.end = self.now + min(job.limit, self.natural(job))
        self.waiting.remove(job)
        self.running.append(job)
        self.at(job.end, END, self.leave, job)

    def in_order(self, jobs, key) -> list[Job]:
        def place(job: Job):
            if self.now - job.submit > self.rules.threshold:
                return 0, job.submit, job.number
            return 1 if job.small or not self.rules.classes else 2, key(job, self.now), job.number

        return sorted(jobs, key=place)

    def make_pass(self) -> None:
        if self.rules.ties == "per-event":
            self.free_due()
        self.waiting = self.in_order(self.waiting, self.key)
        if self.rules.backfill == "conservative":
            self.conservative()
            if self.rules.one_round:
                self.wake_up()
            return
        while self.waiting:
            nodes = self.place(self.waiting[0], self.now, starts=True)
            if nodes is None:
                break
            self.start(self.waiting[0], nodes)
        if not self.waiting or self.rules.backfill == "none":
            return
        if self.rules.backfill == "greedy":
            for job in self.in_order(self.waiting[1:], self.walk_key):
                nodes = self.place(job, self.now, starts=True)
                if nodes is not None:
                    self.start(job, nodes, True)
        elif self.rules.reservations > 1:
            self.several()
        else:
            self.easy()

    def next_promise(self) -> float:
        times = [job.reserved[0] for job in self.waiting if job.reserved]
        return min((time for time in times if time > self.now), default=FOREVER)

    def wake_up(self) -> None:
        """In one round, jobs may have been promised a time at which nothing else happens."""
        if self.wake in self.events:
            self.events.remove(self.wake)
        promised = self.next_promise()
        self.wake = None if promised == FOREVER else self.at(promised, SUBMISSION, self.want_pass)

    def easy(self) -> None:
        """The head keeps its time; whichever nodes it has then."""
        head = self.waiting[0]
        found = self.earliest(head)
        time = FOREVER if found is None else found[0]
        for job in self.in_order(self.waiting[1:], self.walk_key):
            nodes = self.place(job, self.now, starts=True)
            if nodes is None:
                continue
            beside = [(time, FOREVER, nodes, job.request, job.shares)]
            if self.now + job.estimate > time and self.place(head, time, beside) is None:
                continue
            self.start(job, nodes, True)

    def several(self) -> None:
        """The first k jobs that do not fit have a place each, with nodes."""
        planned, reserved, left = [], 0, list(self.waiting)

        def starts(job: Job) -> bool:
            nodes = None if job is self.waiting[0] else self.place(job, self.now, planned, starts=True)
            if nodes is not None:
                self.start(job, nodes, True)
            if nodes is not None and self.expected(job) == self.now:
                planned.append(
                    self.plan_of(job, self.now, nodes)
                )  # it has its nodes for a moment all the same
            return nodes is not None

        while left and reserved < self.rules.reservations:
            job = left.pop(0)
            if not starts(job):
                reserved += 1
                found = self.earliest(job, planned)
                if found is not None:
                    planned.append(self.plan_of(job, *found))
        for job in self.in_order(left, self.walk_key):
            starts(job)

    def conservative(self) -> None:
        planned = self.kept()
        if planned is None:
            for job in self.waiting:
                job.reserved = None
        elif self.early or not self.rules.one_round:
            self.compress()
        self.early = overtakes = False
        for job in self.waiting:
            if job.reserved is None:
                others = [self.plan_of(other, *other.reserved) for other in self.waiting if other.reserved]
                job.reserved = self.earliest(job, others)
        for job in list(self.waiting):
            nodes = None
            if job.reserved is not None and job.reserved[0] <= self.now:
                nodes = self.reserved_now(job)
            if nodes is None:
                overtakes = True
                continue
            self.start(job, nodes, overtakes)
            job.reserved = None

    def reserved_now(self, job: Job) -> list[int] | None:
        """The nodes with which a job starts as it has reserved; None while others hold them."""
        _, nodes = job.reserved
        if any(asks > has for asks, has in zip(job.shares, self.shared_at(self.now, (), True), strict=True)):
            return None
        if self.rules.counts:
            if self.units_now() < job.units:
                return None
            return self.allocate(self.nodes, job.units, job.request, self.free_now(), job.number)
        free = self.free_now()
        for node in nodes:
            if not self.nodes.fits(node, job.request, free):
                return None
            self.nodes.take(node, job.request, free)
        return nodes

    def kept(self):
        """The places that jobs have, if all of them still hold together."""
        planned = []
        for job in self.waiting:
            if job.reserved is None:
                continue
            time, nodes = job.reserved
            is_out = not self.rules.counts and any(
                self.is_out(node, time, time + job.estimate) for node in nodes
            )
            if time < self.now or is_out:
                return None
            planned.append(self.plan_of(job, time, nodes))
        # Where a cap has fallen below what runs, less than nothing is left, but nobody has reserved that.
        for time in [time for time in self.moments(planned) if any(a <= time < b for a, b, *_ in planned)]:
            rows = [self.shared_at(time, planned)]
            rows += [[self.units_at(time, planned)]] if self.rules.counts else self.free_at(time, planned)
            if any(min(row, default=0) < 0 for row in rows):
                return None
        return planned

    def compress(self) -> None:
        """Each job moves to its earliest place given all others, for one round or until nothing moves."""
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
                    job.reserved, moved = found, not self.rules.one_round
