"""HDCA with SimPy: a process a PE, a lock for the loop's queue and one for each node's."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import simpy

from tests.reference.levels import Levels, LoopQueue
from tests.reference.locks import new_lock
from tests.reference.loops import Case, Log, Ranked


class _Loop:
    def __init__(
        self, case: Case, env: simpy.Environment | None = None, levels: Levels | None = None
    ) -> None:
        self.case, self.log = case, Log(case.p)
        self.env = simpy.Environment(Fraction(0)) if env is None else env
        self.levels = Levels(case) if levels is None else levels
        self.queue = LoopQueue(self.env, self.levels)
        nodes = range(len(self.levels.pes))
        self.locks = [new_lock(self.env, case, v + 1) for v in nodes]
        self.position, self.end = [0 for _ in nodes], [0 for _ in nodes]
        self.step = [0 for _ in nodes]
        self.exhausted = [False for _ in nodes]

    def pe(self, rank: int) -> Iterator[Any]:
        case, env, log, v = self.case, self.env, self.log, self.case.node_of_pe[rank]
        measured = None
        yield from case.starts(env, log, rank)
        if not (yield from self.levels.begins(env, v)):
            log.told[rank] = env.now
            return
        while True:
            requested = env.now
            yield Ranked(env, case.making(rank) + self.levels.near(rank), rank)
            yield from self.locks[v].acquire(rank)
            if measured is not None:
                self.levels.report(rank, *measured)
                measured = None
            chunk = yield from self.take(rank)
            start = env.now
            log.waits[rank].append((requested, start))
            if chunk is None:
                log.told[rank] = start
                if self.exhausted[v] or not (yield from self.levels.wait_for_return(env, v)):
                    return
                continue
            step, first, size = chunk
            yield env.timeout(case.elapsed(rank, first, size, start))
            log.work[rank].append((start, env.now))
            log.rows.append((rank, step, first, size, requested, start, env.now))
            measured = case.times(rank, first, size, env.now - start), env.now - requested

    def take(self, rank: int) -> Iterator[Any]:
        """Take a chunk for a PE that holds its node's lock; gives the lock back."""
        case, env, v = self.case, self.env, self.case.node_of_pe[rank]
        near, lock = self.levels.near(rank), self.locks[v]
        yield env.timeout(Fraction(case.atomic))
        empty = self.position[v] == self.end[v]
        if empty and (self.exhausted[v] or not (yield from self.levels.may_ask(env, v))):
            lock.release()
            yield env.timeout(near)
            return None
        yield env.timeout(near)
        if empty:
            chunk = yield from self.queue.obtain(v, rank)
            if chunk is None:
                self.exhausted[v] = True
                env.process(self.write_that_nothing_is_left(rank))
                return None
            self.position[v], self.end[v], self.step[v] = chunk[0], sum(chunk), 0
            self.levels.refill(v, chunk[1])
        left = self.end[v] - self.position[v]
        size = self.levels.inner[v].recursive(self.step[v], left, self.levels.pes[v].index(rank), env.now)
        chunk = self.step[v], self.position[v], min(max(size, case.min_chunk), left)
        self.position[v], self.step[v] = self.position[v] + chunk[2], self.step[v] + 1
        yield env.timeout(case.thinking(rank) + near + Fraction(case.atomic) + Fraction(case.assignment))
        lock.release()
        yield env.timeout(near)
        return chunk

    def write_that_nothing_is_left(self, rank: int) -> Iterator[Any]:
        yield self.env.timeout(self.levels.near(rank) + Fraction(self.case.atomic))
        self.locks[self.case.node_of_pe[rank]].release()

    def run(self) -> Log:
        for rank in range(self.case.p):
            self.env.process(self.pe(rank))
        self.env.run()
        return self.log


def simulate(case: Case) -> Log:
    return _Loop(case).run()
