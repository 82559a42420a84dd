"""Chunk sizes of the library LB4MPI (DLS4LB) where it departs from the sources.

``docs/reference/lb4mpi.md`` lists the differences. Batches are counted in iterations, not in chunks: with R
iterations left, a batch has P·max(⌈R/2P⌉, ``min_chunk``) of them. Its rest joins the last chunk once there
are no more than ``min_chunk`` iterations in it.
"""

import math
from dataclasses import replace

from mlsim._jit import inner_kernel
from mlsim._runtime.arrays import Floats, Ints
from mlsim.techniques import pe_statistics as stats
from mlsim.techniques.fixed import ceil_div
from mlsim.techniques.rule_layout import LEFT, PREVIOUS
from mlsim.techniques.technique_entry import Rule

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
    """Return ⌊value·(1 + 1e-9) + extra⌋, at most ``most``: tolerant of rounding errors of the value."""
    value = value * (1.0 + _NOISE) + extra
    return math.floor(value) if value < most else most


@inner_kernel
def _fastest(sums: Floats, pe: int, p: int) -> int:
    """Return the fastest measured PE, of equals ``pe`` or else the first; it represents unmeasured PEs."""
    begin = sums.shape[1] // 2
    best = pe
    for other in range(p):
        if sums[stats.RATE, begin + other] > sums[stats.RATE, begin + best]:
            best = other
    return best


@inner_kernel
def library_weight(sums: Floats, pe: int, p: int) -> float:
    """Return the weight of a measured PE for AWF-B to AWF-E: P·r_p / Σ r, r_q in iterations per second.

    PEs that have not been measured count as the fastest one.
    """
    leaf, unknown = sums.shape[1] // 2 + pe, p - sums[0, 0]
    total = sums[stats.RATE, 1]
    if unknown > 0.0:
        total += unknown * sums[stats.RATE, sums.shape[1] // 2 + _fastest(sums, pe, p)]
    return float(p * sums[stats.RATE, leaf] / total)


@inner_kernel
def library_adaptive_size(sums: Floats, pe: int, remaining: int, n: int, p: int) -> int:
    """Return AF's chunk for a measured PE: ⌊0.55 + (D + 2·E·R − √(D² + 4·D·E·R)) / (2·μ_p)⌋, at most ⌈N/2P⌉.

    With D = Σ σ_q/μ_q, where the source has σ_q²/μ_q, and E = (Σ 1/μ_q)^−1, over all PEs; those that have
    not been measured count as the fastest one.
    """
    begin, unknown = sums.shape[1] // 2, p - sums[0, 0]
    d, rates = sums[stats.RISK, 1], sums[stats.RATE, 1]
    if unknown > 0.0:
        fastest = begin + _fastest(sums, pe, p)
        d += unknown * sums[stats.RISK, fastest]
        rates += unknown * sums[stats.RATE, fastest]
    work = remaining / rates
    # The difference cancels where D >> E·R, so it is expanded by its conjugate:
    share = 2.0 * work * work / (d + 2.0 * work + math.sqrt(d * d + 4.0 * d * work))
    return rounded(share * sums[stats.RATE, begin + pe], ROUNDING, ceil_div(n, 2 * p))


@inner_kernel
def forget_chunks(measured: Floats, pe: int) -> None:
    """Clear a PE's statistics before AF learns from its next chunk: the library uses the last chunk only.

    The mean stays until it is replaced, as a mean above 0 marks measured PEs.
    """
    for row in range(len(measured)):
        if row != stats.MEAN:
            measured[row, pe] = 0.0


@inner_kernel
def note_deviation(measured: Floats, sums: Floats, pe: int) -> None:
    """Set a PE's term of D to σ/μ."""
    if measured[stats.MEAN, pe] > 0.0:
        stats.put(sums, stats.RISK, pe, math.sqrt(stats.variance(measured, pe)) / measured[stats.MEAN, pe])


@inner_kernel
def _batch_size(rule: Ints, remaining: int, p: int, min_chunk: int) -> int:
    """Return the chunk size K of the batch; start a new batch of min(P·K, R) if it is used up."""
    if rule[LEFT] == 0:
        size = max(ceil_div(remaining, 2 * p), min_chunk)
        # P·K may not fit in 64 bits
        rule[PREVIOUS], rule[LEFT] = size, remaining if size > remaining // p else p * size
    return int(rule[PREVIOUS])


@inner_kernel
def _take_of_batch(rule: Ints, size: int, min_chunk: int) -> int:
    """Return a chunk of ``size`` from the batch, together with the batch's rest if that is small."""
    left = int(rule[LEFT])
    chunk = min(max(size, min_chunk), left)
    if left - chunk <= min_chunk:
        chunk = left
    rule[LEFT] -= chunk
    return chunk


@inner_kernel
def _halving_chunk(rule: Ints, remaining: int, p: int, min_chunk: int) -> int:
    return _take_of_batch(rule, _batch_size(rule, remaining, p, min_chunk), min_chunk)


@inner_kernel
def _weighted_chunk(
    rule: Ints, weights: Floats, remaining: int, pe: int, n: int, p: int, min_chunk: int
) -> int:
    size = _batch_size(rule, remaining, p, min_chunk)
    return _take_of_batch(rule, rounded(size * weights[pe], 0.0, n), min_chunk)


# PEs without measurements get a minimum chunk and end the batch. AWF's seconds and AF's mean share a row of
# ``measured``.


@inner_kernel
def _chunk_by_batch_weights(
    rule: Ints, measured: Floats, sums: Floats, remaining: int, pe: int, n: int, p: int, min_chunk: int
) -> int:
    if measured[stats.SECONDS, pe] == 0.0:
        rule[LEFT] = 0
        return min_chunk
    size = _batch_size(rule, remaining, p, min_chunk)
    return _take_of_batch(rule, rounded(size * library_weight(sums, pe, p), ROUNDING, n), min_chunk)


@inner_kernel
def _chunk_by_latest_weights(
    measured: Floats, sums: Floats, remaining: int, pe: int, n: int, p: int, min_chunk: int
) -> int:
    if measured[stats.SECONDS, pe] == 0.0:
        return min_chunk
    return rounded(ceil_div(remaining, 2 * p) * library_weight(sums, pe, p), ROUNDING, n)


@inner_kernel
def _adaptive_chunk(
    measured: Floats, sums: Floats, remaining: int, pe: int, n: int, p: int, min_chunk: int
) -> int:
    if measured[stats.MEAN, pe] == 0.0:
        return min_chunk
    return library_adaptive_size(sums, pe, remaining, n, p)


@inner_kernel
def _learn_adaptive(measured: Floats, sums: Floats, pe: int, chunk: stats.SimulatedChunk) -> None:
    # A chunk that took no time counts as none.
    if chunk.each > 0.0 or stats.cost_between(chunk.prefix, chunk.first, chunk.first + chunk.size) > 0.0:
        forget_chunks(measured, pe)
        stats.learn_costs(measured, sums, pe, chunk, 0.0)
        note_deviation(measured, sums, pe)


@inner_kernel
def _learn_measured(
    measured: Floats,
    sums: Floats,
    pe: int,
    size: int,
    pieces: int,
    seconds: float,
    mean: float,
    between: float,
) -> None:
    if seconds > 0.0:
        forget_chunks(measured, pe)
        stats.learn_pieces(measured, sums, pe, size, pieces, mean, between)
        note_deviation(measured, sums, pe)


FAC2_RULE = Rule(size=_halving_chunk)  # also for FAC, which is FAC2 in the library
WEIGHTED_RULE = Rule(size=_weighted_chunk)  # WF, AWF
# AWF-B and AWF-D, then AWF-C and AWF-E
BATCH_RULE = Rule(size=_chunk_by_batch_weights, learn=stats.learn_chunk, learn_measured=stats.learn_chunk)
BATCH_BREAKS_RULE = replace(BATCH_RULE, counts_breaks=True)
CHUNK_RULE = Rule(size=_chunk_by_latest_weights, learn=stats.learn_chunk, learn_measured=stats.learn_chunk)
CHUNK_BREAKS_RULE = replace(CHUNK_RULE, counts_breaks=True)
AF_RULE = Rule(
    size=_adaptive_chunk, learn=_learn_adaptive, learn_measured=_learn_measured, times_iterations=True
)
