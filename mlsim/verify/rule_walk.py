"""FCFS, EASY and conservative backfilling as judges of the starts of any schedule.

The judge walks through the times at which jobs arrive, start and end. The state is that of the schedule,
never of a simulation: a fault is blamed once, where it stands, and what follows is judged beside it. Correct
schedulers differ in details (:class:`Reading`); a schedule that one of them explains is right.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from operator import add, le, sub
from typing import Final

import numpy as np

from mlsim._runtime.arrays import Floats, Ints
from mlsim.scenario import Policy
from mlsim.verify.free_amounts import Profile, plan
from mlsim.verify.plain_schedules import (
    SLACK,
    WARNING,
    Findings,
    PlainSchedule,
    policy_keys,
    seconds,
    snapped,
)

ALL: Final = 1 << 60  # Reservations of conservative backfilling
_ROUNDS: Final = {"settled": -1, "once": 1, "kept": 0}


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of scheduling."""

    name: str  # fcfs, easy, conservative or none
    policy: Policy = Policy.FCFS  # The order of the queue
    reservations: int = 1  # Of EASY
    delay: float = 0.0  # Seconds by which a start may come late, as of a scheduler that acts at intervals
    deadline_factor: float = 1.0
    interval: float = 0.0  # Passes are at multiples of this time; 0: whenever something happens
    backfill_interval: float = 0.0  # Passes at other times than its multiples start jobs in order; 0: none
    fills: bool = True  # Whether jobs that could start and do not are worth a warning


@dataclass(frozen=True, slots=True)
class Reading:
    """A choice among the details in which correct schedulers differ."""

    ties: str = "number"
    """Order of jobs with equal keys: by number, by their place in the file, or as they started."""
    events: str = "together"
    """Events of one time: all before the starts, or one by one with submissions or ends first."""
    overdue: str = "soon"
    """Expected end of a job that outlives its estimate: within a second, or never."""
    reservations: str = "anew"
    """Of EASY: made anew at each time, or kept. Of conservative: moved until settled, moved once, kept, or
    made anew."""

    @classmethod
    def of(cls, rule: Rule) -> Reading:
        """Return the usual reading of a rule."""
        return cls(reservations="settled" if rule.name == "conservative" else "anew")

    def others(self, rule: Rule) -> Iterator[Reading]:
        """Yield readings that differ in one thing."""
        words: dict[str, tuple[str, ...]] = {
            "events": ("together", "submissions first", "ends first"),
            "ties": ("number", "file", "start"),
        }
        if rule.name != "fcfs":
            moves = ("settled", "once", "kept", "anew") if rule.name == "conservative" else ("anew", "kept")
            words |= {"reservations": moves, "overdue": ("soon", "never")}
        for one, values in words.items():
            yield from (replace(self, **{one: word}) for word in values if getattr(self, one) != word)

    def __str__(self) -> str:
        return ", ".join(f"{each.name}: {getattr(self, each.name)}" for each in fields(self))


class RuleWalk:
    """One walk through a schedule. Jobs are known by their place in the order of the queue."""

    def __init__(self, schedule: PlainSchedule, rule: Rule, reading: Reading, found: Findings) -> None:
        self.rule, self.reading, self.found = rule, reading, found
        arrival, start, end = snapped(schedule)
        queued = np.flatnonzero(np.isfinite(arrival) & (np.isfinite(end)) & ~(end < start))
        queued = queued[queue_order(schedule, rule, reading.ties, arrival, start, queued)]
        self.number = queued.tolist()  # place in the order of submission
        self.names = [schedule.job[row] for row in queued.tolist()]
        self.arrival, self.start, self.end = arrival[queued], start[queued], end[queued]
        self.arrival = np.fmin(self.arrival, self.start)  # one that starts too early is blamed for that alone
        self.amounts, self.estimate = schedule.amounts[queued], schedule.estimate[queued]
        self.units, self.needs = self.amounts[:, 0], self.amounts.tolist()
        self.shared = list(schedule.shared)
        expected = self.start + self.estimate
        self.expected = np.where(np.abs(expected - self.end) <= SLACK, self.end, expected)
        if rule.interval:  # what happens in between is seen at the next pass
            self.arrival, self.end = (
                np.ceil(times / rule.interval) * rule.interval for times in (self.arrival, self.end)
            )
        self.free, self.now = [schedule.capacity, *schedule.shared.values()], -np.inf
        self.waiting = array("q")  # in the order of the queue
        self.running: list[tuple[float, int]] = []  # expected end, job
        self.reserved = np.full(len(queued), np.inf)
        self.holders: list[int] = []  # waiting jobs with a reservation, if not all have one
        self.late: set[int] = set()  # jobs that have been found not to start when they had to
        self.warned: set[int] = set()  # or when they could
        self.early = False  # whether units are free earlier than was expected
        self.keeps = reading.reservations != "anew"
        self.most = ALL if rule.name == "conservative" else rule.reservations

    def walk(self) -> None:
        """Judge all times, one after the other."""
        n = len(self.names)
        moments = np.concatenate([self.arrival, self.start, self.end])
        order = np.argsort(moments, kind="stable")
        order = order[np.isfinite(moments[order])]
        at = moments[order]
        cuts = [*(np.flatnonzero(np.diff(at)) + 1).tolist(), len(at)]
        jobs, kinds, first = (order % n).tolist() if n else [], (order // n).tolist() if n else [], 0
        ran, wakes = np.isfinite(self.start), self.reading.reservations in ("once", "kept")
        for last in cuts if n else []:
            of_kind: list[list[int]] = [[], [], []]
            for k in range(first, last):
                of_kind[kinds[k]].append(jobs[k])
            now, first = float(at[last - 1]), last
            arrivals, starts, ends = of_kind
            gone = [job for job in ends if not ran[job] or self.start[job] < now]
            # Where reservations do not follow each early end, one may be due when nothing else happens.
            while wakes and self.waiting and self.now < (due := self.reserved[self.waiting].min()) < now:
                self._judge_time(float(due), [], set(), [])
            self._judge_time(now, arrivals, set(starts), gone)

    def _judge_time(self, now: float, arrivals: list[int], starts: set[int], gone: list[int]) -> None:
        """Judge the starts of one time."""
        self.now, self.starts = now, starts
        batches: list[tuple[list[int], list[int]]] = [(gone, arrivals)]
        if self.reading.events != "together" and len(gone) + len(arrivals) > 1:
            ended = [([job], list[int]()) for job in gone]
            arrived = [(list[int](), [job]) for job in sorted(arrivals, key=self.number.__getitem__)]
            batches = arrived + ended if self.reading.events == "submissions first" else ended + arrived
        for ends, submissions in batches:
            for job in ends:
                self._end(job)
            for job in submissions:
                insort(self.waiting, job)
            self._passes()
        if starts:
            self._blame_starts()
        self._blame_waits()

    def _end(self, job: int) -> None:
        if np.isnan(self.start[job]):  # it leaves the queue
            place = bisect_left(self.waiting, job)
            if place < len(self.waiting) and self.waiting[place] == job:
                del self.waiting[place]
            self.early = True
            return
        del self.running[bisect_left(self.running, (self.expected[job], job))]
        self.free = list(map(add, self.free, self.needs[job]))
        self.early |= self.expected[job] != self.now

    def _begin(self, job: int) -> None:
        del self.waiting[bisect_left(self.waiting, job)]
        self.starts.discard(job)
        self.free = list(map(sub, self.free, self.needs[job]))
        insort(self.running, (float(self.expected[job]), job))
        self.early |= self.reserved[job] > self.now + SLACK
        self.reserved[job] = np.inf
        if self.end[job] == self.now:
            self.moments.append(job)

    def _passes(self) -> None:
        """Start what the rule lets start; jobs of no length end at once, and others may follow."""
        while True:
            self.moments: list[int] = []
            self._pass()
            if not self.moments:
                return
            for job in self.moments:
                self._end(job)

    def _pass(self) -> None:
        self.profile: Profile | None = None
        if self.rule.name == "none":
            for job in sorted(self.starts & set(self.waiting)):
                self._begin(job)
            return
        if not (self.keeps and self.rule.name == "conservative"):
            while self.waiting and self.waiting[0] in self.starts and self._has_room(self.waiting[0]):
                self._begin(self.waiting[0])
        if self.waiting and self.keeps:
            self._start_beside_kept_reservations()
        elif self.waiting and self.starts and self.rule.name != "fcfs":
            self._start_beside_new_reservations()

    def _has_room(self, job: int) -> bool:
        return all(map(le, self.needs[job], self.free))

    def _length(self, job: int) -> float:
        return float(self.estimate[job])

    def _running_profile(self) -> Profile:
        """Return the free units if running jobs end as expected."""
        ends = []
        for expected, job in self.running:
            if expected > self.now:
                ends.append(expected)
            elif self.now in (self.end[job], self.start[job]):
                ends.append(self.now)
            else:
                ends.append(self.now + 1.0 if self.reading.overdue == "soon" else np.inf)
        order = sorted(range(len(ends)), key=ends.__getitem__)
        held = self.amounts[[self.running[k][1] for k in order]]
        return Profile(self.now, self.free, [ends[k] for k in order], held, len(self.waiting) + 8)

    def _fits_beside(self, job: int) -> bool:
        """Whether a job can start now beside the reservations of others."""
        profile, need, length = self.profile, self.amounts[job], self._length(job)
        if profile is None or not self._has_room(job):
            return profile is None
        profile.add(float(self.reserved[job]), length, need, -1)
        fits = profile.first(length, need) == self.now
        profile.add(float(self.reserved[job]), length, need)
        return fits

    def _occupy(self, job: int) -> None:
        """Start a job: its stay replaces its reservation."""
        if self.profile is not None:
            self.profile.add(float(self.reserved[job]), self._length(job), self.amounts[job], -1)
            self.profile.add(self.now, self._length(job), self.amounts[job])
        self._begin(job)

    def _start_beside_new_reservations(self) -> None:
        """Start jobs that leave room for the reservations of the first that do not start."""
        self.profile = profile = self._running_profile()
        self.reserved[self.holders] = np.inf
        self.holders = []
        for job in list(self.waiting) if self.starts else self.waiting[: self.most]:
            if job in self.starts and self._fits_beside(job):
                self._occupy(job)
            elif len(self.holders) < self.most:
                self.reserved[job] = place = profile.first(self._length(job), self.amounts[job])
                profile.add(place, self._length(job), self.amounts[job])
                self.holders.append(job)
            elif not self.starts:
                break

    def _start_beside_kept_reservations(self) -> None:
        """Start jobs that leave room for the reservations that others have."""
        if self.most < ALL:
            first = self.waiting[: self.most].tolist()
            self.reserved[[job for job in self.holders if job not in first]] = np.inf
            self.holders = first
        planned = np.array(self.waiting[: self.most], np.int64)
        rounds = _ROUNDS[self.reading.reservations] if self.early else 0
        reserved = self.reserved[planned]
        columns = (self.estimate[planned], self.amounts[planned])
        profile = self._running_profile()
        n = plan(profile.times, profile.free, profile.n, reserved, *columns, rounds)
        if n < 0:  # a job outlived its estimate, or one was blamed
            profile, reserved[:] = self._running_profile(), np.inf
            n = plan(profile.times, profile.free, profile.n, reserved, *columns, 0)
        profile.n, self.reserved[planned], self.early = n, reserved, False
        self.profile = profile
        for job in [job for job in self.waiting if job in self.starts] if self.starts else []:
            if self._fits_beside(job) and not self._is_too_early(job):
                self._occupy(job)

    def _is_too_early(self, job: int) -> bool:
        """Whether reservations of conservative backfilling never move, and that of the job is later."""
        never = self.rule.name == "conservative" and self.reading.reservations == "kept"
        return never and bool(self.reserved[job] > self.now + SLACK)

    # Faults

    def _blame_starts(self) -> None:
        """Blame the starts that the rule does not explain, and go on beside them."""
        self.moments = []
        for job in sorted(self.starts):
            ahead = [other for other in self.waiting if other < job and other not in self.starts]
            if not self._has_room(job):
                pass  # a fault of its own, which judge_plain finds
            elif self.rule.name != "fcfs":
                self._blame_delay(job)
            elif ahead:
                words = "{} starts at {} ahead of job {}, which waits since {} and starts {} (fcfs: in order)"
                parts = (self.names[ahead[0]], self.arrival[ahead[0]], self._starts_at(ahead[0]))
                self.found.add("order", (self.names[job], self.names[ahead[0]]), self.now, words, *parts)
            self._occupy(job)
        for job in self.moments:
            self._end(job)

    def _starts_at(self, job: int) -> str:
        return "never" if np.isnan(self.start[job]) else f"at {seconds(self.start[job])}"

    def _blame_delay(self, job: int) -> None:
        """Blame a job for the first reservation that does not hold beside it."""
        profile, rule = self.profile or self._running_profile(), self.rule
        kind = "promise" if rule.name == "conservative" else "reservation"
        own, need, length = float(self.reserved[job]), self.amounts[job], self._length(job)
        if self._is_too_early(job):
            words = "{} starts at {}, and its reservation is at {} ({})"
            self.found.add("order", [self.names[job]], self.now, words, own, rule.name)
            return
        if not self.found.wants(kind) and not rule.delay:
            self.found.add(kind, [self.names[job]], self.now, "")
            return
        profile.add(own, length, need, -1)
        profile.add(self.now, length, need)
        for other in self.waiting if self.most == ALL else self.holders:
            promised, wide = float(self.reserved[other]), self.amounts[other]
            if other == job or other in self.starts or promised == np.inf:
                continue
            profile.add(promised, self._length(other), wide, -1)
            place = profile.first(self._length(other), wide)
            profile.add(promised, self._length(other), wide)
            if place > promised + max(rule.delay, SLACK):
                words = (
                    "{} starts at {} on {}, expected until {}, and delays job {}, which needs {} and has a "
                    "reservation at {}: it would start at {} ({})"
                )
                parts = (
                    *(self._in_words(self.needs[job]), self.now + length, self.names[other]),
                    *(self._in_words(self.needs[other]), promised, place, rule.name),
                )
                self.found.add(kind, (self.names[job], self.names[other]), self.now, words, *parts)
                break
        profile.add(self.now, length, need, -1)
        profile.add(own, length, need)

    def _blame_waits(self) -> None:
        """Blame jobs that could start now and do not."""
        if not self.waiting or self.free[0] <= 0:
            return
        head, name = self.waiting[0], self.rule.name
        if name in ("fcfs", "easy") and self._has_room(head) and self._waits_on(head):
            self._add_late(head, "late")
        between = self.rule.backfill_interval and self.now % self.rule.backfill_interval
        if name == "fcfs" or between:
            return
        waiting = np.frombuffer(self.waiting, np.int64)
        rest = waiting[self.units[waiting] <= self.free[0]]
        del waiting  # a view, while which lives the queue cannot change
        rest = rest[(self.amounts[rest] <= self.free).all(axis=1)]
        if len(rest) and self.profile is None and name != "none":
            self._start_beside_new_reservations()
        if len(rest) and self.profile is not None:
            fits = self.profile.that_fit(self.estimate[rest], self.amounts[rest])
            rest = rest[fits | np.isfinite(self.reserved[rest])]
        # Where reservations follow each early end, a job that could start has one that is due.
        moves = name == "conservative" and self.reading.reservations in ("settled", "anew")
        for job in rest.tolist():
            if not self._waits_on(job):
                continue
            if name == "conservative" and self.reserved[job] <= self.now + SLACK:
                self._add_late(job, "promise")
            elif self.rule.fills and not moves and job not in self.warned and self._fits_beside(job):
                self._add_late(job, WARNING)

    def _waits_on(self, job: int) -> bool:
        late = np.isnan(self.start[job]) or self.start[job] - self.now > self.rule.delay
        return bool(late) and job not in self.late

    def _in_words(self, needs: list[int]) -> str:
        shared = zip(needs[1:], self.shared, strict=True)
        return " and ".join([f"{needs[0]} units", *(f"{amount} {name}" for amount, name in shared)])

    def _add_late(self, job: int, kind: str) -> None:
        (self.warned if kind == WARNING else self.late).add(job)
        words = {
            "late": "is the first of the queue",
            "promise": f"has a reservation at {seconds(self.reserved[job])}",
            WARNING: "would delay no reservation",
        }[kind]
        needs, free = self._in_words(self.needs[job]), " and ".join(map(str, self.free))
        parts = (needs, free, words, self._starts_at(job), self.rule.name)
        text = "{} could start at {}: it needs {}, {} are free, and it {}; it starts {} ({})"
        self.found.add(kind, [self.names[job]], self.now, text, *parts)


def queue_order(
    schedule: PlainSchedule, rule: Rule, ties: str, arrival: Floats, start: Floats, rows: Ints
) -> Ints:
    """Return the order of the queue over rows of jobs."""
    counted = schedule.units if schedule.processors is None else schedule.processors
    processors = counted[rows].astype(np.float64)
    key = policy_keys(rule.policy, arrival[rows], schedule.estimate[rows], processors, rule.deadline_factor)
    places = {"number": np.arange(len(rows)), "file": schedule.place[rows], "start": start[rows]}
    return np.lexsort((np.arange(len(rows)), places[ties], key))


class _TooManyError(Exception):
    """There are more faults than under another reading."""


class _Bounded(Findings):
    """Findings that end a walk when there are too many."""

    most: float = np.inf

    def add(self, kind: str, jobs: Sequence[str], time: float, words: str, *parts: object) -> None:
        """Add a finding, if there may be more."""
        super().add(kind, jobs, time, words, *parts)
        if self.faults >= self.most:
            raise _TooManyError


def judge_rule(
    schedule: PlainSchedule, rule: Rule, limit: int = 20, reading: Reading | None = None
) -> tuple[Findings, Reading]:
    """Judge a schedule by a rule, in the reading that explains it best: a fault is one in every reading.

    ``reading`` is tried first; default: the usual one.
    """
    best = Findings(limit)
    reading = reading or Reading.of(rule)
    RuleWalk(schedule, rule, reading, best).walk()
    tried, improved = {reading}, best.faults > 0
    while improved and best.faults:
        improved = False
        for other in reading.others(rule):
            if other in tried:
                continue
            tried.add(other)
            found = _Bounded(limit)
            found.most = best.faults
            with suppress(_TooManyError):
                RuleWalk(schedule, rule, other, found).walk()
                best, reading, improved = found, other, True
    return best, reading
