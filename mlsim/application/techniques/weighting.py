"""Weights learned within a loop (AWF-B to AWF-E): the speed of each PE, chunk by chunk.

PE q executed its k-th chunk, of n_k iterations, in t_k seconds; its rate is r_q = Σ k·n_k / Σ k·t_k, so
that later chunks count for more. Its weight is w_q = P·r_q / Σ r (Cariño and Banicescu 2008). PEs that
have not been measured keep the weight they began with, and the others share the rest: with W the sum
of their first weights in place of P, the weights sum up to P all the time.

``measured`` and ``sums`` are AF's arrays; the rows of ``measured`` are k, Σ k·t_k and Σ k·n_k, and the
first tree of ``sums`` sums up the rates.
"""

from __future__ import annotations

from mlsim._arrays import Floats
from mlsim._jit import kernel
from mlsim.application.techniques.adaptive import RATE, put

__all__ = ["learn_chunk", "learn_weights", "learned_weight"]


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


@kernel
def learned_weight(measured: Floats, sums: Floats, weights: Floats, pe: int) -> float:
    """Return the weight of a PE from all that has been measured so far (AWF-C, AWF-E)."""
    if measured[SECONDS, pe] == 0.0:
        return float(weights[pe])
    return float(sums[1, 0] * (measured[ITERATIONS, pe] / measured[SECONDS, pe]) / sums[RATE, 1])


@kernel
def learn_weights(measured: Floats, sums: Floats, weights: Floats) -> None:
    """Adopt all weights measured so far (AWF-B, AWF-D)."""
    for pe in range(len(weights)):
        weights[pe] = learned_weight(measured, sums, weights, pe)
