"""Techniques whose chunk size does not change over the loop: STATIC and SS."""

from __future__ import annotations

from mlsim._jit import kernel

__all__ = ["ceil_div", "self_scheduling_size", "static_size"]


@kernel
def ceil_div(dividend: int, divisor: int) -> int:
    """Divide and round up; dividend >= 0, divisor >= 1, and no intermediate value above the dividend."""
    quotient = dividend // divisor
    return quotient + 1 if quotient * divisor < dividend else quotient


@kernel
def static_size(n: int, p: int) -> int:
    """Size STATIC's chunks: ⌈N/P⌉, one a PE (Eleliemy 2021, Eq. 2.1)."""
    return ceil_div(n, p)


@kernel
def self_scheduling_size() -> int:
    """Size SS's chunks: one iteration each (Eleliemy 2021, Eq. 2.2)."""
    return 1
