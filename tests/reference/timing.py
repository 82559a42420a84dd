"""What AF knows of iteration times that were taken a part of a chunk at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import accumulate, pairwise
from math import ceil

Part = tuple[int, Fraction]
"""Iterations of a part of a chunk, and their mean time."""


class Times(list[Fraction]):
    """Times of the iterations of a chunk, which are executed some at a time; None: that is not known."""

    def __init__(self, times: Iterable[Fraction], sizes: list[int] | None) -> None:
        super().__init__(times)
        self.sizes = sizes

    def shared_by(self, pes: int) -> Times:
        """Return what the iterations count where so many PEs execute at a time."""
        return Times((time / pes for time in self), self.sizes)

    def and_more(self, each: Fraction) -> Times:
        """Return the times if each were longer by so much."""
        return Times((time + each for time in self), self.sizes)


def parts(times: Sequence[Fraction], pieces: int) -> list[Part]:
    """Cut the iterations of a chunk into at most so many parts, all but the last as long; 0: each alone.

    ``Times`` may say themselves how long their parts were.
    """
    length = ceil(Fraction(len(times), pieces)) if pieces else 1
    begins = list(range(0, len(times), length))
    if pieces and isinstance(times, Times) and times.sizes is not None:
        begins = [0, *accumulate(times.sizes[:-1])]
    cut = [times[begin:end] for begin, end in pairwise([*begins, len(times)])]
    return [(len(part), sum(part, Fraction(0)) / len(part)) for part in cut]


def mean_and_variance(known: Sequence[Part]) -> tuple[Fraction, Fraction]:
    """Return the mean of all iterations, and the estimate of their variance from the means of parts."""
    mean = sum((n * time for n, time in known), Fraction(0)) / sum(n for n, _ in known)
    if len(known) == 1:
        return mean, Fraction(0)
    variance = sum(n * (time - mean) ** 2 for n, time in known) / (len(known) - 1)
    return mean, variance if variance > mean**2 / 10**12 else Fraction(0)
