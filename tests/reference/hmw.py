"""Hierarchical master-worker with SimPy: a process a worker, and one for each master with its mailbox."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

import simpy

from tests.reference.levels import Levels
from tests.reference.loops import LAST, Case, Log, Pace, Ranked


class _Request(NamedTuple):
    arrived: Fraction
    rank: int
    node: int  # whose local master asks the global one; -1: a PE asks its local master
    reply: simpy.Event


class _Master:
    """A local master; that of node 0 is the global master as well."""

    def __init__(self, loop: _Loop, v: int) -> None:
        self.loop, self.v = loop, v
        self.case, self.env, self.log, self.levels = loop.case, loop.env, loop.log, loop.levels
        self.rank = self.levels.pes[v][0]
        self.dedicated = self.levels.dedicated[v]
        self.mailbox: list[_Request] = []
        self.bell = self.env.event()
        self.awaited: simpy.Event | None = None  # reply of the global master
        self.exhausted, self.pace = False, Pace(self.case)
        self.step = self.position = self.end = 0
        self.answered = Fraction(0)
        self.requested, self.answer = self.env.now, self.env.event()

    def request(self, rank: int, node: int = -1) -> simpy.Event:
        reply = self.env.event()
        self.mailbox.append(_Request(self.env.now, rank, node, reply))
        self.ring()
        return reply

    def ring(self) -> None:
        if not self.bell.triggered:
            self.bell.succeed()

    def run(self) -> Iterator[Any]:
        env, log, me = self.env, self.log, self.rank
        threaded = me in self.case.threads
        if threaded:
            env.process(self.loop.worker(self, me))
        if self.dedicated or threaded:
            yield env.timeout(self.case.ready(me))
        else:
            yield from self.case.starts(env, log, me)
            env.process(self.begin())
        while True:
            yield from self.serve_all()
            if not self.answer.triggered:
                self.bell = env.event()
                yield self.bell
            else:
                step, first, size = self.answer.value
                start = env.now
                log.waits[me].append((self.requested, start))
                inside = self.case.answers_by("inside")
                yield from (self.execute_inside if inside else self.execute)(first, size)
                log.rows.append((me, step, first, size, self.requested, start, env.now))
                parts = self.parts if self.case.as_real and not inside else None
                times = self.case.times(me, first, size, self.executed, parts)
                self.loop.measured[me] = times, env.now - self.requested
                self.ask()

    def ask(self) -> None:
        self.requested, self.answer = self.env.now, self.request(self.rank)

    def begin(self) -> Iterator[Any]:
        if (yield from self.levels.begins(self.env, self.v)):
            self.ask()
        else:
            self.log.told[self.rank] = self.env.now

    def hear_that_nothing_is_left(self) -> None:
        self.log.told[self.rank] = self.env.now
        self.log.waits[self.rank].append((self.requested, self.env.now))
        if not self.exhausted:
            self.env.process(self.come_back())
        self.loop.is_done(self.rank)

    def come_back(self) -> Iterator[Any]:
        """Ask again when the node is there again."""
        if (yield from self.levels.wait_for_return(self.env, self.v)):
            self.ask()

    def execute(self, first: int, size: int) -> Iterator[Any]:
        position, end = first, first + size
        self.executed, self.parts = Fraction(0), list[tuple[int, Fraction]]()
        case = self.case
        timed = case.part(size) if case.as_real else size
        while True:
            count = min(self.pace.length, timed, end - position)
            begin = self.env.now
            yield self.env.timeout(case.elapsed(self.rank, position, count, begin, count))
            self.pace.note(count, self.env.now - begin)
            self.parts.append((count, self.env.now - begin))
            self.log.work[self.rank].append((begin, self.env.now))
            self.executed += self.env.now - begin
            position += count
            if position == end:
                return
            broke_off = self.env.now
            yield self.env.timeout(Fraction(self.case.break_time))
            yield from self.serve_all()
            self.log.waits[self.rank].append((broke_off, self.env.now))

    def execute_inside(self, first: int, size: int) -> Iterator[Any]:
        env, case, log, me = self.env, self.case, self.log, self.rank
        self.executed, left = Fraction(0), case.elapsed_alone(me, first, size)
        while True:
            begin, self.bell = env.now, env.event()
            done = env.timeout(case.stretched(me, left, begin))
            while True:
                yield done | self.bell
                replied = self.awaited is not None and self.awaited.triggered
                if done.processed or replied or self.next_request() is not None:
                    break
                self.bell = env.event()
            log.work[me].append((begin, env.now))
            self.executed += env.now - begin
            if done.processed:
                return
            left -= case.worked(me, begin, env.now)
            broke_off = env.now
            yield env.timeout(Fraction(case.break_time))
            yield from self.serve_all()
            log.waits[me].append((broke_off, env.now))

    def serve_all(self) -> Iterator[Any]:
        yield Ranked(self.env, Fraction(0), LAST)
        while True:
            if self.awaited is not None and self.awaited.triggered:
                self.install(self.awaited.value)
            request = self.next_request()
            if request is None:
                return
            if request.node >= 0:
                self.mailbox.remove(request)
                yield from self.serve_node(request)
            else:
                yield from self.serve_pe(request)
            yield Ranked(self.env, Fraction(0), LAST)

    def next_request(self) -> _Request | None:
        """Choose; requests of PEs wait while the reply of the global master is awaited."""
        possible = [r for r in self.mailbox if r.node >= 0 or self.awaited is None]
        fifo = self.case.service_order == "fifo"
        return min(possible, key=lambda r: (r.arrived, r.rank) if fifo else (r.rank,), default=None)

    def install(self, chunk: tuple[int, int] | None) -> None:
        self.awaited = None
        if chunk is None:
            self.exhausted = True
            self.levels.finished.add(self.v)
        else:
            self.position, self.end, self.step = chunk[0], sum(chunk), 0
            self.levels.refill(self.v, chunk[1])

    def serve_pe(self, request: _Request) -> Iterator[Any]:
        case, pe = self.case, request.rank
        if pe in self.loop.measured:
            self.levels.report(pe, *self.loop.measured.pop(pe))
        left = self.end - self.position
        if left == 0 and not self.exhausted and (yield from self.levels.may_ask(self.env, self.v)):
            self.awaited = self.loop.masters[0].request(0, 0) if self.v == 0 else self.env.event()
            if self.v > 0:
                self.env.process(self.ask_global(self.awaited))
            return
        self.mailbox.remove(request)
        chunk = None
        if left > 0:
            rule = self.levels.inner[self.v]
            size = rule.recursive(self.step, left, self.levels.works[self.v].index(pe), self.env.now)
            chunk = self.step, self.position, min(max(size, case.min_chunk), left)
            self.step, self.position = self.step + 1, self.position + chunk[2]
            yield from self.think()
        self.answered = self.env.now
        if pe == self.rank and chunk is None and not self.case.threads:
            self.hear_that_nothing_is_left()
        else:
            request.reply.succeed(chunk)

    def ask_global(self, reply: simpy.Event) -> Iterator[Any]:
        latency = Fraction(self.case.latency[self.rank])
        yield Ranked(self.env, latency, self.rank)
        chunk = yield self.loop.masters[0].request(self.rank, self.v)
        yield self.env.timeout(latency)
        reply.succeed(chunk)
        self.ring()

    def think(self) -> Iterator[Any]:
        begin = self.env.now
        yield self.env.timeout(self.case.thinking(self.rank) + Fraction(self.case.assignment))
        if self.dedicated:
            self.log.waits[self.rank].append((begin, self.env.now))

    def serve_node(self, request: _Request) -> Iterator[Any]:
        chunk = self.loop.next_node_chunk(request.node)
        if chunk is not None:
            yield from self.think()
        self.answered = self.env.now
        request.reply.succeed(chunk)


class _Loop:
    def __init__(
        self, case: Case, env: simpy.Environment | None = None, levels: Levels | None = None
    ) -> None:
        self.case, self.log = case, Log(case.p)
        self.env = simpy.Environment(Fraction(0)) if env is None else env
        self.levels = Levels(case, case.dedicated) if levels is None else levels
        if case.answers_by("thread"):
            self.case = case = replace(case, threads=tuple(pes[0] for pes in self.levels.pes))
        self.step = self.begin = 0
        self.measured: dict[int, Any] = {}
        self.masters = [_Master(self, v) for v in range(len(self.levels.pes))]

    def worker(self, master: _Master, rank: int) -> Iterator[Any]:
        env, log, near = self.env, self.log, self.levels.near(rank)
        yield from self.case.starts(env, log, rank)
        making = Fraction(0) if rank == master.rank else self.case.making(rank)
        if not (yield from self.levels.begins(env, master.v)):
            log.told[rank] = env.now
            return
        while True:
            requested = env.now
            yield Ranked(env, near + making, rank)
            chunk = yield master.request(rank)
            yield env.timeout(near)
            start = env.now
            log.waits[rank].append((requested, start))
            if chunk is None:
                log.told[rank] = start
                if master.exhausted or not (yield from self.levels.wait_for_return(env, master.v)):
                    return
                continue
            step, first, size = chunk
            yield env.timeout(self.case.elapsed(rank, first, size, start))
            log.work[rank].append((start, env.now))
            log.rows.append((rank, step, first, size, requested, start, env.now))
            times = self.case.times(rank, first, size, env.now - start)
            self.measured[rank] = times, env.now - requested

    def is_done(self, rank: int) -> None:
        """A master executes no more chunks, and goes on serving."""

    def next_node_chunk(self, v: int) -> tuple[int, int] | None:
        self.levels.publish(v)
        rule, n = self.levels.outer, self.case.n
        again, self.levels.got[v] = self.levels.got[v], self.levels.got[v] + 1
        if rule.name == "STATIC":
            size = max(rule.recursive(0, n, v), self.case.min_chunk)
            return None if again or v * size >= n else (v * size, min(size, n - v * size))
        left = n - self.begin
        if left == 0:
            return None
        size = min(max(rule.recursive(self.step, left, v, self.env.now), self.case.min_chunk), left)
        self.step, self.begin = self.step + 1, self.begin + size
        return self.begin - size, size

    def run(self) -> Log:
        for v, master in enumerate(self.masters):
            self.env.process(master.run())
            for rank in self.levels.pes[v][1:]:
                self.env.process(self.worker(master, rank))
        self.env.run()
        for master in self.masters:
            if master.dedicated:
                self.log.told[master.rank] = master.answered
                self.log.idle_otherwise(master.rank)
        return self.log


def simulate(case: Case) -> Log:
    return _Loop(case).run()
