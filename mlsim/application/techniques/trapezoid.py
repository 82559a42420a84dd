"""Trapezoid self-scheduling: sizes fall linearly from ⌈N/2P⌉, by chunks (TSS) or by batches (TFSS)."""

from __future__ import annotations

from mlsim._jit import inner_kernel
from mlsim.application.techniques.fixed import ceil_div

__all__ = ["trapezoid_factoring_size", "trapezoid_first_size", "trapezoid_size", "trapezoid_slope"]


@inner_kernel
def trapezoid_first_size(n: int, p: int) -> int:
    """Return K_0 = ⌈N/2P⌉, the first chunk of TSS."""
    return ceil_div(n, 2 * p)


@inner_kernel
def trapezoid_slope(n: int, p: int) -> int:
    """Return C = ⌊(K_0 − 1)/(S − 1)⌋ with S = ⌈2N/(K_0 + 1)⌉ steps, the decrement of TSS."""
    first = trapezoid_first_size(n, p)
    # 2N may not fit in 64 bits: double quotient and remainder instead.
    quotient = n // (first + 1)
    steps = 2 * quotient + ceil_div(2 * (n - quotient * (first + 1)), first + 1)
    return (first - 1) // (steps - 1) if steps > 1 else 0


@inner_kernel
def trapezoid_size(i: int, first: int, slope: int) -> int:
    """TSS at step i: K_0 − i·C, 0 once that is negative (Tzen and Ni 1993; Eleliemy 2021, Eq. 2.6, 4.4).

    The form is the same with and without the chunks before it.
    """
    if slope > 0 and i > first // slope:
        return 0
    return first - i * slope


@inner_kernel
def trapezoid_factoring_size(i: int, p: int, first: int, slope: int) -> int:
    """Return TFSS's chunk: the mean of the P chunks of TSS from step b·P on, rounded down; b = ⌊i/P⌋.

    K_0 − b·P·C − C·(P−1)/2 in closed form, negative once TSS's chunks are (Chronopoulos et al. 2001;
    Eleliemy 2021, Eq. 2.9; with the index of Eq. 4.5 counted from b·P).
    """
    return trapezoid_size(i // p * p, first, slope) - ceil_div(slope * (p - 1), 2)
