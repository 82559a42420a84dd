"""What the reference simulations of loops share: their input, what they note, and events in rank order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import simpy

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
    service_order: str = "fifo"
    first_chunk: float = 0.1

    @property
    def n(self) -> int:
        return len(self.prefix) - 1

    @property
    def p(self) -> int:
        return len(self.speed)

    def seconds(self, pe: int, first: int, size: int) -> Fraction:
        cost = Fraction(self.prefix[first + size]) - Fraction(self.prefix[first])
        return cost / Fraction(self.speed[pe])

    def thinking(self, pe: int) -> Fraction:
        return Fraction(self.calculation) / Fraction(self.speed[pe]) + Fraction(self.delay)


@dataclass
class Log:
    """What happened: (pe, step, first, size, requested, start, end) a chunk, and intervals by PE."""

    p: int
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    work: list[list[tuple[Fraction, Fraction]]] = field(init=False)
    waits: list[list[tuple[Fraction, Fraction]]] = field(init=False)
    told: list[Fraction] = field(init=False)

    def __post_init__(self) -> None:
        self.work = [[] for _ in range(self.p)]
        self.waits = [[] for _ in range(self.p)]
        self.told = [Fraction(-1)] * self.p

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
