"""Techniques whose chunks shrink or grow linearly: TSS, TFSS, FISS and VISS."""

from __future__ import annotations

from mlsim._jit import inner_kernel, kernel
from mlsim.application.techniques.factoring import factoring_straightforward_size
from mlsim.application.techniques.fixed import ceil_div


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


_LARGE = 1 << 60
_BITS = 62


@kernel
def default_batches(n: int, p: int) -> int:
    """Count the batches of FAC2's straightforward form, the last one perhaps in part; at least 2."""
    batches, left = 0, n
    while left > 0:
        size = factoring_straightforward_size(batches * p, n, p)
        # P·size may not fit in 64 bits
        left = left - p * size if size <= left // p else 0
        batches += 1
    return max(batches, 2)


@inner_kernel
def increase_first_size(n: int, p: int, batches: int) -> int:
    """Return K_0 = ⌊N/((2+B)·P)⌋, the first chunk of FISS and VISS."""
    return n // (2 + batches) // p


@inner_kernel
def fixed_increase(n: int, p: int, batches: int) -> int:
    """Return C = ⌈2N·(1 − B/(2+B)) / (P·B·(B−1))⌉, the growth of FISS's chunks from batch to batch.

    That is 2N / ((2+B)·P·B·(B−1)/2), all of it integers; rounding up may be done factor by factor.
    """
    pairs = batches * (batches - 1) // 2
    quotient = n // pairs
    doubled = 2 * quotient + ceil_div(2 * (n - quotient * pairs), pairs)
    return ceil_div(ceil_div(doubled, 2 + batches), p)


@inner_kernel
def fixed_increase_size(i: int, n: int, p: int, first: int, increase: int) -> int:
    """Return FISS's K_0 + b·C, at most N (Philip and Das 1997; Eleliemy 2021, Eq. 2.10).

    Per batch, b = ⌊i/P⌋: only so do B batches sum up to N.
    """
    batch = i // p
    if increase > 0 and batch > (n - first) // increase:
        return n
    return first + batch * increase


@inner_kernel
def variable_increase_size(i: int, p: int, first: int) -> int:
    """Return VISS's ⌊K_0·(1 − 0.5^(b+1))/0.5⌋ = 2·K_0 − ⌈K_0/2^b⌉, b = ⌊i/P⌋, K_0 >= 1.

    Philip and Das 1997; the derivation of Eleliemy 2021, Eq. 4.7, whose exponent as printed, i mod P,
    would fall back to K_0 with every batch.
    """
    batch = i // p
    return 2 * first - (ceil_div(first, 1 << batch) if batch < _BITS else 1)


@inner_kernel
def _shifted(value: int, halvings: int) -> int:
    return value >> halvings if halvings >= 0 else value << -halvings


@inner_kernel
def geometric_increase_size(i: int, n: int, p: int, first: int) -> int:
    """Return VISS's chunk with ``growth: geometric``, ⌊K_0·1.5^b⌋, at most N (Eleliemy 2021, Eq. 2.11).

    Exact as long as K_0·3^b stays below 2^62, later to 60 bits.
    """
    value, halvings = first, 0
    for _ in range(i // p):
        if value > _LARGE // 3:
            value >>= 2
            halvings -= 2
        value *= 3
        halvings += 1
        if _shifted(value, halvings) >= n:
            return n
    return _shifted(value, halvings)
