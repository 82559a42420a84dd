"""The batch level, written to be obviously right: SimPy, sets of numbered units, no cleverness."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
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
    walltime: float | None = None  # when it is killed; its estimate, unless the dispatcher sees a prediction
    reserved: float = math.inf  # conservative: the start it has been promised
    first_promise: float = math.inf  # and the first such promise
    after: list[After] = field(default_factory=list)  # jobs to wait for; for policies it is submitted then
    logged: float | None = None  # the submit time that it would have had
    rejected: bool = False
    leaves: float = math.inf  # when it is withdrawn unless it has started
    withdrawn: bool = False
    shares: tuple[int, ...] = ()  # what it asks in all of what the machine has as a whole

    @property
    def asked(self) -> tuple[int, ...]:
        return (self.units, *self.shares)

    @property
    def keeps(self) -> tuple[int, ...]:
        """What comes back at its end: units that it has not released, and its shares."""
        return (len(self.held), *self.shares)


def plus(some: Iterable[int], more: Iterable[int], sign: int = 1) -> tuple[int, ...]:
    return tuple(a + sign * b for a, b in zip(some, more, strict=True))


def covers(available: Iterable[int], asked: Iterable[int]) -> bool:
    return all(has >= asks for has, asks in zip(available, asked, strict=True))


After = tuple[int, bool, float]  # id, whether it must have completed, think time
Key = Callable[[Job, float], float]
Stay = tuple[float, float, tuple[int, ...]]  # from, until, units and shares


def stay(begin: float, time: float, asked: tuple[int, ...]) -> Stay:
    """However short, it takes some time, else two jobs could have the same units."""
    return begin, max(begin + time, math.nextafter(begin, math.inf)), asked


def fcfs(job: Job, now: float) -> float:
    return job.submit


class ReferenceBatchSystem:
    """Handles one timestamp at a time: ends and releases, then submissions, then one pass.

    With ``per_event``: one submission after the other, then one end after the other, a pass after each; with
    ``ends_first`` as well: the ends before the submissions, and none counts as free before it is over.
    ``easy`` says whose EASY it is; with ``one_round`` conservative reservations move at most once at a time,
    with ``every_end`` after ends as expected too.
    With ``pass_interval`` there are passes at its multiples only, with ``backfill_interval`` backfilling.
    """

    def __init__(
        self,
        units: int,
        backfill: str | bool = "none",
        key: Key = fcfs,
        kill: bool = False,
        *,
        walk_key: Key | None = None,
        threshold: float = math.inf,
        reservations: int = 1,
        per_event: bool = False,
        ends_first: bool = False,
        easy: str = "standard",
        one_round: bool = False,
        every_end: bool = False,
        pass_interval: float = 0.0,
        backfill_interval: float = 0.0,
        feedback: bool = False,
        shared: tuple[int, ...] = (),
    ) -> None:
        self.shared = shared
        self.units, self.feedback = units, feedback
        self.ends: dict[int, tuple[float, bool]] = {}  # when jobs ended, and whether they did their work
        self.held: list[Job] = []
        self.due: list[tuple[float, Job]] = []  # when held jobs become eligible, in order of finding that out
        self.free = set(range(units))
        self.backfill = {False: "none", True: "easy"}.get(backfill, backfill)
        self.key, self.kill = key, kill
        self.walk_key = walk_key or key
        self.threshold, self.reservations, self.per_event = threshold, reservations, per_event
        self.waiting: list[Job] = []
        self.running: list[Job] = []
        self.ends_early = False
        self.ends_first, self.one_round, self.every_end = ends_first, one_round or every_end, every_end
        self.whose = easy
        self.blocked: Job | None = None  # of accasim and batsched: the head that has a reservation
        self.blocked_until = 0.0
        self.interval, self.passes_are_rare = pass_interval or backfill_interval, pass_interval > 0
        self.wakes: set[float] = set()  # multiples of the interval at which there is a pass to come

    def run(self, jobs: list[Job]) -> None:
        for job in jobs:
            job.logged = job.submit
        env = simpy.Environment()
        env.process(self._drive(env, jobs))
        env.run()

    def _drive(self, env: simpy.Environment, jobs: list[Job]):
        to_come = sorted(jobs, key=lambda job: (job.submit, job.id))
        if self.feedback:
            self.held = [job for job in to_come if job.after and self._could_ever(job)]
            to_come = [job for job in to_come if job not in self.held]
        while True:
            times = [at for at, _ in self.due]
            times += [job.end for job in self.running] + [job.submit for job in to_come[:1]]
            times += [job.start + offset for job in self.running for offset in job.releases]
            times += self.wakes
            times += [job.leaves for job in self._waiting_or_held() if env.now <= job.leaves < math.inf]
            if self.one_round:
                times += [job.reserved for job in self.waiting if env.now < job.reserved < math.inf]
            if not times and self.waiting:
                times = [self.blocked_until]
            if not times:
                return
            now = min(times)
            yield env.timeout(now - env.now)
            if self.per_event:
                self._handle_each(now, to_come)
            else:
                self._handle_all(now, to_come)

    # Jobs that wait for jobs

    def _ended(self, job: Job, now: float, completed: bool) -> None:
        self.ends[job.id] = (now, completed)
        for waiting in [other for other in self.held if job.id in [id_ for id_, _, _ in other.after]]:
            self._look_at(waiting, now)

    def _look_at(self, job: Job, now: float) -> None:
        """Find out whether a held job knows when it becomes eligible, or that it never will."""
        gone = [(*self.ends[id_], ok, think) for id_, ok, think in job.after if id_ in self.ends]
        job.rejected = any(ok and not completed for _, completed, ok, _ in gone)
        if job.rejected or len(gone) == len(job.after):
            self.held.remove(job)
            ready = now if job.rejected else max(end + think for end, _, _, think in gone)
            self.due.append((max(now, ready), job))

    def _could_ever(self, job: Job) -> bool:
        return covers((self.units, *self.shared), job.asked)

    def _available(self) -> tuple[int, ...]:
        """Units and shares that nobody has."""
        left = (len(self.free), *self.shared)
        for job in self.running:
            left = plus(left, (0, *job.shares), -1)
        return left

    def _submit(self, job: Job, now: float) -> bool:
        """Let a job come; tells whether it is in the queue."""
        if not self._could_ever(job):
            job.rejected = True
            self._ended(job, now, completed=False)
            return False
        if job.leaves <= now and not self.feedback:
            job.withdrawn = True
            self._ended(job, now, completed=False)
            return False
        gone = [(*self.ends[id_], ok, think) for id_, ok, think in job.after if id_ in self.ends]
        if len(gone) < len(job.after) or any(
            end + think > now or (ok and not completed) for end, completed, ok, think in gone
        ):
            self.held.append(job)
            self._look_at(job, now)
            return False
        self.waiting.append(job)
        return True

    def _next_due(self, now: float) -> Job | None:
        """Give the next job that becomes eligible now, if there is one; turn away those that never will."""
        for place in [place for place in self.due if place[0] == now]:
            if place not in self.due:
                continue
            self.due.remove(place)
            job = place[1]
            if job.rejected:
                self._ended(job, now, completed=False)
                return self._next_due(now)
            if self.feedback:
                job.leaves += now - job.submit
            job.submit = now
            self.waiting.append(job)
            return job
        return None

    # Jobs that are withdrawn

    def _waiting_or_held(self) -> list[Job]:
        held = [] if self.feedback else self.held + [job for _, job in self.due]
        return self.waiting + held

    def _withdraw(self, job: Job, now: float) -> None:
        self.ends_early |= job in self.waiting and job.reserved < math.inf
        self.blocked = None if self.blocked is job else self.blocked
        for jobs in (self.waiting, self.held):
            if job in jobs:
                jobs.remove(job)
        self.due = [place for place in self.due if place[1] is not job]
        job.withdrawn = True
        self._ended(job, now, completed=False)

    def _leaving(self, now: float) -> list[Job]:
        return sorted(
            (job for job in self._waiting_or_held() if job.leaves == now),
            key=lambda job: (job.logged, job.id),
        )

    # One time

    def _handle_all(self, now: float, to_come: list[Job]) -> None:
        for job in [job for job in self.running if job.end == now]:
            self._end(job, now)
            self._ended(job, now, not job.killed)
        for job in self.running:
            for offset in [offset for offset in job.releases if job.start + offset == now]:
                job.releases.remove(offset)
                unit = max(job.held)
                job.held.remove(unit)
                self.free.add(unit)
                self.ends_early = True
        while to_come and to_come[0].submit == now:
            self._submit(to_come.pop(0), now)
        while self._next_due(now) is not None:
            pass
        while leaving := self._leaving(now):
            self._withdraw(leaving[0], now)
            while self._next_due(now) is not None:
                pass
        self._look(now)

    def _look(self, now: float) -> None:
        """Something has happened: make a pass, if this is the time for one."""
        rare = self.interval > 0 and now % self.interval != 0
        if rare:
            self.wakes.add(math.ceil(now / self.interval) * self.interval)
        else:
            self.wakes.discard(now)
        if not (rare and self.passes_are_rare):
            if self.per_event and not self.ends_first:
                self._free_due(now)
            self._pass(now, with_backfilling=not rare)

    def _handle_each(self, now: float, to_come: list[Job]) -> None:
        ending = [job for job in self.running if job.end == now]  # in order of start
        happens = bool(ending or (to_come and to_come[0].submit == now)) or now in [at for at, _ in self.due]
        if not happens and (leaving := self._leaving(now)):
            self._withdraw(leaving[0], now)
            self._look(now)
            return
        is_awake = now in self.wakes or not happens
        if self.ends_first:
            if ending:
                self._end(ending[0], now)
                self._ended(ending[0], now, not ending[0].killed)
                self._look(now)
            elif to_come and to_come[0].submit == now:
                if self._submit(to_come.pop(0), now):
                    self._look(now)
            else:
                self._next_due(now)
                self._look(now)
            return
        while to_come and to_come[0].submit == now:
            if self._submit(to_come.pop(0), now):
                self._look(now)
        self._let_due_come(now)
        # What starts in these passes and ends at once comes after, in a round of its own.
        for job in ending:
            self._end(job, now)
            self._ended(job, now, not job.killed)
            self._look(now)
            self._let_due_come(now)
        if is_awake:
            self._look(now)

    def _let_due_come(self, now: float) -> None:
        while self._next_due(now) is not None:
            self._look(now)

    def _free_due(self, now: float) -> None:
        for job in [job for job in self.running if job.end == now and job.start + job.estimate <= now]:
            self._end(job, now)

    def _end(self, job: Job, now: float) -> None:
        if job not in self.running:
            return  # it has been taken for free already
        self.running.remove(job)
        self.free |= job.held
        job.held = set()
        # One that takes no time had been reserved the shortest time that there is.
        self.ends_early |= self.every_end or job.start + job.estimate != now or job.start == now

    # The pass

    def _in_order(self, jobs: Iterable[Job], key: Key, now: float) -> list[Job]:
        def place(job: Job) -> tuple[bool, float, float, int]:
            starved = now - job.submit > self.threshold
            return not starved, job.submit if starved else key(job, now), job.logged, job.id

        return sorted(jobs, key=place)

    def _pass(self, now: float, with_backfilling: bool = True) -> None:
        self.waiting = self._in_order(self.waiting, self.key, now)
        if self.backfill == "conservative":
            self._conservative(now)
            return
        if self.backfill == "easy" and self.whose in ("accasim", "batsched"):
            self._fixed_reservation(now, with_backfilling)
            return
        self._start_in_order(now)
        if not self.waiting or self.backfill == "none" or not with_backfilling:
            return
        if self.backfill == "easy" and (self.reservations > 1 or self.whose == "cqsim"):
            self._several(now)
            return
        head, *rest = self.waiting
        if self.backfill == "easy":
            head.first_promise = min(head.first_promise, self._reservation(head, now)[0])
        for job in self._in_order(rest, self.walk_key, now):
            if not covers(self._available(), job.asked):
                continue
            if self.backfill == "easy":
                time, extra = self._reservation(head, now)
                if now + job.estimate > time and not covers(extra, job.asked):
                    continue
            job.backfilled = True
            self._start(job, now)

    def _start_in_order(self, now: float) -> None:
        while self.waiting and covers(self._available(), self.waiting[0].asked):
            self._start(self.waiting[0], now)

    def _fixed_reservation(self, now: float, with_backfilling: bool) -> None:
        """A reservation is made once, for the first job that does not fit, and never looked at again.

        AccaSim's blocked job sleeps until then, and everybody may overtake it. batsched's starts as soon as
        it fits, and is overtaken by jobs that end by then.
        """
        if self.whose == "batsched" or self.blocked is None or self.blocked_until <= now:
            self._start_in_order(now)
        if not self.waiting:
            self.blocked = None
            return
        if self.blocked is not self.waiting[0]:
            self.blocked = self.waiting[0]
            self.blocked_until = self._promise(self.blocked, now)
        for job in self.waiting[1:] if with_backfilling else []:
            in_time = self.whose == "accasim" or now + job.estimate <= self.blocked_until
            if covers(self._available(), job.asked) and in_time:
                job.backfilled = True
                self._start(job, now)

    def _promise(self, head: Job, now: float) -> float:
        available = self._available()
        overdue_too = self.whose == "accasim"  # it expects them in the past
        for end, held in sorted(
            (job.start + job.estimate if overdue_too else self._expected(job, now), job.keeps)
            for job in self.running
        ):
            available = plus(available, held)
            if covers(available, head.asked):
                return end
        raise AssertionError("the head never fits")

    def _expected(self, job: Job, now: float) -> float:
        end = job.start + job.estimate
        if end > now:
            return end
        # Whose end is still to be handled at this time, or who starts now, has not outlived the estimate.
        return now if now in (job.end, job.start) else now + 1.0

    def _reservation(self, head: Job, now: float) -> tuple[float, tuple[int, ...]]:
        """When the head can start if running jobs end as expected, and what it leaves over then."""
        # A job backfilled in this pass counts like any other running job: it either ends by the
        # reservation, or holds some of what the head leaves over.
        for time in sorted({self._expected(job, now) for job in self.running}):
            gone = [job for job in self.running if self._expected(job, now) <= time]
            available = self._available()
            for job in gone:
                available = plus(available, job.keeps)
            if covers(available, head.asked):
                return time, plus(available, head.asked, -1)
        raise AssertionError("the head never fits")

    def _start(self, job: Job, now: float) -> None:
        self.waiting.remove(job)
        chosen = sorted(self.free)[: job.units]
        assert len(chosen) == job.units
        self.free -= set(chosen)
        job.held, job.first_units = set(chosen), frozenset(chosen)
        job.start = now
        job.killed = self.kill and job.run > self._walltime(job)
        job.end = now + self._real_time(job)
        job.releases = [offset for offset in job.releases if now + offset < job.end]
        self.running.append(job)

    def _walltime(self, job: Job) -> float:
        return job.estimate if job.walltime is None else job.walltime

    def _real_time(self, job: Job) -> float:
        return min(job.run, self._walltime(job)) if self.kill else job.run

    # Several reservations: who stays where and until when, and the earliest place beside all that

    def _stays(self, now: float) -> list[Stay]:
        return [(now, self._expected(job, now), job.keeps) for job in self.running]

    def _is_free(self, begin: float, end: float, asked: tuple[int, ...], stays: list[Stay]) -> bool:
        total = (len(self.free) + sum(len(job.held) for job in self.running), *self.shared)
        moments = [begin] + [start for start, _, _ in stays if begin < start < end]
        for moment in moments:
            left = total
            for start, stop, held in stays:
                if start <= moment < stop:
                    left = plus(left, held, -1)
            if not covers(left, asked):
                return False
        return True

    def _earliest(self, job: Job, now: float, stays: list[Stay], time: float | None = None) -> float:
        time = job.estimate if time is None else time
        for begin in sorted({now} | {stop for _, stop, _ in stays}):
            if self._is_free(begin, begin + time, job.asked, stays):
                return begin
        raise AssertionError("the job never fits")

    def _several(self, now: float) -> None:
        stays = self._stays(now)
        asked = {
            job.id: self._real_time(job) if self.whose == "cqsim" else job.estimate for job in self.waiting
        }

        def start_or_not(job: Job) -> bool:
            fits = covers(self._available(), job.asked)
            if not fits or not self._is_free(now, now + asked[job.id], job.asked, stays):
                return False
            stays.append(stay(now, asked[job.id], job.asked))
            job.backfilled = True
            self._start(job, now)
            return True

        left, reserved = list(self.waiting), 0
        while left and reserved < self.reservations:
            job = left.pop(0)
            if not start_or_not(job):
                begin = self._earliest(job, now, stays, asked[job.id])
                job.first_promise = min(job.first_promise, begin)
                stays.append(stay(begin, asked[job.id], job.asked))
                reserved += 1
        for job in self._in_order(left, self.walk_key, now):
            start_or_not(job)

    def _conservative(self, now: float) -> None:
        def others(job: Job) -> list[Stay]:
            return self._stays(now) + [
                stay(other.reserved, other.estimate, other.asked)
                for other in self.waiting
                if other is not job and other.reserved < math.inf
            ]

        promised = [job for job in self.waiting if job.reserved < math.inf]
        hold = all(
            now <= job.reserved
            and self._is_free(job.reserved, job.reserved + job.estimate, job.asked, others(job))
            for job in promised
        )
        if not hold:
            for job in promised:
                job.reserved = math.inf
        moved = hold and self.ends_early
        while moved:
            moved = False
            for job in [job for job in self.waiting if job.reserved < math.inf]:
                earlier = self._earliest(job, now, others(job))
                assert earlier <= job.reserved
                moved = moved or earlier < job.reserved
                job.reserved = earlier
            moved = moved and not self.one_round
        self.ends_early = False
        for job in self.waiting:
            if job.reserved == math.inf:
                job.reserved = self._earliest(job, now, others(job))
                job.first_promise = min(job.first_promise, job.reserved)
        overtakes = False
        for job in list(self.waiting):
            if job.reserved <= now and covers(self._available(), job.asked):
                job.backfilled = overtakes
                self._start(job, now)
            else:
                overtakes = True
