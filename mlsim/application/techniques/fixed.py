"""Techniques whose chunk size does not change over the loop: STATIC, SS, FSC and mFSC."""

from __future__ import annotations

import math

from mlsim._jit import inner_kernel

__all__ = [
    "ROUNDING",
    "begin_of_part",
    "ceil_div",
    "fixed_size",
    "modified_fixed_size",
    "round_up",
    "self_scheduling_size",
    "share_size",
    "static_size",
]

ROUNDING = 1e-12


@inner_kernel
def ceil_div(dividend: int, divisor: int) -> int:
    """Divide and round up; dividend >= 0, divisor >= 1, and no intermediate value above the dividend."""
    quotient = dividend // divisor
    return quotient + 1 if quotient * divisor < dividend else quotient


@inner_kernel
def begin_of_part(begin: int, end: int, number: int, size: int) -> int:
    """Return where a part begins of a range that is cut into parts of ``size``; ``end`` if it has fewer."""
    # number·size may not fit in 64 bits
    return begin + number * size if size > 0 and number <= (end - begin) // size else end


@inner_kernel
def round_up(value: float, most: int) -> int:
    """Round up, to at most ``most``; a value less than 1e-12 (relative) above an integer is that integer.

    Formulas with roots and logarithms are computed in double precision; their value may come out a few
    units of the last place above an integer that is exact.
    """
    if not value < most:
        return most
    return math.ceil(value * (1.0 - ROUNDING))


@inner_kernel
def share_size(n: int, p: int, numerator: int, denominator: int) -> int:
    """Size a chunk as a share of N/P: ⌈N·numerator / (denominator·P)⌉, exactly.

    0 <= numerator <= denominator <= 10^9.
    """
    quotient = n // denominator
    rest = n - quotient * denominator
    return ceil_div(quotient * numerator + ceil_div(rest * numerator, denominator), p)


@inner_kernel
def static_size(n: int, p: int) -> int:
    """Size STATIC's chunks: ⌈N/P⌉, one a PE (Eleliemy 2021, Eq. 2.1)."""
    return ceil_div(n, p)


@inner_kernel
def self_scheduling_size() -> int:
    """Size SS's chunks: one iteration each (Eleliemy 2021, Eq. 2.2)."""
    return 1


@inner_kernel
def fixed_size(n: int, p: int, sigma: float, overhead: float) -> int:
    """Size FSC's chunks: ⌈(√2·N·h / (σ·P·√(ln P)))^(2/3)⌉ (Kruskal and Weiss 1985).

    Eleliemy 2021, Eq. 2.3 lacks the exponent. One PE has nobody to wait for: N.
    """
    if p == 1:
        return n
    base = math.sqrt(2.0) * n * overhead / (sigma * p * math.sqrt(math.log(p)))
    return round_up(base ** (2.0 / 3.0), n)


@inner_kernel
def modified_fixed_size(n: int, p: int) -> int:
    """Size mFSC's chunks: ⌊0.55 + t·ln 2 / ln t⌋ with t = ⌈N/P⌉ (Banicescu, Ciorba and Srivastava 2013).

    So large that there are about as many chunks as with FAC2. The value before rounding down is never an
    integer: t / log₂ t + 0.55 is irrational unless t is a power of two, and is none then either.
    """
    t = ceil_div(n, p)
    return int(0.55 + t * math.log(2.0) / math.log(t)) if t > 1 else 1
