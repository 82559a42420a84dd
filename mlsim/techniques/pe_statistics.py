"""Costs of chunks, and their statistics per PE or node, for techniques that learn within a loop.

Iteration costs are prefix sums, float64[N+1] in s at speed 1, starting with 0; or ``[-1, first, growth]`` if
they are linear in the index: iteration k costs ``first + growth·k``.

``measured`` and ``sums`` are arrays of one queue, see :func:`new_measurements`. Sum trees keep the sums over
PEs: an update costs O(log P) and accumulates no rounding errors.
"""

from typing import NamedTuple

import numpy as np

from mlsim._jit import inner_kernel, kernel, leaf_kernel, zeros
from mlsim._runtime.arrays import Floats
from mlsim.techniques.fixed import ceil_div

# Rows of ``measured``. PIECES and BETWEEN are for chunks that are timed in parts.
COUNT, MEAN, SPREAD, PIECES, BETWEEN = range(5)
ROWS = 5
# Rows of ``measured`` under AWF's variants, chunk k having n_k iterations and t_k seconds: the number of
# chunks, Σ k·t_k, Σ k·n_k.
CHUNKS, SECONDS, ITERATIONS = range(3)
# Rows of ``sums``.
RATE, RISK = 0, 1
NO_SPREAD = 1e-6


class SimulatedChunk(NamedTuple):
    """An executed chunk whose iteration costs are known."""

    prefix: Floats
    speed: float  # of its PE
    first: int
    size: int  # 1 or more
    seconds: float  # from the request if the technique counts overhead, else from the start, to the end
    pieces: int  # timed parts; 0: each iteration is timed
    length: int  # iterations of all parts except the last
    each: float  # overhead of a part, in s at speed 1


@inner_kernel
def is_linear(prefix: Floats) -> bool:
    """Whether the costs are linear in the index, not prefix sums."""
    return bool(prefix[0] < 0.0)


@inner_kernel
def cost_between(prefix: Floats, first: int, end: int) -> float:
    """Return the cost of the iterations ``first`` … ``end - 1``, in s at speed 1."""
    if prefix[0] < 0.0:
        # Size times the cost of the middle iteration: differences of large sums would lose digits beyond
        # 2^53 iterations. Clamped, as rounding may put the last iterations of a falling line just below 0.
        size = float(end - first)
        return float(max(size * (prefix[1] + prefix[2] * (float(first) + 0.5 * (size - 1.0))), 0.0))
    return float(prefix[end] - prefix[first])


@inner_kernel
def spread_of_line(prefix: Floats, size: int) -> float:
    """Return the sum of squared deviations of ``size`` linear costs from their mean, in s² at speed 1."""
    count = float(size)
    return float(prefix[2] * prefix[2] * count * (count * count - 1.0) / 12.0)


@kernel
def new_measurements(p: int) -> tuple[Floats, Floats]:
    """Return ``measured`` and ``sums`` of ``p`` PEs without statistics.

    ``measured``, float64[5, P]: the iterations measured, their mean time in s, and the sum of squared
    deviations in s²; for chunks timed in parts also the parts, and Σ n_j·(x_j − μ)² over them, see
    :func:`learn_pieces`. AWF's variants use the first three rows otherwise, see ``CHUNKS``.

    ``sums``, float64[2, 2·width]: sum trees of 1/μ and σ²/μ over the PEs with statistics. Element 1 is the
    sum, element width + j the term of PE j. Element 0 of the first row counts these PEs, of the second row
    it is the sum of their initial weights (AWF).
    """
    width = 1
    while width < p:
        width *= 2
    return zeros((ROWS, p), np.float64), zeros((2, 2 * width), np.float64)


@inner_kernel
def put(sums: Floats, row: int, pe: int, value: float) -> None:
    """Replace one term of a sum tree."""
    node = sums.shape[1] // 2 + pe
    sums[row, node] = value
    while node > 1:
        node >>= 1
        sums[row, node] = sums[row, 2 * node] + sums[row, 2 * node + 1]


@inner_kernel
def variance(measured: Floats, pe: int) -> float:
    """Return the sample variance of a PE's iteration times [s²]; 0 for one iteration."""
    if measured[COUNT, pe] < 2.0:
        return 0.0
    found = measured[SPREAD, pe] / (measured[COUNT, pe] - 1.0)
    # Costs are differences of prefix sums, with rounding noise of about a millionth of μ on long loops.
    bound = NO_SPREAD * measured[MEAN, pe]
    return found if found > bound * bound else 0.0


@inner_kernel
def _merge(measured: Floats, pe: int, size: int, mean: float, spread: float) -> None:
    """Merge a chunk's mean and squared deviations into a PE's (Chan, Golub and LeVeque 1983)."""
    before = measured[COUNT, pe]
    share = size / (before + size)
    shift = mean - measured[MEAN, pe]
    measured[COUNT, pe] = before + size
    measured[MEAN, pe] += shift * share
    measured[SPREAD, pe] += spread + shift * shift * before * share


@leaf_kernel
def _add_to_sums(measured: Floats, sums: Floats, pe: int, had_none: bool) -> None:
    """Update the sums over PEs with one PE's mean and variance; ``had_none``: these are its first ones."""
    if measured[MEAN, pe] > 0.0:
        sums[0, 0] += 1.0 if had_none else 0.0
        put(sums, RATE, pe, 1.0 / measured[MEAN, pe])
        put(sums, RISK, pe, variance(measured, pe) / measured[MEAN, pe])


@kernel
def learn_iterations(
    measured: Floats,
    sums: Floats,
    pe: int,
    prefix: Floats,
    speed: float,
    first: int,
    size: int,
    waited: float,
) -> None:
    """Add the iteration times of an executed chunk (size >= 1), with equal shares of the time ``waited``."""
    mean = cost_between(prefix, first, first + size) / size
    spread = 0.0
    if is_linear(prefix):
        spread = spread_of_line(prefix, size)
    else:
        for k in range(first, first + size):
            deviation = (prefix[k + 1] - prefix[k]) - mean
            spread += deviation * deviation
    had_none = measured[MEAN, pe] == 0.0
    _merge(measured, pe, size, mean / speed + waited / size, spread / (speed * speed))
    _add_to_sums(measured, sums, pe, had_none)


@kernel
def learn_pieces(
    measured: Floats, sums: Floats, pe: int, size: int, pieces: int, mean: float, between: float
) -> None:
    """Add a chunk (size >= 1) that was timed in ``pieces`` (>= 1), not per iteration, to a PE's statistics.

    Piece j has n_j iterations of x_j seconds on average, ``mean`` [s] is that of the chunk, and ``between``
    [s²] is Σ n_j·(x_j − mean)². For independent iterations of variance σ², x_j has variance σ²/n_j, so
    Σ n_j·(x_j − μ)² / (pieces − 1) is an unbiased estimate of σ². With pieces of one iteration it is the
    sample variance, as in :func:`learn_iterations`.
    """
    before = measured[COUNT, pe]
    shift = mean - measured[MEAN, pe]
    had_none = measured[MEAN, pe] == 0.0
    measured[COUNT, pe] = before + size
    measured[MEAN, pe] += shift * (size / (before + size))
    measured[BETWEEN, pe] += between + shift * shift * before * (size / (before + size))
    measured[PIECES, pe] += pieces
    measured[SPREAD, pe] = 0.0
    if measured[PIECES, pe] >= 2.0:
        # Scaled so that variance() divides it by COUNT - 1.
        of_one = measured[BETWEEN, pe] / (measured[PIECES, pe] - 1.0)
        measured[SPREAD, pe] = of_one * (measured[COUNT, pe] - 1.0)
    _add_to_sums(measured, sums, pe, had_none)


@inner_kernel
def timed_length(size: int, pieces: int) -> int:
    """Return the length of the timed parts of a chunk (size >= 1), in iterations; 1 if ``pieces`` < 1."""
    return ceil_div(size, pieces) if pieces > 0 else 1


@kernel
def spread_of_parts(prefix: Floats, first: int, size: int, length: int, each: float) -> tuple[int, float]:
    """Return the number of parts of a chunk (size >= 1), and Σ n_j·(x_j − μ)² over them, in s² at speed 1.

    All parts except the last have ``length`` iterations; ``each`` [s] is the overhead of a part.
    """
    parts = ceil_div(size, length)
    if length == 1 and is_linear(prefix):
        return parts, spread_of_line(prefix, size)
    mean = (cost_between(prefix, first, first + size) + each * parts) / size
    between = 0.0
    for begin in range(first, first + size, length):
        end = min(begin + length, first + size)
        deviation = (cost_between(prefix, begin, end) + each) / (end - begin) - mean
        between += (end - begin) * deviation * deviation
    return parts, between


@inner_kernel
def learn_costs(measured: Floats, sums: Floats, pe: int, chunk: SimulatedChunk, waited: float) -> None:
    """Add an executed chunk, for which the PE ``waited`` [s], to the PE's statistics."""
    prefix, size, speed = chunk.prefix, chunk.size, chunk.speed
    if chunk.pieces <= 0:
        besides = waited + chunk.each * size / speed
        learn_iterations(measured, sums, pe, prefix, speed, chunk.first, size, besides)
        return
    parts, between = spread_of_parts(prefix, chunk.first, size, chunk.length, chunk.each)
    mean = (cost_between(prefix, chunk.first, chunk.first + size) + chunk.each * parts) / size
    learn_pieces(measured, sums, pe, size, parts, mean / speed + waited / size, between / (speed * speed))


@kernel
def learn_chunk(measured: Floats, sums: Floats, weights: Floats, pe: int, size: int, seconds: float) -> None:
    """Add an executed chunk (size >= 1) to a PE's rate (AWF); the rate is unknown while no time was taken."""
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
