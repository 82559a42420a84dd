"""Chunk sizes of the library LB4MPI (DLS4LB) where it departs from the sources.

The differences are those of ``docs/reference/lb4mpi.md``.

Batches are counted in iterations, not in chunks: a batch of R iterations left holds B = P·max(⌈R/2P⌉,
``min_chunk``) of them, and what is left of it joins a chunk once that is no more than ``min_chunk``.
"""

from __future__ import annotations

import math

from mlsim._arrays import Floats
from mlsim._jit import inner_kernel
from mlsim.application.techniques.adaptive import MEAN, RATE, RISK, put, variance
from mlsim.application.techniques.factoring import factoring_each_size
from mlsim.application.techniques.fixed import ceil_div

ROUNDING = 0.55
_NOISE = 1e-9


@inner_kernel
def library_slope(n: int, first: int) -> int:
    """Return the decrement of TSS: ⌊(K_0 − 1)/(S − 1)⌋ with S = ⌊2N/(K_0 + 1)⌋ steps, rounded down."""
    # 2N may not fit in 64 bits: double quotient and remainder instead.
    quotient = n // (first + 1)
    steps = 2 * quotient + 2 * (n - quotient * (first + 1)) // (first + 1)
    return (first - 1) // (steps - 1) if steps > 1 else 0


@inner_kernel
def rounded(value: float, extra: float, most: int) -> int:
    """Return ⌊value + extra⌋, at most ``most``; a value within 1e-9 (relative) of an integer is that one."""
    value = value * (1.0 + _NOISE) + extra
    return math.floor(value) if value < most else most


@inner_kernel
def new_batch(remaining: int, p: int, least: int) -> tuple[int, int]:
    """Return the chunk K of a batch at whose start R iterations are left, and its length min(P·K, R)."""
    size = max(factoring_each_size(remaining, p), least)
    # P·K may not fit in 64 bits
    return size, remaining if size > remaining // p else p * size


@inner_kernel
def batch_chunk(size: int, least: int, left: int) -> int:
    """Return a chunk of ``size`` from a batch of ``left`` iterations, with its rest if that is small."""
    size = min(max(size, least), left)
    return left if left - size <= least else size


@inner_kernel
def _fastest(sums: Floats, pe: int, p: int) -> int:
    """Return the fastest PE of those measured, of equals ``pe``, or the first; it stands for the others."""
    begin = sums.shape[1] // 2
    best = pe
    for other in range(p):
        if sums[RATE, begin + other] > sums[RATE, begin + best]:
            best = other
    return best


@inner_kernel
def library_weight(sums: Floats, pe: int, p: int) -> float:
    """Return the weight of a measured PE for AWF-B to AWF-E: P·r_p / Σ r, r_q its iterations a second.

    PEs that have not been measured count as the fastest one.
    """
    leaf, unknown = sums.shape[1] // 2 + pe, p - sums[0, 0]
    total = sums[RATE, 1]
    if unknown > 0.0:
        total += unknown * sums[RATE, sums.shape[1] // 2 + _fastest(sums, pe, p)]
    return float(p * sums[RATE, leaf] / total)


@inner_kernel
def library_adaptive_size(sums: Floats, pe: int, remaining: int, n: int, p: int) -> int:
    """Return AF's chunk for a measured PE: ⌊0.55 + (D + 2·E·R − √(D² + 4·D·E·R)) / (2·μ_p)⌋, at most ⌈N/2P⌉.

    With D = Σ σ_q/μ_q, where the source has σ_q²/μ_q, and E = (Σ 1/μ_q)^−1, over all PEs; those that have
    not been measured count as the fastest one.
    """
    begin, unknown = sums.shape[1] // 2, p - sums[0, 0]
    d, rates = sums[RISK, 1], sums[RATE, 1]
    if unknown > 0.0:
        fastest = begin + _fastest(sums, pe, p)
        d += unknown * sums[RISK, fastest]
        rates += unknown * sums[RATE, fastest]
    work = remaining / rates
    # The difference loses its digits where D >> E·R; multiplied out by its conjugate:
    share = 2.0 * work * work / (d + 2.0 * work + math.sqrt(d * d + 4.0 * d * work))
    return rounded(share * sums[RATE, begin + pe], ROUNDING, ceil_div(n, 2 * p))


@inner_kernel
def forget_chunks(measured: Floats, pe: int) -> None:
    """Forget how many iterations AF has measured of a PE, as it knows of its last chunk only.

    The mean stays until the next one takes its place, and tells that there was one.
    """
    for row in range(len(measured)):
        if row != MEAN:
            measured[row, pe] = 0.0


@inner_kernel
def note_deviation(measured: Floats, sums: Floats, pe: int) -> None:
    """Make a PE's term of D σ/μ."""
    if measured[MEAN, pe] > 0.0:
        put(sums, RISK, pe, math.sqrt(variance(measured, pe)) / measured[MEAN, pe])
