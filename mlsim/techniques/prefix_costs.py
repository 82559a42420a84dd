"""Costs of iterations as kernels read them: prefix sums, or the numbers of a line.

Prefix sums are float64[N+1] in s at speed 1, beginning with 0. Costs that are linear in the index are
``[-1, first, growth]``: iteration k costs ``first + growth·k``.
"""

from __future__ import annotations

from mlsim._arrays import Floats
from mlsim._jit import inner_kernel


@inner_kernel
def is_linear(prefix: Floats) -> bool:
    """Whether these are linear costs, not prefix sums."""
    return bool(prefix[0] < 0.0)


@inner_kernel
def cost_between(prefix: Floats, first: int, end: int) -> float:
    """Return what the iterations from ``first`` to before ``end`` cost, in s at speed 1.

    Of linear costs from the number of iterations and the cost of the middle one: differences of large sums
    would lose digits beyond 2^53 iterations. Rounding may let the last ones of a falling line cost a little
    below 0.
    """
    if prefix[0] < 0.0:
        size = float(end - first)
        return float(max(size * (prefix[1] + prefix[2] * (float(first) + 0.5 * (size - 1.0))), 0.0))
    return float(prefix[end] - prefix[first])


@inner_kernel
def spread_of_line(prefix: Floats, size: int) -> float:
    """Return the sum of squared deviations of so many linear costs from their mean, in s² at speed 1."""
    count = float(size)
    return float(prefix[2] * prefix[2] * count * (count * count - 1.0) / 12.0)
