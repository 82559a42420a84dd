"""Locks with SimPy: in order of arrival, or polled."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import simpy

from tests.reference.loops import LAST, Case, Ranked
from tests.reference.techniques import mixed


class Queued:
    """Granted in order of arrival."""

    def __init__(self, env: simpy.Environment) -> None:
        self.resource = simpy.Resource(env, capacity=1)
        self.turn: Any = None

    def acquire(self, rank: int) -> Iterator[Any]:
        turn = self.resource.request()
        yield turn
        self.turn = turn

    def release(self) -> None:
        self.resource.release(self.turn)


class Polled:
    """Granted to who comes when it is free; of those that wait, a drawn one comes first."""

    def __init__(self, env: simpy.Environment, interval: float, seed: int, number: int) -> None:
        self.env, self.interval = env, interval
        self.key = _key(seed & 0xFFFFFFFF, (seed >> 32) + ((number + 1) << 32))
        self.taken, self.draws = False, 0
        self.waiting: list[tuple[int, simpy.Event]] = []
        self.next_one = -1

    def acquire(self, rank: int) -> Iterator[Any]:
        while True:
            if rank == self.next_one:
                self.next_one = -1
            if not self.taken:
                self.taken = True
                return
            attempt = self.env.event()
            self.waiting.append((rank, attempt))
            delay = yield attempt
            yield Ranked(self.env, delay, rank)

    def release(self) -> None:
        self.taken = False
        self.env.process(self.draw())

    def draw(self) -> Iterator[Any]:
        yield Ranked(self.env, Fraction(0), LAST)
        if self.taken or not self.waiting or self.next_one >= 0:
            return
        count = len(self.waiting)
        who = _number(self.key, 2 * self.draws, count) - 1
        u = (_number(self.key, 2 * self.draws + 1, 1 << 53) - 1) / (1 << 53)
        self.draws += 1
        self.next_one, attempt = self.waiting[who]
        self.waiting[who] = self.waiting[-1]
        self.waiting.pop()
        share = 1.0 - (1.0 - u) ** (1.0 / count)
        attempt.succeed(Fraction(self.interval * (int(share * 65536) / 65536)))


def new_lock(env: simpy.Environment, case: Case, number: int) -> Queued | Polled:
    """Number 0 is the loop's window, number v + 1 the lock of node v."""
    return Polled(env, case.retry, case.parameters.seed, number) if case.polling else Queued(env)


def _key(low: int, high: int) -> int:
    return mixed(mixed(low + 1) ^ high)


def _number(key: int, i: int, most: int) -> int:
    return (mixed((key + (i + 1) * 0x9E3779B97F4A7C15) % 2**64) >> 1) % most + 1
