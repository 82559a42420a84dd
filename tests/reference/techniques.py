"""Chunk sizes by the printed formulas, in exact arithmetic; slow and independent of the kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from math import ceil, floor
from typing import Any

from tests.reference.library import OF_ANY_SIZE, OF_BATCHES, Library, trapezoid
from tests.reference.timing import Part, Times, mean_and_variance, parts

DIGITS = 60
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494")


@dataclass(frozen=True)
class Parameters:
    """What techniques are told; times in s. ``user`` is a technique of the user, in Python."""

    sigma: float = 1.0
    mu: float = 2.0
    overhead: float = 0.5
    alpha: float = 1.3
    batches: int | None = None
    geometric: bool = False
    awf_of_batch: bool = False
    lb4mpi: bool = False
    random: tuple[float, float] = (0.0, 1.0)  # bounds, as shares of N/P
    swr: float = 0.5
    first_chunk: float = 0.1
    pieces: int = 0
    seed: int = 0
    weights: tuple[float, ...] | None = None  # None: by speed for WF, else equal
    user: Callable[[int, int, int, int, int], int] | None = None
    user_reads_remaining: bool = True


@cache
def own_oracle(name: str) -> Any:
    """Return the class ``Oracle`` of the test of a technique that has one of its own."""
    module = f"tests.application.test_{name.lower().replace('-', '_')}"
    return getattr(import_module(module), "Oracle", None) if find_spec(module) else None


class Rule:
    """One technique in one loop, with what it remembers; sizes are those before clamping.

    ``learn`` takes what a PE measured: the times of the iterations of its last chunk, and the times from
    asking for that chunk, and from its begin, to its end.
    """

    def __init__(
        self,
        name: str,
        n: int,
        p: int,
        speed: Sequence[float] | None = None,
        parameters: Parameters | None = None,
        min_chunk: int = 1,
    ) -> None:
        self.name, self.n, self.p = name, n, p
        self.parameters = parameters or Parameters()
        self.weights = _weights(name, p, speed, self.parameters.weights)
        self.previous = 0
        self.adaptive = Adaptive(n, p, self.parameters.first_chunk, self.parameters.pieces)
        self.learned = Learned(self.weights)
        made = own_oracle(name)
        self.own = None if made is None else made(p, self.parameters)
        self.min_chunk = min_chunk
        self.library: Library | None = None
        if self.parameters.lb4mpi and (name in OF_BATCHES or name in ("AF", "AWF-C", "AWF-E")):
            self.library = Library(name, n, p, self.weights, min_chunk, self.parameters.pieces)

    def at_least(self, min_chunk: int) -> int:
        """Return the least chunk that counts."""
        return 1 if self.parameters.lb4mpi and self.name in OF_ANY_SIZE else min_chunk

    @property
    def needs_remaining(self) -> bool:
        if self.name == "USER":
            return self.parameters.user_reads_remaining
        return bool(self.library or self.own or self.name in ("AF", "mAF") or self.name.startswith("AWF-"))

    def learn(
        self, pe: int, times: Sequence[Fraction], spent: Fraction, elapsed: Fraction | None = None
    ) -> None:
        if self.library is not None:
            assert elapsed is not None
            self.library.learn(pe, times, elapsed)
            return
        waited = (spent - sum(times, Fraction(0))) / len(times) if self.name == "mAF" else Fraction(0)
        self.adaptive.learn(
            pe, times.and_more(waited) if isinstance(times, Times) else [time + waited for time in times]
        )
        self.learned.add(
            pe, len(times), spent if self.name in ("AWF-D", "AWF-E") else sum(times, Fraction(0))
        )

    def recursive(self, i: int, left: int, pe: int, now: Fraction | None = None) -> int:
        """Size from what is left, at a time; steps must come in order."""
        name, p = self.name, self.p
        if self.own is not None:
            assert now is not None
            return int(self.own.assign(pe, left, now, self.min_chunk))
        if self.library is not None:
            return self.library.size(left, pe)
        if name in ("AF", "mAF"):
            return self.adaptive.size(pe, left)
        if name == "USER":
            return self._user(i, left, pe)
        if name == "GSS":
            return ceil(Fraction(left, p))
        if name == "TAP":
            return self._taper(Fraction(left, p))
        if name == "PLS":
            return self._static_part() if i < p else ceil(Fraction(left, p))
        if name in ("FAC", "FAC2", "WF") or name.startswith("AWF"):
            if name in ("AWF-C", "AWF-E") and not self.parameters.awf_of_batch:
                return self._weighted(ceil(Fraction(left, 2 * p)), pe)
            if i % p == 0:
                self.previous = (
                    self._factoring(i // p, left) if name == "FAC" else ceil(Fraction(left, 2 * p))
                )
                if name in ("AWF-B", "AWF-D"):
                    self.weights = self.learned.weights()
            return self.previous if name in ("FAC", "FAC2") else self._weighted(self.previous, pe)
        return self.straightforward(i, pe)

    def straightforward(self, i: int, pe: int) -> int:
        """Size from the step alone."""
        n, p, b, parameters = self.n, self.p, i // self.p, self.parameters
        match self.name:
            case "STATIC":
                return ceil(Fraction(n, p))
            case "SS" | "CYCLIC":
                return 1
            case "FSC":
                return self._fixed()
            case "mFSC":
                return self._modified_fixed()
            case "GSS":
                return ceil(guided(n, p, i))
            case "TAP":
                return self._taper(guided(n, p, i))
            case "TSS":
                first, slope = self._trapezoid()
                return first - i * slope
            case "TFSS":
                first, slope = self._trapezoid()
                return floor(Fraction(sum(first - j * slope for j in range(b * p, b * p + p)), p))
            case "FAC":
                return self._factoring_by_batch(b)
            case "FAC2":
                return ceil(Fraction(n, p * 2 ** (b + 1)))
            case "WF" | "AWF":
                return self._weighted(ceil(Fraction(n, p * 2 ** (b + 1))), pe)
            case "FISS":
                batches = self._batches()
                share = 1 - Fraction(batches, 2 + batches)
                increase = ceil(2 * n * share / (p * batches * (batches - 1)))
                return floor(Fraction(n, (2 + batches) * p)) + b * increase
            case "VISS":
                first = max(floor(Fraction(n, (2 + self._batches()) * p)), 1)
                if parameters.geometric:
                    return floor(first * Fraction(3, 2) ** b)
                return floor(first * (1 - Fraction(1, 2 ** (b + 1))) / Fraction(1, 2))
            case "RND":
                return self._random(i)
            case "PLS":
                static = self._static_part()
                return static if i < p else ceil(guided(max(n - p * static, 0), p, i - p))
            case "USER":
                return self._user(i, -1, pe)
        raise ValueError(self.name)

    def _user(self, i: int, left: int, pe: int) -> int:
        assert self.parameters.user is not None
        return self.parameters.user(self.n, self.p, left, i, pe)

    def _static_part(self) -> int:
        return ceil(self.n * Fraction(str(self.parameters.swr)) / self.p)

    def _fixed(self) -> int:
        if self.p == 1 or self.n == 0:
            return self.n
        with localcontext(prec=DIGITS):
            sigma, overhead = Decimal(self.parameters.sigma), Decimal(self.parameters.overhead)
            p = Decimal(self.p)
            base = Decimal(2).sqrt() * self.n * overhead / (sigma * p * p.ln().sqrt())
            return _round_up((base.ln() * 2 / 3).exp())

    def _modified_fixed(self) -> int:
        t = ceil(Fraction(self.n, self.p))
        if t <= 1:
            return 1
        with localcontext(prec=DIGITS):
            return floor(Decimal("0.55") + t * Decimal(2).ln() / Decimal(t).ln())

    def _trapezoid(self) -> tuple[int, int]:
        if self.parameters.lb4mpi:
            return trapezoid(self.n, self.p)
        first = ceil(Fraction(self.n, 2 * self.p))
        steps = ceil(Fraction(2 * self.n, first + 1))
        return first, floor(Fraction(first - 1, steps - 1)) if steps > 1 else 0

    def _taper(self, k: Fraction) -> int:
        parameters = self.parameters
        v = Fraction(parameters.alpha) * Fraction(parameters.sigma) / Fraction(parameters.mu)
        with localcontext(prec=DIGITS):
            exact = _decimal(k + v**2 / 2) - _decimal(v) * _decimal(2 * k + v**2 / 4).sqrt()
            return ceil(exact - _decimal(k) * Decimal("1e-12"))

    def _factoring(self, batch: int, left: int) -> int:
        parameters = self.parameters
        with localcontext(prec=DIGITS):
            variation = _decimal(Fraction(parameters.sigma) / Fraction(parameters.mu))
            b = self.p * variation / (2 * Decimal(left).sqrt())
            x = 1 + b * b + b * (b * b + 2).sqrt() if batch == 0 else 2 + b * b + b * (b * b + 4).sqrt()
            return max(_round_up(left / (x * self.p)), 1)

    def _factoring_by_batch(self, batch: int) -> int:
        left = self.n
        for j in range(batch):
            if left <= 0:
                break
            left -= self.p * self._factoring(j, left)
        return self._factoring(batch, left) if left > 0 else 1

    def _batches(self) -> int:
        if self.parameters.batches is not None:
            return self.parameters.batches
        batches, left = 0, self.n
        while left > 0:
            left -= self.p * ceil(Fraction(self.n, self.p * 2 ** (batches + 1)))
            batches += 1
        return max(batches, 2)

    def _weighted(self, size: int, pe: int) -> int:
        weight = self.weights[pe]
        if self.name in ("AWF-C", "AWF-E"):
            weight = self.learned.weights()[pe]
        value = size * weight
        if weight == 1 or value >= 10**9:  # float64 holds no part of an iteration there
            return floor(value)
        return ceil(value * (1 - Fraction(1, 10**9)))

    def _random(self, i: int) -> int:
        seed = self.parameters.seed
        key = mixed(mixed((seed & 0xFFFFFFFF) + 1) ^ (seed >> 32))
        bits = mixed((key + (i + 1) * 0x9E3779B97F4A7C15) % 2**64) >> 1
        low, high = (max(ceil(self.n * Fraction(str(share)) / self.p), 1) for share in self.parameters.random)
        return bits % (high - low + 1) + low


def _weights(
    name: str, p: int, speed: Sequence[float] | None, given: Sequence[float] | None
) -> list[Fraction]:
    if given is None:
        given = speed if name == "WF" and speed is not None else [1.0] * p
    exact = [Fraction(weight) for weight in given]
    return [weight * p / sum(exact) for weight in exact]


def guided(n: int, p: int, i: int) -> Fraction:
    return Fraction(n * (p - 1) ** i, p ** (i + 1))


def mixed(z: int) -> int:
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


def _round_up(value: Decimal) -> int:
    return ceil(value * (1 - Decimal("1e-12")))


class Learned:
    """AWF within a loop or over time steps: Σ k·n_k / Σ k·t_k a PE, and the weights that come of it."""

    def __init__(self, first: Sequence[Fraction]) -> None:
        self.first = list(first)
        self.count = [0] * len(first)
        self.seconds = [Fraction(0)] * len(first)
        self.iterations = [Fraction(0)] * len(first)

    def add(self, pe: int, size: int, seconds: Fraction, k: int | None = None) -> None:
        """Add the ``k``-th measurement of a PE; None: the next one."""
        self.count[pe] = self.count[pe] + 1 if k is None else k
        self.seconds[pe] += self.count[pe] * seconds
        self.iterations[pe] += self.count[pe] * size

    def weights(self) -> list[Fraction]:
        known = [pe for pe, seconds in enumerate(self.seconds) if seconds and self.iterations[pe]]
        rate = {pe: self.iterations[pe] / self.seconds[pe] for pe in known}
        share = sum((self.first[pe] for pe in known), Fraction(0))
        return [
            share * rate[pe] / sum(rate.values()) if pe in rate else first
            for pe, first in enumerate(self.first)
        ]


class Adaptive:
    """AF: every time taken of every PE in a list, and the printed formula with 60 digits."""

    def __init__(self, n: int, p: int, first_chunk: float, pieces: int) -> None:
        self.n, self.p, self.pieces = n, p, pieces
        self.first = ceil(Fraction(str(first_chunk)) * n / p)
        self.times: list[list[Part]] = [[] for _ in range(p)]

    def learn(self, pe: int, times: Sequence[Fraction]) -> None:
        self.times[pe] += parts(times, self.pieces)

    def _statistics(self, pe: int) -> tuple[Fraction, Fraction] | None:
        if not any(time for _, time in self.times[pe]):
            return None
        return mean_and_variance(self.times[pe])

    def size(self, pe: int, remaining: int) -> int:
        known = {q: s for q in range(self.p) if (s := self._statistics(q)) is not None}
        size = self.first
        if pe in known:
            d = sum((variance / mean for mean, variance in known.values()), Fraction(0))
            e = 1 / sum(1 / mean for mean, _ in known.values())
            with localcontext(prec=DIGITS):
                root = _decimal(d**2 + 4 * d * e * remaining).sqrt()
                exact = (_decimal(d + 2 * e * remaining) - root) / _decimal(2 * known[pe][0])
                size = floor(exact * (1 + Decimal("1e-9")))
        if len(known) < self.p:
            size = min(size, ceil(Fraction(self.n, 2 * self.p)))
        return size


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)
