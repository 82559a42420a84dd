"""CCA with SimPy: a process a worker, one for the master, and its mailbox."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

import simpy

from tests.reference.loops import LAST, STATIC, Case, Choosing, Log, Pace, Ranked


class _Request(NamedTuple):
    rank: int
    arrived: Fraction
    done: tuple[Any, ...] | None  # what the PE has executed and not yet told of
    reply: simpy.Event


class _Loop:
    def __init__(self, case: Case) -> None:
        case = replace(case, threads=(0,)) if case.answers_by("thread") else case
        self.case, self.log = case, Log(case.p)
        self.env = simpy.Environment(Fraction(0))
        self.mailbox: list[_Request] = []
        self.bell = self.env.event()
        self.step = self.begin = 0
        self.base = 1 if case.dedicated and case.p > 1 else 0  # the first PE that executes
        self.rule = case.rule(self.base)
        self.answered = Fraction(0)
        self.last: dict[int, tuple[int, int]] = {}
        self.done: dict[int, tuple[Any, ...]] = {}
        self.reported: set[simpy.Event] = set()
        self.choosing, self.pace = Choosing(case), Pace(case)

    def request(self, rank: int, done: tuple[Any, ...] | None) -> simpy.Event:
        reply = self.env.event()
        self.mailbox.append(_Request(rank, self.env.now, done, reply))
        if not self.bell.triggered:
            self.bell.succeed()
        return reply

    def worker(self, rank: int) -> Iterator[Any]:
        answer = self.env.process(self.ask(rank, None)) if self.pushes(rank) else None
        yield from self.case.starts(self.env, self.log, rank)
        while True:
            requested = self.env.now
            chunk = yield answer or self.env.process(self.ask(rank, self.done.pop(rank, None)))
            start, answer = self.env.now, None
            self.log.waits[rank].append((requested, start))
            if chunk is None:
                self.log.told[rank] = start
                return
            for step, first, size in (chunk, *self.choosing.further(chunk, self.case.p - self.base)):
                if (step, first, size) != chunk:
                    requested = start = self.env.now
                yield self.env.timeout(self.case.elapsed(rank, first, size, start))
                self.log.work[rank].append((start, self.env.now))
                self.log.rows.append((rank, step, first, size, requested, start, self.env.now))
                self.finish(rank, first, size, requested, start)

    def finish(self, rank: int, first: int, size: int, waited_from: Fraction, start: Fraction) -> None:
        now = self.env.now
        self.done[rank] = self.case.times(rank, first, size, now - start), now - waited_from, now - start

    def ask(self, rank: int, done: tuple[Any, ...] | None) -> Iterator[Any]:
        """Get the answer to one request."""
        latency = Fraction(self.case.latency[rank])
        making = self.case.making(rank) if rank else Fraction(0)
        yield Ranked(self.env, Fraction(0) if self.pushes(rank) else making + latency, rank)
        chunk = yield self.request(rank, done)
        yield self.env.timeout(latency)
        return chunk

    def pushes(self, rank: int) -> bool:
        """Whether the master sends a PE its chunk without a request."""
        return self.case.parameters.lb4mpi and rank not in self.last

    def worker_that_asks_ahead(self, rank: int) -> Iterator[Any]:
        env, log, case = self.env, self.log, self.case
        answer = env.process(self.ask(rank, None)) if self.pushes(rank) else None
        yield from case.starts(env, log, rank)
        requested, answer = env.now, answer or env.process(self.ask(rank, None))
        while True:
            waits_from = env.now
            chunk = yield answer
            start = env.now
            log.waits[rank].append((waits_from, start))
            if chunk is None:
                log.told[rank] = start
                return
            step, first, size = chunk
            if size > case.ahead:
                yield env.timeout(case.elapsed(rank, first, size - case.ahead, start, case.part(size)))
            asked, answer = env.now, env.process(self.ask(rank, self.done.pop(rank, None)))
            yield env.timeout(case.elapsed(rank, first, size, start) - (asked - start))
            log.work[rank].append((start, env.now))
            log.rows.append((rank, step, first, size, requested, start, env.now))
            self.finish(rank, first, size, waits_from, start)
            requested = asked

    def dedicated_master(self) -> Iterator[Any]:
        """Serve whenever a request comes; the time of serving is its overhead, the rest it is idle."""
        log = self.log
        yield self.env.timeout(self.case.ready(0))
        while True:
            yield from self.serve_all()
            if self.base:
                log.told[0] = self.answered
            self.bell = self.env.event()
            yield self.bell

    def master(self) -> Iterator[Any]:
        env, log = self.env, self.log
        answer = self.request(0, None) if self.pushes(0) else None
        yield from self.case.starts(env, log, 0)
        requested, answer = env.now, answer or self.request(0, None)
        while True:
            yield from self.serve_all()
            if not answer.triggered:
                self.bell = env.event()
                yield self.bell
            elif answer.value is None:
                if log.told[0] < 0:
                    log.told[0] = self.answered
                    log.waits[0].append((requested, self.answered))
                self.bell = env.event()
                yield self.bell
            else:
                inside = self.case.answers_by("inside")
                for step, first, size in (answer.value, *self.choosing.further(answer.value, self.case.p)):
                    if (step, first, size) != answer.value:
                        requested = env.now
                        yield from self.serve_all()
                    start = env.now
                    log.waits[0].append((requested, start))
                    yield from (self.execute_inside if inside else self.execute)(first, size)
                    log.rows.append((0, step, first, size, requested, start, env.now))
                    parts = self.parts if self.case.as_real and not inside else None
                    times = self.case.times(0, first, size, self.executed, parts)
                    done = times, env.now - requested, env.now - start
                requested, answer = env.now, self.request(0, done)

    def execute(self, first: int, size: int) -> Iterator[Any]:
        """Execute a chunk of the master's own, with breaks, but for the one at its end."""
        position, end = first, first + size
        self.executed, self.parts = Fraction(0), list[tuple[int, Fraction]]()
        case = self.case
        timed = case.part(size) if case.as_real else size
        while True:
            count = min(self.pace.length, timed, end - position)
            begin = self.env.now
            yield self.env.timeout(case.elapsed(0, position, count, begin, count))
            self.pace.note(count, self.env.now - begin)
            self.parts.append((count, self.env.now - begin))
            self.log.work[0].append((begin, self.env.now))
            self.executed += self.env.now - begin
            position += count
            if position == end:
                return
            broke_off = self.env.now
            yield self.env.timeout(Fraction(self.case.break_time))
            yield from self.serve_all()
            self.log.waits[0].append((broke_off, self.env.now))

    def execute_inside(self, first: int, size: int) -> Iterator[Any]:
        """Execute a chunk of the master's own, which requests interrupt."""
        env, case, log = self.env, self.case, self.log
        self.executed, left, done = Fraction(0), case.elapsed_alone(0, first, size), None
        while True:
            begin, self.bell = env.now, env.event()
            done = env.timeout(case.stretched(0, left, begin))
            yield done | self.bell
            log.work[0].append((begin, env.now))
            self.executed += env.now - begin
            if done.processed:
                return
            left -= case.worked(0, begin, env.now)
            broke_off = env.now
            yield env.timeout(Fraction(case.break_time))
            yield from self.serve_all()
            log.waits[0].append((broke_off, env.now))

    def serve_all(self) -> Iterator[Any]:
        yield Ranked(self.env, Fraction(0), LAST)
        while self.mailbox:
            fifo = self.case.service_order == "fifo"
            request = min(self.mailbox, key=lambda r: (r.arrived, r.rank) if fifo else (r.rank,))
            if self.report(request):
                begin = self.env.now
                yield self.env.timeout(self.choose())
                if self.base:
                    self.log.waits[0].append((begin, self.env.now))
                yield Ranked(self.env, Fraction(0), LAST)
                continue  # who is served first is decided anew
            self.mailbox.remove(request)
            chunk = self.next_chunk(request.rank)
            if chunk is not None:
                begin = self.env.now
                yield self.env.timeout(self.case.thinking(0) + Fraction(self.case.assignment))
                if self.base:
                    self.log.waits[0].append((begin, self.env.now))
            if request.rank == 0 or self.base:
                self.answered = self.env.now
            request.reply.succeed(chunk)
            yield Ranked(self.env, Fraction(0), LAST)

    def report(self, request: _Request) -> bool:
        """Learn from what a request tells, once; return whether a choice is due."""
        if request.done is None or request.reply in self.reported:
            return False
        self.reported.add(request.reply)
        self.rule.learn(request.rank - self.base, *request.done)
        return self.choosing.counts(len(request.done[0]), self.case.n - self.begin)

    def choose(self) -> Fraction:
        name, spent = self.choosing.choose(self.env.now, self.begin, self.step)
        if name:
            self.step = 0
            self.rule = self.case.rule(self.base, name, self.case.n - self.begin)
        return spent

    def next_chunk(self, rank: int) -> tuple[int, int, int] | None:
        case, left, choosing = self.case, self.case.n - self.begin, self.choosing
        who, least = rank - self.base, self.rule.at_least(case.min_chunk)
        if choosing.technique in STATIC:
            size = max(self.rule.recursive(0, case.n - choosing.begun, who), least)
            first = choosing.begun + who * size
            chunk = (choosing.earlier + who, first, min(size, case.n - first))
            if rank in choosing.taken or chunk[1] >= case.n:
                return None
            choosing.taken.add(rank)
        elif left == 0:
            return None
        else:
            size = self.rule.recursive(self.step, left, who, self.env.now)
            chunk = (choosing.earlier + self.step, self.begin, min(max(size, least), left))
        self.step, self.begin = self.step + 1, self.begin + chunk[2]
        self.last[rank] = chunk[1:]
        return chunk

    def run(self) -> Log:
        threaded = bool(self.case.threads)
        self.env.process(self.dedicated_master() if self.base or threaded else self.master())
        if threaded:
            self.env.process(self.worker(0))
        for rank in range(1, self.case.p):
            asks_ahead = self.case.ahead > 0 and self.case.technique != "CYCLIC"
            self.env.process(self.worker_that_asks_ahead(rank) if asks_ahead else self.worker(rank))
        self.env.run()
        if self.base:
            self.log.idle_otherwise(0)
        return self.log


def simulate(case: Case) -> Log:
    return _Loop(case).run()
