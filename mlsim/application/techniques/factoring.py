"""Factoring, FAC, FAC2 and WF, and weights learned within a loop, AWF-B to AWF-E."""

from __future__ import annotations

import math

from mlsim._arrays import Floats
from mlsim._jit import inner_kernel, kernel
from mlsim.application.techniques.adaptive import RATE, put
from mlsim.application.techniques.fixed import ceil_div, round_up

_BITS = 62
_NOISE = 1e-9


@inner_kernel
def factoring_size(batch: int, remaining: int, p: int, variation: float) -> int:
    """Return FAC's ⌈R/(x·P)⌉, the chunk of a batch at whose start R >= 1 iterations are left.

    With b = P·σ/(2μ√R): x = 1 + b² + b√(b²+2) in the first batch, 2 + b² + b√(b²+4) in later ones
    (Hummel, Schonberg and Flynn 1992). In double precision, see :func:`round_up`.

    Parameters
    ----------
    batch
        Number of the batch, from 0.
    remaining, p
        Iterations left, PEs.
    variation
        σ/μ of the iteration times.
    """
    b = p * variation / (2.0 * math.sqrt(remaining))
    least, inner = (1.0, 2.0) if batch == 0 else (2.0, 4.0)
    x = least + b * b + b * math.sqrt(b * b + inner)
    return max(round_up(remaining / (x * p), remaining), 1)


@inner_kernel
def factoring_recursive_size(i: int, remaining: int, p: int, previous: int) -> int:
    """Return FAC2's chunk by what is left: ⌈R/2P⌉ at the start of a batch, else the former chunk.

    Hummel, Schonberg and Flynn 1992; Eleliemy 2021, Eq. 2.7. Rounded up: rounded down as printed
    there, R < 2P would give chunks of no iterations.
    """
    return factoring_each_size(remaining, p) if i % p == 0 else previous


@inner_kernel
def factoring_each_size(remaining: int, p: int) -> int:
    """Return half of an equal share of what is left, ⌈R/2P⌉: what AWF-C and AWF-E weigh at every request.

    So do LB4MPI and LB4OMP, which have no batches under these techniques.
    """
    return ceil_div(remaining, 2 * p)


@inner_kernel
def factoring_straightforward_size(i: int, n: int, p: int) -> int:
    """Return FAC2's chunk by the step alone: ⌈N/(P·2^(b+1))⌉, b = ⌊i/P⌋ (Eleliemy 2021, Eq. 4.2)."""
    halvings = i // p + 1
    if halvings > _BITS:
        return 1
    # ⌈N/(P·2^h)⌉ = ⌈⌈N/2^h⌉/P⌉, which needs no product that could overflow
    return ceil_div(ceil_div(n, 1 << halvings), p)


@inner_kernel
def weighted_size(size: int, weight: float, n: int) -> int:
    """WF: ⌈w·K⌉, K the chunk of FAC2, at most N (Hummel, Schmidt, Uma and Wein 1996; Eleliemy 2021, Eq. 2.8).

    A value less than 1e-9 (relative) above an integer counts as that integer: weights are scaled or
    measured, and rounded thereby. From 10^9 on that is every value, which is rounded down then: no more than
    an iteration is lost. A weight of 1 changes nothing, also where floating point does not hold the size.
    """
    if weight == 1.0:
        return min(size, n)
    value = size * weight
    if value * _NOISE >= 1.0:
        return int(value) if value < n else n
    return math.ceil(value * (1.0 - _NOISE)) if value < n else n


CHUNKS, SECONDS, ITERATIONS = 0, 1, 2


@kernel
def learn_chunk(measured: Floats, sums: Floats, weights: Floats, pe: int, size: int, seconds: float) -> None:
    """Add an executed chunk (size >= 1) to a PE's rate; chunks that took no time count as none."""
    had_none = measured[SECONDS, pe] == 0.0
    measured[CHUNKS, pe] += 1.0
    k = measured[CHUNKS, pe]
    measured[SECONDS, pe] += k * seconds
    measured[ITERATIONS, pe] += k * size
    if measured[SECONDS, pe] > 0.0:
        if had_none:
            sums[0, 0] += 1.0
            sums[1, 0] += weights[pe]
        put(sums, RATE, pe, measured[ITERATIONS, pe] / measured[SECONDS, pe])


@inner_kernel
def learned_weight(measured: Floats, sums: Floats, weights: Floats, pe: int) -> float:
    """Return the weight of a PE from all that has been measured so far (AWF-C, AWF-E)."""
    if measured[SECONDS, pe] == 0.0:
        return float(weights[pe])
    return float(sums[1, 0] * (measured[ITERATIONS, pe] / measured[SECONDS, pe]) / sums[RATE, 1])


@inner_kernel
def learn_weights(measured: Floats, sums: Floats, weights: Floats) -> None:
    """Adopt all weights measured so far (AWF-B, AWF-D)."""
    for pe in range(len(weights)):
        weights[pe] = learned_weight(measured, sums, weights, pe)
