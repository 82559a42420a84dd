"""MPI+OpenMP with SimPy: a process a node, and one for each of its threads."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import simpy

from tests.reference.levels import Levels, LoopQueue
from tests.reference.locks import Queued
from tests.reference.loops import STATIC, Case, Log, Ranked


class _Loop:
    def __init__(
        self, case: Case, env: simpy.Environment | None = None, levels: Levels | None = None
    ) -> None:
        self.case, self.log = case, Log(case.p)
        self.env = simpy.Environment(Fraction(0)) if env is None else env
        self.levels = Levels(case) if levels is None else levels
        self.queue = LoopQueue(self.env, self.levels)
        self.asked = [self.env.now] * case.p
        self.teams = [Team(self, v, 0, 0) for v in range(len(self.levels.pes))]
        self.shared: list[list[simpy.Event]] = [[] for _ in self.levels.pes]
        self.number = [0] * case.p  # under static without barriers: how many chunks a thread has had
        self.measured: dict[int, Any] = {}

    def execute(self, pe: int, step: int, first: int, size: int, since: Fraction) -> Iterator[Any]:
        start = self.env.now
        self.log.waits[pe].append((since, start))
        yield self.env.timeout(self.case.elapsed(pe, first, size, start))
        end = self.env.now
        self.log.work[pe].append((start, end))
        self.log.rows.append((pe, step, first, size, self.asked[pe], start, end))
        self.asked[pe] = end
        told = self.case.times(pe, first, size, end - start), end - since
        self.measured.setdefault(pe, []).append(told)

    def report(self, pe: int) -> None:
        for told in self.measured.pop(pe, []):
            self.levels.report(pe, *told)

    def begin(self, pes: list[int]) -> Iterator[Any]:
        """Process step at the loop's start: whether threads work in it."""
        first = self.levels.pes[self.case.node_of_pe[pes[0]]][0]
        begun = self.env.now
        for pe in pes:
            if begun < self.case.ready(first):
                self.log.idles[pe].append((begun, self.case.ready(first)))
        if begun < self.case.ready(first):
            yield self.env.timeout(self.case.ready(first) - begun)
        started = self.env.now
        works = yield from self.levels.begins(self.env, self.case.node_of_pe[pes[0]])
        for pe in pes:
            self.asked[pe] = self.env.now
            if not works:
                self.log.told[pe] = started
        return works

    def parts(self, v: int, pe: int, first: int, size: int) -> list[tuple[int, int, int]]:
        """Give a thread's parts of a chunk under schedule(static), one, or (static,k)."""
        pes = self.levels.pes[v]
        each = max(-(-size // len(pes)), self.case.min_chunk)
        number = pes.index(pe)
        if self.levels.inside == "CYCLIC":
            each = max(self.case.min_chunk, 1)
            numbers = [number, *range(number + len(pes), -(-size // each), len(pes))]
        else:
            numbers = [number]
        return [(k, first + min(k * each, size), min(each, size - min(k * each, size))) for k in numbers]

    # With a barrier.

    def process(self, v: int) -> Iterator[Any]:
        env, log, pes = self.env, self.log, self.levels.pes[v]
        if not (yield from self.begin(pes)):
            return
        since, making = env.now, self.case.making(pes[0])
        while True:
            chunk = None
            asks = yield from self.levels.may_ask(env, v)
            if asks:
                chunk = yield from self.queue.obtain(v, pes[0], making)
            if chunk is None:
                for pe in pes:
                    log.told[pe] = env.now
                    log.waits[pe].append((since, env.now))
                if asks or not (yield from self.levels.wait_for_return(env, v)):
                    return
                since = env.now
                for pe in pes:
                    self.asked[pe] = since
                continue
            came: dict[int, Fraction] = {}
            team = Team(self, v, *chunk)
            body = self.static if self.levels.inside in STATIC else self.counted
            yield simpy.AllOf(env, [env.process(body(team, pe, since, came)) for pe in pes])
            for pe in pes:
                log.idles[pe].append((came[pe], env.now))
                self.report(pe)
            since = env.now

    def static(self, team: Team, pe: int, since: Fraction, came: dict[int, Fraction]) -> Iterator[Any]:
        yield self.env.timeout(self.case.thinking(pe))
        for step, first, size in self.parts(team.v, pe, team.first, team.size):
            if size > 0:
                yield from self.execute(pe, step, first, size, since)
                since = self.env.now
            else:
                self.log.waits[pe].append((since, self.env.now))
        came[pe] = self.env.now

    def counted(self, team: Team, pe: int, since: Fraction, came: dict[int, Fraction]) -> Iterator[Any]:
        while True:
            yield Ranked(self.env, Fraction(0), pe)
            yield from team.counter.acquire(pe)
            self.report(pe)
            chunk = yield from team.take(pe)
            team.counter.release()
            if chunk is None:
                self.log.waits[pe].append((since, self.env.now))
                came[pe] = self.env.now
                return
            yield from self.execute(pe, *chunk, since)
            since = self.env.now

    # Without.

    def eager(self, v: int, pe: int) -> Iterator[Any]:
        """A thread under dynamic or guided; the node's first one asks for a chunk at once."""
        env, log, team = self.env, self.log, self.teams[v]
        if not (yield from self.begin([pe])):
            return
        first_time = self.levels.got[v] == 0 and pe == self.levels.pes[v][0]
        while True:
            since = env.now
            if not first_time:
                yield Ranked(env, Fraction(0), pe)
            yield from team.counter.acquire(pe)
            self.report(pe)
            chunk = None if first_time else (yield from team.take(pe))
            first_time = False
            if chunk is None and not team.exhausted and (yield from self.levels.may_ask(env, v)):
                got = yield from self.queue.obtain(v, pe, self.case.making(self.levels.pes[v][0]))
                if got is None:
                    team.exhausted = True
                else:
                    team.refill(*got)
                    chunk = yield from team.take(pe)
            team.counter.release()
            if chunk is None:
                log.told[pe] = env.now
                log.waits[pe].append((since, env.now))
                if team.exhausted or not (yield from self.levels.wait_for_return(env, v)):
                    return
                self.asked[pe] = env.now
                continue
            yield from self.execute(pe, *chunk, since)

    def eager_static(self, v: int, pe: int) -> Iterator[Any]:
        """A thread under static: its part of every chunk of the node, one after the other."""
        env, log, shared = self.env, self.log, self.shared[v]
        if not (yield from self.begin([pe])):
            return
        since = env.now
        while True:
            yield Ranked(env, Fraction(0), pe)
            chunk, asks = None, True
            if self.number[pe] == len(shared):
                asks = yield from self.levels.may_ask(env, v)
            if asks and self.number[pe] == len(shared):
                shared.append(env.event())
                got = yield from self.queue.obtain(v, pe, self.case.making(self.levels.pes[v][0]))
                shared[self.number[pe]].succeed(got)
            if asks:
                chunk = yield shared[self.number[pe]]
                self.number[pe] += 1
            if chunk is None:
                log.told[pe] = env.now
                log.waits[pe].append((since, env.now))
                if asks or not (yield from self.levels.wait_for_return(env, v)):
                    return
                self.asked[pe] = since = env.now
                continue
            yield env.timeout(self.case.thinking(pe))
            for step, first, size in self.parts(v, pe, *chunk):
                if size > 0:
                    yield from self.execute(pe, step, first, size, since)
                    since = env.now

    def thread(self, v: int, pe: int) -> Iterator[Any]:
        return self.eager_static(v, pe) if self.levels.inside in STATIC else self.eager(v, pe)

    def run(self) -> Log:
        for v, pes in enumerate(self.levels.pes):
            for pe in pes:
                if self.case.nowait:
                    self.env.process(self.thread(v, pe))
                elif pe == pes[0]:
                    self.env.process(self.process(v))
        self.env.run()
        return self.log


class Team:
    """The counter that the threads of a node share."""

    def __init__(self, loop: _Loop, v: int, first: int, size: int) -> None:
        self.loop, self.v, self.first, self.size = loop, v, first, size
        self.counter = Queued(loop.env)
        self.step, self.exhausted = 0, False
        self.refill(first, size)

    def refill(self, first: int, size: int) -> None:
        self.begin, self.end, self.step = first, first + size, 0

    def take(self, pe: int) -> Iterator[Any]:
        """Take iterations while holding the counter; None if there are none."""
        case, env = self.loop.case, self.loop.env
        yield env.timeout(Fraction(case.atomic))
        left = self.end - self.begin
        if left == 0:
            return None
        size = case.min_chunk
        if self.loop.levels.inside == "GSS":
            size = max(-(-left // len(self.loop.levels.pes[self.v])), size)
            yield env.timeout(case.thinking(pe))
        yield env.timeout(Fraction(case.assignment))
        chunk = self.step, self.begin, min(size, left)
        self.step, self.begin = self.step + 1, self.begin + chunk[2]
        return chunk


def simulate(case: Case) -> Log:
    return _Loop(case).run()
