"""DCA with SimPy: a process a PE, a resource for the window at PE 0."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import simpy

from tests.reference.loops import Case, Log, Ranked
from tests.reference.techniques import Adaptive, straightforward_size


class _Loop:
    def __init__(self, case: Case) -> None:
        self.case, self.log = case, Log(case.p)
        self.env = simpy.Environment(Fraction(0))
        self.window = simpy.Resource(self.env, capacity=1)
        self.step = self.begin = 0
        self.adaptive = Adaptive(case.n, case.p, case.first_chunk)

    def pe(self, rank: int) -> Iterator[Any]:
        obtain = self.obtain_locked if self.case.technique == "AF" else self.obtain
        while True:
            requested = self.env.now
            chunk = yield from obtain(rank)
            start = self.env.now
            self.log.waits[rank].append((requested, start))
            if chunk is None:
                self.log.told[rank] = start
                return
            step, first, size = chunk
            yield self.env.timeout(self.case.seconds(rank, first, size))
            self.log.work[rank].append((start, self.env.now))
            self.log.rows.append((rank, step, first, size, requested, start, self.env.now))
            self.last[rank] = (first, size)

    def travel(self, rank: int) -> Ranked:
        return Ranked(self.env, Fraction(self.case.latency[rank]), rank)

    def answer(self, rank: int) -> simpy.Timeout:
        return self.env.timeout(Fraction(self.case.latency[rank]))

    def obtain(self, rank: int) -> Iterator[Any]:
        case, env = self.case, self.env
        yield self.travel(rank)
        with self.window.request() as turn:
            yield turn
            yield env.timeout(Fraction(case.atomic))
            step, self.step = self.step, self.step + 1
        yield self.answer(rank)
        yield env.timeout(case.thinking(rank))
        size = max(straightforward_size(case.technique, case.n, case.p, step), case.min_chunk)
        yield self.travel(rank)
        with self.window.request() as turn:
            yield turn
            yield env.timeout(Fraction(case.atomic) + Fraction(case.assignment))
            if case.technique == "STATIC":
                step, first = rank, case.n if rank in self.last else rank * size
            else:
                first, self.begin = self.begin, self.begin + size
        yield self.answer(rank)
        return (step, first, min(size, case.n - first)) if first < case.n else None

    def obtain_locked(self, rank: int) -> Iterator[Any]:
        case, env = self.case, self.env
        yield self.travel(rank)
        with self.window.request() as lock:
            yield lock
            if rank in self.last:
                first, size = self.last[rank]
                self.adaptive.times[rank] += [case.seconds(rank, k, 1) for k in range(first, first + size)]
            yield env.timeout(Fraction(case.atomic))
            left = case.n - self.begin
            chunk = None
            if left > 0:
                yield self.answer(rank)
                yield env.timeout(case.thinking(rank))
                size = min(max(self.adaptive.size(rank, left), case.min_chunk), left)
                yield self.answer(rank)
                yield env.timeout(Fraction(case.atomic) + Fraction(case.assignment))
                chunk = self.step, self.begin, size
                self.step, self.begin = self.step + 1, self.begin + size
        yield self.answer(rank)
        return chunk

    def run(self) -> Log:
        self.last: dict[int, tuple[int, int]] = {}
        for rank in range(self.case.p):
            self.env.process(self.pe(rank))
        self.env.run()
        return self.log


def simulate(case: Case) -> Log:
    return _Loop(case).run()
