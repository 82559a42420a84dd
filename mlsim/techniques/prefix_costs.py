"""Iteration costs in the kernels' format: prefix sums, or the coefficients of a line.

Prefix sums are float64[N+1] in s at speed 1, starting with 0. Costs that are linear in the index are
``[-1, first, growth]``: iteration k costs ``first + growth·k``.
"""

from __future__ import annotations

from mlsim._jit import inner_kernel
from mlsim._runtime.arrays import Floats


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
