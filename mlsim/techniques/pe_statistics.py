"""Statistics of executed chunks, of each PE or node: what techniques that learn within a loop keep.

``measured`` and ``sums`` are arrays of one queue, see :func:`new_measurements`. Sum trees keep the sums over
PEs, so that a change costs O(log P) and leaves no rounding behind.
"""

from __future__ import annotations

import numpy as np

from mlsim._arrays import Floats
from mlsim._jit import inner_kernel, kernel, leaf_kernel, zeros
from mlsim.techniques.fixed import ceil_div
from mlsim.techniques.prefix_costs import cost_between, is_linear, spread_of_line

COUNT, MEAN, SPREAD = 0, 1, 2
# Two more where chunks are timed by pieces.
PIECES, BETWEEN = 3, 4
ROWS = 5
"""Of measurements of a PE or node."""
RATE, RISK = 0, 1
NO_SPREAD = 1e-6
# Of AWF, in the first three rows, chunk k having n_k iterations and t_k seconds: chunks, Σ k·t_k, Σ k·n_k.
CHUNKS, SECONDS, ITERATIONS = 0, 1, 2


@kernel
def new_measurements(p: int) -> tuple[Floats, Floats]:
    """Start without statistics for ``p`` PEs.

    Returns
    -------
    measured
        float64[5, P]: iterations measured, mean iteration time in s, sum of squared deviations in s²; where
        chunks are timed by pieces, these, and Σ n_j·(x_j − μ)² over them, see ``learn_pieces``.
    sums
        float64[2, 2·width]: sum trees over the PEs with statistics, of 1/μ and of σ²/μ; the sum is in
        element 1, PE j's term in element width + j. Element 0 of the first row counts those PEs, of the
        second row it sums up the weights they began with (AWF).

    AWF's variants keep other numbers in the first three rows of ``measured``, see ``CHUNKS``.
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
    """Return the sample variance of a PE's iteration times [s²]; 0 for one iteration.

    A σ below a millionth of μ counts as none: costs are differences of prefix sums, which carry
    rounding noise of about that order on long loops.
    """
    if measured[COUNT, pe] < 2.0:
        return 0.0
    found = measured[SPREAD, pe] / (measured[COUNT, pe] - 1.0)
    bound = NO_SPREAD * measured[MEAN, pe]
    return found if found > bound * bound else 0.0


@inner_kernel
def _merge(measured: Floats, pe: int, size: int, mean: float, spread: float) -> None:
    """Merge a chunk's mean and squared deviations with those before (Chan, Golub and LeVeque 1983)."""
    before = measured[COUNT, pe]
    share = size / (before + size)
    shift = mean - measured[MEAN, pe]
    measured[COUNT, pe] = before + size
    measured[MEAN, pe] += shift * share
    measured[SPREAD, pe] += spread + shift * shift * before * share


@leaf_kernel
def _add_to_sums(measured: Floats, sums: Floats, pe: int, had_none: bool) -> None:
    """Update the sums over all PEs with the mean and variance of one, the first of its own or not."""
    if measured[MEAN, pe] > 0.0:
        sums[0, 0] += 1.0 if had_none else 0.0
        put(sums, RATE, pe, 1.0 / measured[MEAN, pe])
        put(sums, RISK, pe, variance(measured, pe) / measured[MEAN, pe])


@kernel
def learn_iterations(
    measured: Floats, sums: Floats, pe: int, prefix: Floats, speed: float, first: int, size: int
) -> None:
    """Add the iteration times of one executed chunk (size >= 1) to a PE's statistics."""
    learn_waiting(measured, sums, pe, prefix, speed, first, size, 0.0)


@kernel
def learn_waiting(
    measured: Floats,
    sums: Floats,
    pe: int,
    prefix: Floats,
    speed: float,
    first: int,
    size: int,
    waited: float,
) -> None:
    """Add the iteration times of one executed chunk, and what the PE ``waited`` for it, shared equally."""
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
    """Add a chunk whose pieces were timed, not each of its iterations, to a PE's statistics.

    Parameters
    ----------
    measured
        float64[5, P]: as in ``new_measurements``, piece j being n_j iterations of x_j seconds on average.
    sums
        As in ``new_measurements``.
    pe, size, pieces
        Who executed how many iterations in how many pieces; both 1 or more.
    mean
        Mean iteration time of the chunk, in s.
    between
        Σ n_j·(x_j − mean)² over the chunk's pieces, in s².

    Notes
    -----
    For independent iterations of variance σ², x_j has variance σ²/n_j, and Σ n_j·(x_j − μ)² / (pieces − 1)
    is an unbiased estimate of σ². With pieces of one iteration it is the sample variance, and this function
    the same as ``learn_iterations``.
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
        # so that divided by COUNT - 1 it is the variance
        of_one = measured[BETWEEN, pe] / (measured[PIECES, pe] - 1.0)
        measured[SPREAD, pe] = of_one * (measured[COUNT, pe] - 1.0)
    _add_to_sums(measured, sums, pe, had_none)


@kernel
def learn_timed(
    measured: Floats,
    sums: Floats,
    pe: int,
    prefix: Floats,
    speed: float,
    first: int,
    size: int,
    waited: float,
    length: int,
    each: float,
) -> None:
    """Add an executed chunk (size >= 1) that was timed in parts of some ``length``, which each take more.

    ``each``: what a part takes besides its iterations, in s at speed 1. Other parameters as in
    ``learn_waiting``.
    """
    parts, between = spread_of_parts(prefix, first, size, length, each)
    mean = (cost_between(prefix, first, first + size) + each * parts) / size
    learn_pieces(measured, sums, pe, size, parts, mean / speed + waited / size, between / (speed * speed))


@inner_kernel
def timed_length(size: int, pieces: int) -> int:
    """Return how many iterations of a chunk (size >= 1) are timed together; ``pieces`` below 1: one."""
    return ceil_div(size, pieces) if pieces > 0 else 1


@kernel
def spread_of_parts(prefix: Floats, first: int, size: int, length: int, each: float) -> tuple[int, float]:
    """Return how many parts a timed chunk (size >= 1) has, and Σ n_j·(x_j − μ)² over them, in s² at speed 1.

    All parts but the last have ``length`` iterations; ``each``: what a part takes besides them, in s.
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
def learn_costs(
    measured: Floats,
    sums: Floats,
    pe: int,
    prefix: Floats,
    speed: float,
    first: int,
    size: int,
    waited: float,
    pieces: int,
    length: int,
    each: float,
) -> None:
    """Add an executed chunk (size >= 1) to a PE's statistics, timed in ``pieces``; 0: each iteration of it.

    The PE ``waited`` for it [s]; all parts but the last have ``length`` iterations, and ``each`` [s at speed
    1] is what a part takes besides them.
    """
    if pieces > 0:
        learn_timed(measured, sums, pe, prefix, speed, first, size, waited, length, each)
    else:
        besides = waited + each * size / speed
        learn_waiting(measured, sums, pe, prefix, speed, first, size, besides)


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
