"""Work stealing with SimPy: a process a PE, a part of the loop for each, from which others steal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from math import ceil
from typing import Any

import simpy

from tests.reference.levels import InnerRule
from tests.reference.loops import Case, Log, Ranked
from tests.reference.techniques import Rule


class _Part:
    """What a PE has still to execute, the rule by which it takes chunks of it, and when it is free."""

    def __init__(self, first: int, end: int, rule: Rule) -> None:
        self.first, self.end, self.rule, self.step = first, end, rule, 0
        self.free = Fraction(0)

    @property
    def left(self) -> int:
        return self.end - self.first

    def refill(self, first: int, end: int, rule: Rule) -> None:
        self.first, self.end, self.rule, self.step = first, end, rule, 0


class _Loop:
    def __init__(self, case: Case) -> None:
        self.case, self.log = case, Log(case.p)
        self.env = simpy.Environment(Fraction(0))
        self.node_of_pe = case.node_of_pe or (0,) * case.p
        self.pes = [
            [pe for pe in range(case.p) if self.node_of_pe[pe] == v] for v in range(max(self.node_of_pe) + 1)
        ]
        self.weights = Rule(case.technique, case.n, case.p, case.speed, case.parameters).weights
        self.got = [0] * case.p
        size = max(ceil(Fraction(case.n, case.p)), case.min_chunk)
        bounds = [min(pe * size, case.n) for pe in range(case.p + 1)]
        bounds[-1] = case.n
        self.parts = [
            _Part(begin, end, self.rule(pe, end - begin)) for pe, (begin, end) in enumerate(pairwise(bounds))
        ]

    def rule(self, pe: int, n: int) -> Rule:
        members = self.pes[self.node_of_pe[pe]]
        told = replace(self.case.parameters, weights=[self.weights[member] for member in members])
        self.got[pe] += 1
        return InnerRule(self.case.technique, n, len(members), told, pe, self.got[pe], self.case.min_chunk)

    def access(self, part: _Part, pe: int, seconds: Fraction) -> Ranked:
        """Wait for a part: those that came before are served before, each in its time."""
        begin = max(self.env.now, part.free)
        part.free = begin + seconds
        return Ranked(self.env, begin - self.env.now, pe)

    def pe(self, pe: int) -> Iterator[Any]:
        case, env, log, part = self.case, self.env, self.log, self.parts[pe]
        yield from case.starts(env, log, pe)
        asked = env.now
        yield Ranked(env, Fraction(0), pe)
        while True:
            chunk = None
            if part.left > 0:
                seconds = Fraction(case.atomic) + case.thinking(pe) + Fraction(case.assignment)
                yield self.access(part, pe, seconds)
                chunk = self.take(pe)
                yield Ranked(env, seconds, pe)
            if chunk is None:
                stolen = yield from self.steal(pe)
                if stolen is None:
                    log.waits[pe].append((asked, env.now))
                    log.told[pe] = env.now
                    return
                part.refill(*stolen, self.rule(pe, stolen[1] - stolen[0]))
                continue
            step, first, size = chunk
            start = env.now
            log.waits[pe].append((asked, start))
            yield Ranked(env, case.elapsed(pe, first, size, start), pe)
            log.work[pe].append((start, env.now))
            log.rows.append((pe, step, first, size, asked, start, env.now))
            asked = env.now

    def take(self, pe: int) -> tuple[int, int, int] | None:
        part = self.parts[pe]
        if part.left == 0:
            return None
        index = self.pes[self.node_of_pe[pe]].index(pe)
        size = min(max(part.rule.recursive(part.step, part.left, index), self.case.min_chunk), part.left)
        chunk = part.step, part.first, size
        part.first, part.step = part.first + size, part.step + 1
        return chunk

    def steal(self, pe: int) -> Iterator[Any]:
        """Ask one node after the other, once each; give what was stolen, or None."""
        case, home, nodes = self.case, self.node_of_pe[pe], len(self.pes)
        for hop in range(nodes):
            node = (home + hop) % nodes
            others = [other for other in self.pes[node] if other != pe]
            if not others:
                continue
            far = max(case.latency[pe], case.latency[self.pes[node][0]])
            distance = Fraction(case.intra if hop == 0 else far)
            yield Ranked(self.env, distance, pe)
            victim = self.parts[max(others, key=lambda other: (self.parts[other].left, -other))]
            if victim.left == 0:
                yield Ranked(self.env, Fraction(case.atomic) + distance, pe)
                continue
            seconds = Fraction(case.atomic) + Fraction(case.assignment)
            yield self.access(victim, pe, seconds)
            size = min(max(ceil(Fraction(victim.left, 2)), case.min_chunk), victim.left)
            victim.end -= size
            stolen = victim.end, victim.end + size
            yield Ranked(self.env, seconds + distance, pe)
            if size > 0:
                return stolen
        return None

    def run(self) -> Log:
        for pe in range(self.case.p):
            self.env.process(self.pe(pe))
        self.env.run()
        return self.log


def simulate(case: Case) -> Log:
    return _Loop(case).run()
