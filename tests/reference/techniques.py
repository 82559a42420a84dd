"""Chunk sizes by the printed formulas, in exact arithmetic; slow and independent of the kernels."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from math import ceil, floor


def recursive_size(name: str, n: int, p: int, i: int, remaining: int, previous: int) -> int:
    """Size from what is left, before clamping; ``previous`` is the last chunk of the loop."""
    match name:
        case "GSS":
            return ceil(Fraction(remaining, p))
        case "FAC2":
            return ceil(Fraction(remaining, 2 * p)) if i % p == 0 else previous
    return straightforward_size(name, n, p, i)


def straightforward_size(name: str, n: int, p: int, i: int) -> int:
    """Size from the step alone, before clamping."""
    match name:
        case "STATIC":
            return ceil(Fraction(n, p))
        case "SS":
            return 1
        case "GSS":
            return ceil(Fraction(n * (p - 1) ** i, p ** (i + 1)))
        case "TSS":
            first = ceil(Fraction(n, 2 * p))
            steps = ceil(Fraction(2 * n, first + 1))
            slope = floor(Fraction(first - 1, steps - 1)) if steps > 1 else 0
            return first - i * slope
        case "FAC2":
            return ceil(Fraction(n, p * 2 ** (i // p + 1)))
    raise ValueError(name)


class Adaptive:
    """AF: every iteration time of every PE in a list, and the printed formula with 60 digits."""

    def __init__(self, n: int, p: int, first_chunk: float) -> None:
        self.n, self.p = n, p
        self.first = ceil(Fraction(str(first_chunk)) * n / p)
        self.times: list[list[Fraction]] = [[] for _ in range(p)]

    def _statistics(self, pe: int) -> tuple[Fraction, Fraction] | None:
        times = self.times[pe]
        if not sum(times):
            return None
        mean = Fraction(sum(times), len(times))
        if len(times) == 1:
            return mean, Fraction(0)
        variance = sum((time - mean) ** 2 for time in times) / (len(times) - 1)
        return mean, variance if variance > mean**2 / 10**12 else Fraction(0)

    def size(self, pe: int, remaining: int) -> int:
        known = {q: s for q in range(self.p) if (s := self._statistics(q)) is not None}
        size = self.first
        if pe in known:
            d = sum((variance / mean for mean, variance in known.values()), Fraction(0))
            e = 1 / sum(1 / mean for mean, _ in known.values())
            with localcontext(prec=60):
                root = _decimal(d**2 + 4 * d * e * remaining).sqrt()
                exact = (_decimal(d + 2 * e * remaining) - root) / _decimal(2 * known[pe][0])
                size = floor(exact * (1 + Decimal("1e-9")))
        if len(known) < self.p:
            size = min(size, ceil(Fraction(self.n, 2 * self.p)))
        return size


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)
