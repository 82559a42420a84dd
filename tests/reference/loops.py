"""What the reference simulations of loops share: their input, what they note, and events in rank order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import accumulate
from math import ceil
from typing import Any

import numpy as np
import simpy

from tests.reference.techniques import Parameters, Rule
from tests.reference.timing import Times

LAST = 10**9  # priority of an event that lets everything else of its time happen first


@dataclass(frozen=True)
class Case:
    """One loop; all numbers as floats, of which the reference takes the exact values."""

    technique: str
    prefix: tuple[float, ...]
    speed: tuple[float, ...]
    latency: tuple[float, ...]
    min_chunk: int = 1
    calculation: float = 0.0
    assignment: float = 0.0
    atomic: float = 0.0
    delay: float = 0.0
    break_after: int = 1
    break_time: float = 0.0
    break_every: float = 0.0
    piece_time: float = 0.0
    service_order: str = "fifo"
    ahead: int = 0
    dedicated: bool = False
    answers: str = "between-iterations"
    thread_share: float = 0.0
    request: float = 0.0
    start_up: float = 0.0
    start_up_std: float = 0.0
    threads: tuple[int, ...] = ()  # masters that answer by a thread, filled in by their models
    polling: bool = False
    retry: float = 1.0
    nowait: bool = False
    global_pes: bool = False
    node_of_pe: tuple[int, ...] = ()
    intra: float = 0.0
    away: tuple[tuple[tuple[float, float], ...], ...] = ()  # of each node: (from when, until when)
    slow: tuple[tuple[tuple[float, float], ...], ...] = ()  # of each PE: (from when, factor)
    parameters: Parameters = field(default_factory=Parameters)
    every: int = 0  # iterations executed between two choices amid the loop
    choices: tuple[tuple[str, float], ...] = ()  # techniques in order, and what choosing each takes

    def rule(self, base: int = 0, technique: str = "", n: int = -1) -> Rule:
        """Give the rule for the PEs from ``base`` on, for all iterations or what is left of them."""
        weights = self.parameters.weights
        told = replace(self.parameters, weights=weights and weights[base:])
        name, left = technique or self.technique, self.n if n < 0 else n
        return Rule(name, left, self.p - base, self.speed[base:], told, self.min_chunk)

    @property
    def n(self) -> int:
        return len(self.prefix) - 1

    @property
    def p(self) -> int:
        return len(self.speed)

    def part(self, size: int) -> int:
        """Iterations of all but the last part of a chunk: AF times each, or so many parts of it."""
        timed = {"AF", "mAF"} & set(self.technique.split("+"))
        pieces = self.parameters.pieces if timed else 1
        return ceil(Fraction(size, pieces)) if pieces else 1

    def sizes(self, size: int) -> list[int]:
        """Iterations of each part of a chunk."""
        length = self.part(size)
        return [min(length, size - begin) for begin in range(0, size, length)]

    @property
    def as_real(self) -> bool:
        """Whether masters execute their chunks in parts, as in real runs."""
        return self.piece_time > 0 or self.break_every > 0

    def seconds(self, pe: int, first: int, size: int) -> Fraction:
        cost = Fraction(self.prefix[first + size]) - Fraction(self.prefix[first])
        return cost / self.pace(pe)

    def pace(self, pe: int) -> Fraction:
        """Speed at which a PE executes, but for slow-downs."""
        return Fraction(self.speed[pe]) * (1 - Fraction(self.thread_share) * (pe in self.threads))

    def answers_by(self, way: str) -> bool:
        """Whether masters that execute chunks answer so."""
        alone = self.p == 1 and way == "thread"  # a thread answers workers
        return self.answers == way and not self.dedicated and not alone

    def making(self, pe: int) -> Fraction:
        """Time in which a PE that is no master makes a request."""
        return Fraction(self.request) / Fraction(self.speed[pe])

    def ready(self, pe: int) -> Fraction:
        """When a PE has started."""
        mean, std = self.start_up, self.start_up_std
        if std:
            key = np.random.SeedSequence(self.parameters.seed, spawn_key=(0x57A7,))
            mean = np.random.default_rng(key).gamma((mean / std) ** 2, std**2 / mean, self.p)[pe]
        return Fraction(mean) / Fraction(self.speed[pe])

    def starts(self, env: simpy.Environment, log: Log, pe: int, like: int = -1) -> Iterator[Any]:
        """Process step: a PE starts, idle until then; ``like``: with another one."""
        ready = self.ready(pe if like < 0 else like)
        if env.now < ready:
            log.idles[pe].append((env.now, ready))
            yield env.timeout(ready - env.now)

    def elapsed(self, pe: int, first: int, size: int, start: Fraction, part: int = 0) -> Fraction:
        """Time that iterations take from ``start`` on, slow-downs included; ``part``: executed at a time."""
        calls = ceil(Fraction(size, part or self.part(size)))
        each = Fraction(self.piece_time) / self.pace(pe)
        return self.stretched(pe, self.seconds(pe, first, size) + calls * each, start)

    def elapsed_alone(self, pe: int, first: int, size: int) -> Fraction:
        """Work of a chunk, in seconds without slow-downs."""
        calls = ceil(Fraction(size, self.part(size)))
        return self.seconds(pe, first, size) + calls * Fraction(self.piece_time) / self.pace(pe)

    def worked(self, pe: int, begin: Fraction, end: Fraction) -> Fraction:
        """Work between two times, in seconds without slow-downs."""
        now, factor, work = begin, Fraction(1), Fraction(0)
        for time, following in self.slow[pe] if self.slow else ():
            reached = min(max(Fraction(time), now), end)
            work, now, factor = work + (reached - now) * factor, reached, Fraction(following)
            if reached < Fraction(time):
                return work
        return work + (end - now) * factor

    def stretched(self, pe: int, left: Fraction, start: Fraction) -> Fraction:
        """Time that some seconds of work take from ``start`` on, slow-downs included."""
        now, factor = start, Fraction(1)
        for time, following in self.slow[pe] if self.slow else ():
            room = Fraction(time) - now
            if room > 0:
                if left <= room * factor:
                    break
                left, now = left - room * factor, Fraction(time)
            factor = Fraction(following)
        return now + left / factor - start

    def times(
        self,
        pe: int,
        first: int,
        size: int,
        elapsed: Fraction,
        executed: list[tuple[int, Fraction]] | None = None,
    ) -> Times:
        """Times of the iterations of a chunk as they are measured.

        What a part takes besides is counted as its first iteration's. ``executed``: iterations and times of
        the parts, as a master took them. Of other chunks, and where each iteration is timed, slow-downs count
        for all alike.
        """
        sizes = [part for part, _ in executed] if executed else None
        if sizes is None and self.piece_time:
            sizes = self.sizes(size)
        begins = [0, *accumulate(sizes[:-1])] if sizes else [0]
        each = Fraction(self.piece_time) / self.pace(pe)
        times = [self.seconds(pe, first + k, 1) + (each if k in begins and sizes else 0) for k in range(size)]
        if executed and self.parameters.pieces:
            for begin, (part, took) in zip(begins, executed, strict=True):
                _stretch(times, begin, begin + part, took)
        else:
            _stretch(times, 0, size, elapsed)
        return Times(times, sizes)

    def thinking(self, pe: int) -> Fraction:
        return Fraction(self.calculation) / Fraction(self.speed[pe]) + Fraction(self.delay)


def _stretch(times: list[Fraction], begin: int, end: int, elapsed: Fraction) -> None:
    """Make some times add up to what has elapsed."""
    total = sum(times[begin:end], Fraction(0))
    if total:
        times[begin:end] = [time * elapsed / total for time in times[begin:end]]


class Pace:
    """How many iterations a master executes before it looks for requests, if nothing else ends a part."""

    def __init__(self, case: Case) -> None:
        self.every, self.length = Fraction(case.break_every), case.break_after
        if self.every:
            self.length = 1

    def note(self, part: int, seconds: Fraction) -> None:
        """Note how long a part took: the next one is to take as long as is asked for."""
        if self.every:
            twice = 2 * self.length
            quick = seconds * twice <= self.every * part
            self.length = twice if quick else max(int(part * self.every / seconds), 1)


STATIC = ("STATIC", "CYCLIC")


class Choosing:
    """The choices amid a loop: when one is due, and what the technique of now began with."""

    def __init__(self, case: Case) -> None:
        self.case, self.technique = case, case.technique
        self.executed, self.at, self.made = 0, case.every, 0
        self.begun = self.earlier = 0
        self.taken: set[int] = set()
        self.log: list[tuple[Fraction, str]] = []

    def further(self, chunk: tuple[int, int, int], p: int) -> list[tuple[int, int, int]]:
        """Return a PE's chunks after its first one, which it need not ask for; only CYCLIC has some."""
        step, first, _ = chunk
        if self.technique != "CYCLIC" or first < self.begun:
            return []
        case, each = self.case, max(1, self.case.min_chunk)
        return [
            (step + p * i, begin, min(each, case.n - begin))
            for i, begin in enumerate(range(first + p * each, case.n, p * each), 1)
        ]

    def counts(self, size: int, left: int) -> bool:
        """Count executed iterations; return whether a choice is due."""
        if self.case.every == 0 or self.technique in STATIC:
            return False
        self.executed += size
        return self.executed >= self.at and left > 0

    def choose(self, now: Fraction, position: int, steps: int) -> tuple[str, Fraction]:
        """Return the next technique, empty where it stays, and what choosing takes."""
        self.at = self.executed + self.case.every
        name, spent = self.case.choices[self.made % len(self.case.choices)]
        self.made += 1
        self.log.append((now, name))
        if name == self.technique:
            return "", Fraction(spent)
        self.technique, self.begun = name, position
        self.earlier += steps
        self.taken = set()
        return name, Fraction(spent)


@dataclass
class Log:
    """What happened: (pe, step, first, size, requested, start, end) a chunk, and intervals by PE."""

    p: int
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    work: list[list[tuple[Fraction, Fraction]]] = field(init=False)
    waits: list[list[tuple[Fraction, Fraction]]] = field(init=False)
    idles: list[list[tuple[Fraction, Fraction]]] = field(init=False)
    told: list[Fraction] = field(init=False)

    def __post_init__(self) -> None:
        self.idles = [[] for _ in range(self.p)]
        self.work = [[] for _ in range(self.p)]
        self.waits = [[] for _ in range(self.p)]
        self.told = [Fraction(-1)] * self.p

    def idle_otherwise(self, pe: int) -> None:
        """Note that a PE was idle, until it was told, whenever it neither executed nor waited."""
        now = Fraction(0)
        for begin, end in sorted(self.work[pe] + self.waits[pe]):
            self.idles[pe].append((now, begin))
            now = end
        self.idles[pe].append((now, self.told[pe]))

    def chunks(self) -> list[tuple[Any, ...]]:
        return sorted(self.rows, key=lambda row: (row[5], row[0]))

    def finish(self, until: float = float("inf")) -> list[Fraction]:
        ends = [
            [min(row[6], _fraction(until, row[6])) for row in self.rows if row[0] == pe and row[5] < until]
            for pe in range(self.p)
        ]
        return [max(times, default=Fraction(0)) for times in ends]

    def busy(self, until: float = float("inf")) -> list[Fraction]:
        return [_covered(intervals, until) for intervals in self.work]

    def overhead(self, until: float = float("inf")) -> list[Fraction]:
        return [_covered(intervals, until) for intervals in self.waits]

    def idle(self, until: float = float("inf")) -> list[Fraction]:
        return [_covered(intervals, until) for intervals in self.idles]


def _fraction(until: float, otherwise: Fraction) -> Fraction:
    return otherwise if until == float("inf") else Fraction(until)


def _covered(intervals: Sequence[tuple[Fraction, Fraction]], until: float) -> Fraction:
    """Length of what lies before ``until``."""
    return sum(
        (min(end, _fraction(until, end)) - begin for begin, end in intervals if begin < until), Fraction(0)
    )


class Ranked(simpy.Event):
    """Happens after a delay; of all such events of one time, in order of rank."""

    def __init__(self, env: simpy.Environment, delay: Fraction, rank: int) -> None:
        super().__init__(env)
        self._ok, self._value = True, None
        env.schedule(self, priority=10 + rank, delay=delay)
