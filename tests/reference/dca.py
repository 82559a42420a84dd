"""DCA with SimPy: a process a PE, a lock for the window at PE 0."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import simpy

from tests.reference.locks import new_lock
from tests.reference.loops import STATIC, Case, Choosing, Log, Ranked


class _Loop:
    def __init__(self, case: Case) -> None:
        self.case, self.log = case, Log(case.p)
        self.env = simpy.Environment(Fraction(0))
        self.window = new_lock(self.env, case, 0)
        self.step = self.begin = 0
        self.rule = case.rule()
        self.least = self.rule.at_least(case.min_chunk)
        self.choosing = Choosing(case)
        self.spent: dict[int, Fraction] = {}
        self.elapsed: dict[int, Fraction] = {}
        self.times: dict[int, list[Fraction]] = {}

    def pe(self, rank: int) -> Iterator[Any]:
        yield from self.case.starts(self.env, self.log, rank)
        while True:
            requested = self.env.now
            chunk = yield from self.obtain(rank)
            start = self.env.now
            self.log.waits[rank].append((requested, start))
            if chunk is None:
                self.log.told[rank] = start
                return
            for step, first, size in (chunk, *self.choosing.further(chunk, self.case.p)):
                if (step, first, size) != chunk:
                    requested = start = self.env.now
                yield self.env.timeout(self.case.elapsed(rank, first, size, start))
                self.log.work[rank].append((start, self.env.now))
                self.log.rows.append((rank, step, first, size, requested, start, self.env.now))
            self.last[rank], self.spent[rank] = (first, size), self.env.now - requested
            self.elapsed[rank] = self.env.now - start
            self.times[rank] = self.case.times(rank, first, size, self.env.now - start)

    def travel(self, rank: int, making: Fraction = Fraction(0)) -> Ranked:
        return Ranked(self.env, making + Fraction(self.case.latency[rank]), rank)

    def answer(self, rank: int) -> simpy.Timeout:
        return self.env.timeout(Fraction(self.case.latency[rank]))

    def obtain(self, rank: int) -> Iterator[Any]:
        yield self.travel(rank, self.case.making(rank))
        yield from self.window.acquire(rank)
        if rank in self.last:
            self.rule.learn(rank, self.times[rank], self.spent[rank], self.elapsed[rank])
            if self.choosing.counts(self.last[rank][1], self.case.n - self.begin):
                yield from self.choose(rank)
        while True:  # the window is held
            if self.rule.needs_remaining:
                return (yield from self.obtain_locked(rank))
            rule = self.rule
            step, size = yield from self.fetch(rank)
            if rule is self.rule:
                return (yield from self.claim(rank, step, size))

    def choose(self, rank: int) -> Iterator[Any]:
        """Read what is known, choose, and write it, holding the window."""
        case, env = self.case, self.env
        yield env.timeout(Fraction(case.atomic))
        yield self.answer(rank)
        name, spent = self.choosing.choose(env.now, self.begin, self.step)
        yield env.timeout(spent)
        yield self.answer(rank)
        yield env.timeout(Fraction(case.atomic))
        if name:
            self.step = 0
            self.rule = case.rule(0, name, case.n - self.begin)

    def fetch(self, rank: int) -> Iterator[Any]:
        """Fetch the step, calculate, and be at the window again."""
        case, env = self.case, self.env
        yield env.timeout(Fraction(case.atomic))
        step, self.step = self.step, self.step + 1
        rule, earlier = self.rule, self.choosing.earlier
        self.window.release()
        yield self.answer(rank)
        yield env.timeout(case.thinking(rank))
        size = max(rule.straightforward(step, rank), self.least)
        yield self.travel(rank)
        yield from self.window.acquire(rank)
        return earlier + step, size

    def claim(self, rank: int, step: int, size: int) -> Iterator[Any]:
        case, choosing = self.case, self.choosing
        yield self.env.timeout(Fraction(case.atomic) + Fraction(case.assignment))
        if choosing.technique in STATIC:
            step = choosing.earlier + rank
            first = case.n if rank in choosing.taken else choosing.begun + rank * size
        else:
            first, self.begin = self.begin, self.begin + size
        choosing.taken.add(rank)
        self.window.release()
        yield self.answer(rank)
        return (step, first, min(size, case.n - first)) if first < case.n else None

    def obtain_locked(self, rank: int) -> Iterator[Any]:
        case, env = self.case, self.env
        yield env.timeout(Fraction(case.atomic))
        left, chunk, read = case.n - self.begin, None, env.now
        if left > 0:
            yield self.answer(rank)
            yield env.timeout(case.thinking(rank))
            size = min(max(self.rule.recursive(self.step, left, rank, read), self.least), left)
            yield self.answer(rank)
            yield env.timeout(Fraction(case.atomic) + Fraction(case.assignment))
            chunk = self.choosing.earlier + self.step, self.begin, size
            self.step, self.begin = self.step + 1, self.begin + size
        self.window.release()
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
