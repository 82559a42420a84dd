"""Chunk sizes of the library LB4MPI (DLS4LB), with what it keeps: a batch's chunk, and its rest."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from math import ceil, floor

from tests.reference.timing import Part, mean_and_variance, parts

DIGITS = 60
NOISE = Fraction(1, 10**9)
OF_ANY_SIZE = ["STATIC", "SS", "FSC", "mFSC"]
OF_BATCHES = ["FAC", "FAC2", "WF", "AWF", "AWF-B", "AWF-D"]
HAS = [*OF_ANY_SIZE, "GSS", "TSS", *OF_BATCHES, "AWF-C", "AWF-E", "AF"]


class Library:
    """Sizes that depend on what is left of a batch, or on measured times; cut to what is left of the loop."""

    def __init__(
        self, name: str, n: int, p: int, weights: Sequence[Fraction], min_chunk: int, pieces: int
    ) -> None:
        self.pieces = pieces
        self.name, self.n, self.p, self.min_chunk = name, n, p, min_chunk
        self.weights = list(weights)
        self.k = self.batch_rest = 0
        self.chunks: list[list[tuple[int, Fraction]]] = [[] for _ in range(p)]
        self.last: list[list[Part]] = [[] for _ in range(p)]

    def learn(self, pe: int, times: Sequence[Fraction], spent: Fraction) -> None:
        """Learn from a chunk; ``spent``: from its begin to its end."""
        counted = spent if self.name in ("AWF-D", "AWF-E") else sum(times, Fraction(0))
        self.chunks[pe].append((len(times), counted))
        if sum(times):
            self.last[pe] = parts(times, self.pieces)

    def size(self, left: int, pe: int) -> int:
        """Size the next chunk."""
        learns = self.name == "AF" or self.name.startswith("AWF-")
        times = self._times()
        if learns and times[pe] is None:
            self.batch_rest = 0
            return min(self.min_chunk, left)
        if self.name == "AF":
            size = min(self._adaptive(left, pe), ceil(Fraction(self.n, 2 * self.p)))
        elif self.name in ("AWF-C", "AWF-E"):
            share = self._share(times, pe) * ceil(Fraction(left, 2 * self.p))
            size = floor(share * (1 + NOISE) + Fraction(55, 100))
        else:
            return self._of_batch(left, pe, times)
        return min(max(size, self.min_chunk), left)

    def _of_batch(self, left: int, pe: int, times: list[Fraction | None]) -> int:
        if self.batch_rest == 0:
            self.k = max(self.min_chunk, ceil(Fraction(left, 2 * self.p)))
            self.batch_rest = min(self.k * self.p, left)
        size = self.k
        if self.name in ("WF", "AWF"):
            size = floor(self.k * self.weights[pe] * (1 + NOISE))
        elif self.name in ("AWF-B", "AWF-D"):
            size = floor(self.k * self._share(times, pe) * (1 + NOISE) + Fraction(55, 100))
        size = min(max(size, self.min_chunk), self.batch_rest)
        self.batch_rest -= size
        if self.batch_rest <= self.min_chunk:
            size, self.batch_rest = size + self.batch_rest, 0
        return size

    def _times(self) -> list[Fraction | None]:
        """Mean iteration times: weighted by the count of the chunk, or AF's, of the last chunk alone."""
        if self.name == "AF":
            return [mean_and_variance(last)[0] if last else None for last in self.last]
        means: list[Fraction | None] = []
        for chunks in self.chunks:
            seconds = sum(((k + 1) * chunk[1] for k, chunk in enumerate(chunks)), Fraction(0))
            sizes = sum((k + 1) * chunk[0] for k, chunk in enumerate(chunks))
            means.append(seconds / sizes if seconds else None)
        return means

    def _share(self, times: list[Fraction | None], pe: int) -> Fraction:
        least = min(time for time in times if time is not None)
        all_times = [least if time is None else time for time in times]
        average = sum(all_times, Fraction(0)) / self.p
        return (average / all_times[pe]) * self.p / sum(average / time for time in all_times)

    def _adaptive(self, left: int, pe: int) -> int:
        known = [mean_and_variance(last) if last else None for last in self.last]
        fastest = known[pe]
        for found in known:
            if found is not None and fastest is not None and found[0] < fastest[0]:
                fastest = found
        assert fastest is not None
        with localcontext(prec=DIGITS):
            d, t = Decimal(0), Decimal(0)
            for found in known:
                mean, variance = map(_decimal, found or fastest)
                d += variance.sqrt() / mean
                t += 1 / mean
            t = 1 / t
            mine = known[pe]
            assert mine is not None
            exact = (d + 2 * t * left - (d * (d + 4 * t * left)).sqrt()) / (2 * _decimal(mine[0]))
            return floor(exact * (1 + Decimal("1e-9")) + Decimal("0.55"))


def trapezoid(n: int, p: int) -> tuple[int, int]:
    """First chunk and decrement of TSS; the number of steps is rounded down."""
    first = ceil(Fraction(n, 2 * p))
    steps = floor(Fraction(2 * n, first + 1))
    return first, floor(Fraction(first - 1, steps - 1)) if steps > 1 else 0


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)
