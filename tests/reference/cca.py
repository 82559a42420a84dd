"""CCA with SimPy: a process a worker, one for the master, and its mailbox."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import simpy

from tests.reference.loops import LAST, Case, Log, Ranked
from tests.reference.techniques import Adaptive, recursive_size


class _Request(NamedTuple):
    rank: int
    arrived: Fraction
    reply: simpy.Event


class _Loop:
    def __init__(self, case: Case) -> None:
        self.case, self.log = case, Log(case.p)
        self.env = simpy.Environment(Fraction(0))
        self.mailbox: list[_Request] = []
        self.bell = self.env.event()
        self.step = self.begin = self.previous = 0
        self.adaptive = Adaptive(case.n, case.p, case.first_chunk)
        self.last: dict[int, tuple[int, int]] = {}

    def request(self, rank: int) -> simpy.Event:
        reply = self.env.event()
        self.mailbox.append(_Request(rank, self.env.now, reply))
        if not self.bell.triggered:
            self.bell.succeed()
        return reply

    def worker(self, rank: int) -> Iterator[Any]:
        latency = Fraction(self.case.latency[rank])
        while True:
            requested = self.env.now
            yield Ranked(self.env, latency, rank)
            chunk = yield self.request(rank)
            yield self.env.timeout(latency)
            start = self.env.now
            self.log.waits[rank].append((requested, start))
            if chunk is None:
                self.log.told[rank] = start
                return
            step, first, size = chunk
            yield self.env.timeout(self.case.seconds(rank, first, size))
            self.log.work[rank].append((start, self.env.now))
            self.log.rows.append((rank, step, first, size, requested, start, self.env.now))

    def master(self) -> Iterator[Any]:
        env, log = self.env, self.log
        requested, answer = env.now, self.request(0)
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
                step, first, size = answer.value
                start = env.now
                log.waits[0].append((requested, start))
                yield from self.execute(first, size)
                log.rows.append((0, step, first, size, requested, start, env.now))
                requested, answer = env.now, self.request(0)

    def execute(self, first: int, size: int) -> Iterator[Any]:
        """Execute a chunk of the master's own, with breaks, but for the one at its end."""
        position, end = first, first + size
        while True:
            count = min(self.case.break_after, end - position)
            begin = self.env.now
            yield self.env.timeout(self.case.seconds(0, position, count))
            self.log.work[0].append((begin, self.env.now))
            position += count
            if position == end:
                return
            yield from self.serve_all()

    def serve_all(self) -> Iterator[Any]:
        yield Ranked(self.env, Fraction(0), LAST)
        while self.mailbox:
            fifo = self.case.service_order == "fifo"
            request = min(self.mailbox, key=lambda r: (r.arrived, r.rank) if fifo else (r.rank,))
            self.mailbox.remove(request)
            chunk = self.next_chunk(request.rank)
            if chunk is not None:
                yield self.env.timeout(self.case.thinking(0) + Fraction(self.case.assignment))
            if request.rank == 0:
                self.answered = self.env.now
            request.reply.succeed(chunk)
            yield Ranked(self.env, Fraction(0), LAST)

    def next_chunk(self, rank: int) -> tuple[int, int, int] | None:
        case, left = self.case, self.case.n - self.begin
        if rank in self.last:
            first, size = self.last[rank]
            self.adaptive.times[rank] += [case.seconds(rank, k, 1) for k in range(first, first + size)]
        if case.technique == "STATIC":
            size = max(recursive_size("STATIC", case.n, case.p, 0, case.n, 0), case.min_chunk)
            chunk = (rank, rank * size, min(size, case.n - rank * size))
            if rank in self.last or chunk[1] >= case.n:
                return None
        elif left == 0:
            return None
        else:
            if case.technique == "AF":
                size = self.adaptive.size(rank, left)
            else:
                size = recursive_size(case.technique, case.n, case.p, self.step, left, self.previous)
            self.previous = size
            chunk = (self.step, self.begin, min(max(size, case.min_chunk), left))
        self.step, self.begin = self.step + 1, self.begin + chunk[2]
        self.last[rank] = chunk[1:]
        return chunk

    def run(self) -> Log:
        self.env.process(self.master())
        for rank in range(1, self.case.p):
            self.env.process(self.worker(rank))
        self.env.run()
        return self.log


def simulate(case: Case) -> Log:
    return _Loop(case).run()
