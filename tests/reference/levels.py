"""Two levels: the rules of each, and how a node obtains a chunk as under DCA."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from math import ceil
from typing import Any

import simpy

from tests.reference.locks import new_lock
from tests.reference.loops import Case, Ranked
from tests.reference.techniques import Rule, mixed
from tests.reference.timing import Times


class Levels:
    """Who is where, and which rules hold; ``works`` are the PEs of each node that execute."""

    def __init__(self, case: Case, dedicated: bool = False) -> None:
        self.case = case
        names = case.technique.split("+")
        self.outside, self.inside = names[0], names[-1]
        nodes = range(max(case.node_of_pe) + 1)
        self.pes = [[pe for pe in range(case.p) if case.node_of_pe[pe] == v] for v in nodes]
        self.dedicated = [dedicated and len(pes) > 1 for pes in self.pes]
        self.works = [pes[1:] if alone else pes for pes, alone in zip(self.pes, self.dedicated, strict=True)]
        sums = [sum(self._weights(self.outside)[pe] for pe in pes) for pes in self.works]
        # As if there were as many comers as PEs, of whom the nodes are the first ones and of average weight.
        others = [sum(sums) / len(sums)] * (case.p - len(sums)) if case.global_pes else []
        told = replace(case.parameters, weights=[*sums, *others])
        self.outer = Rule(self.outside, case.n, len(sums) + len(others), None, told, case.min_chunk)
        self.inner = [self._inner(v, 0, 0) for v in nodes]
        self.got = [0] * len(sums)
        self.finished: set[int] = set()  # nodes that know that nothing is left of the loop

    def near(self, pe: int) -> Fraction:
        return Fraction(0 if pe == self.pes[self.case.node_of_pe[pe]][0] else self.case.intra)

    def _weights(self, name: str) -> list[Fraction]:
        return Rule(name, self.case.n, self.case.p, self.case.speed, self.case.parameters).weights

    def _inner(self, v: int, n: int, number: int) -> Rule:
        weights = [self._weights(self.inside)[pe] for pe in self.works[v]]
        told = replace(self.case.parameters, weights=weights)
        return InnerRule(self.inside, n, len(weights), told, v, number, self.case.min_chunk)

    def refill(self, v: int, n: int) -> Rule:
        """Begin the inside technique anew for a chunk, with what it has learned."""
        before, rule = self.inner[v], self._inner(v, n, self.got[v])
        rule.learned, rule.weights = before.learned, before.weights
        rule.adaptive.times, rule.own = before.adaptive.times, before.own
        self.inner[v] = rule
        return rule

    def report(self, pe: int, times: Times, spent: Fraction) -> None:
        """Let the node know of a chunk that a PE executed: its iterations, and asking to end."""
        v = self.case.node_of_pe[pe]
        pes = self.works[v]
        self.inner[v].learn(pes.index(pe), times, spent)
        self.pending[v].append((times.shared_by(len(pes)), spent / len(pes)))

    def begins(self, env: simpy.Environment, v: int) -> Iterator[Any]:
        """Process step at the loop's start: wait until the node is there; whether it ever is."""
        if self.outside == "STATIC":  # what is its own is left for it
            return True
        return (yield from self.wait_for_return(env, v))

    def may_ask(self, env: simpy.Environment, v: int) -> Iterator[Any]:
        """Process step: whether the node asks for another chunk of the loop now; for its first it may."""
        return self.got[v] == 0 or self.back_from(v, env.now) is None
        yield

    def wait_for_return(self, env: simpy.Environment, v: int) -> Iterator[Any]:
        """Process step of a PE that has nothing to do: wait until its node is back; whether it ever is."""
        back = self.back_from(v, env.now)
        if back == float("inf"):
            return False
        if back is not None:
            yield env.timeout(Fraction(back) - env.now)
        return True

    def back_from(self, v: int, now: Fraction) -> float | None:
        """When a node that is away comes back."""
        spans = self.case.away[v] if self.case.away else ()
        return next((end for begin, end in spans if begin <= now < end), None)

    def publish(self, v: int) -> None:
        """Let all know what the node has measured."""
        for times, spent in self.pending[v]:
            self.outer.learn(v, times, spent)
        self.pending[v].clear()

    @property
    def pending(self) -> list[list[tuple[Times, Fraction]]]:
        if not hasattr(self, "_pending"):
            self._pending: list[list[tuple[Times, Fraction]]] = [[] for _ in self.pes]
        return self._pending


class InnerRule(Rule):
    """A rule inside a node, for its ``number``-th chunk; RND has random numbers of its own there."""

    def __init__(self, name: str, n: int, p: int, told: Any, v: int, number: int, least: int) -> None:
        super().__init__(name, n, p, None, told, least)
        self.v, self.number = v, number

    def _random(self, i: int) -> int:
        seed = self.parameters.seed
        key = mixed(mixed((seed & 0xFFFFFFFF) + 1) ^ (seed >> 32))
        key = mixed(mixed((key + 1) % 2**64) ^ ((self.v << 32) + self.number))
        bits = mixed((key + (i + 1) * 0x9E3779B97F4A7C15) % 2**64) >> 1
        return bits % max(ceil(Fraction(self.n, self.p)), 1) + 1


class LoopQueue:
    """The loop's queue at PE 0, from which nodes obtain chunks as PEs do under DCA."""

    def __init__(self, env: simpy.Environment, levels: Levels) -> None:
        self.env, self.levels, self.case = env, levels, levels.case
        self.window = new_lock(env, levels.case, 0)
        self.step = self.begin = 0

    def obtain(self, v: int, pe: int, making: Fraction = Fraction(0)) -> Iterator[Any]:
        """Give (first, size), or None if nothing is left, when the answer has reached the PE.

        ``making``: time of making the request.
        """
        yield Ranked(self.env, making + Fraction(self.case.latency[pe]), pe)
        obtain = self._locked if self.levels.outer.needs_remaining else self._stepwise
        chunk = yield from obtain(v, pe)
        self.levels.got[v] += 1
        if chunk is None:
            self.levels.finished.add(v)
        return chunk

    def _travel(self, pe: int) -> Ranked:
        return Ranked(self.env, Fraction(self.case.latency[pe]), pe)

    def _answer(self, pe: int) -> simpy.Timeout:
        return self.env.timeout(Fraction(self.case.latency[pe]))

    def _stepwise(self, v: int, pe: int) -> Iterator[Any]:
        case, env, rule = self.case, self.env, self.levels.outer
        yield from self.window.acquire(pe)
        yield env.timeout(Fraction(case.atomic))
        step, self.step = self.step, self.step + 1
        self.window.release()
        yield self._answer(pe)
        yield env.timeout(case.thinking(pe))
        size = max(rule.straightforward(step, v), case.min_chunk)
        yield self._travel(pe)
        yield from self.window.acquire(pe)
        yield env.timeout(Fraction(case.atomic) + Fraction(case.assignment))
        if rule.name == "STATIC":
            first = case.n if self.levels.got[v] else v * size
        else:
            first, self.begin = self.begin, self.begin + size
        self.window.release()
        yield self._answer(pe)
        return (first, min(size, case.n - first)) if first < case.n else None

    def _locked(self, v: int, pe: int) -> Iterator[Any]:
        case, env = self.case, self.env
        yield from self.window.acquire(pe)
        self.levels.publish(v)
        yield env.timeout(Fraction(case.atomic))
        left, chunk, read = case.n - self.begin, None, env.now
        if left > 0:
            yield self._answer(pe)
            yield env.timeout(case.thinking(pe))
            size = min(max(self.levels.outer.recursive(self.step, left, v, read), case.min_chunk), left)
            yield self._answer(pe)
            yield env.timeout(Fraction(case.atomic) + Fraction(case.assignment))
            chunk = self.begin, size
            self.step, self.begin = self.step + 1, self.begin + size
        self.window.release()
        yield self._answer(pe)
        return chunk
