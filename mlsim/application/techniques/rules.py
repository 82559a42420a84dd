"""A technique at work in a loop: from its code to the size of the next chunk.

What a technique remembers stands in plain arrays, which the event loops hold in local variables:
numba counts references to arrays inside tuples and objects at every access, which would cost more
than the events themselves.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import kernel
from mlsim.application.catalogue import TECHNIQUES
from mlsim.application.techniques.adaptive import adaptive_size
from mlsim.application.techniques.factoring import factoring_recursive_size, factoring_straightforward_size
from mlsim.application.techniques.fixed import self_scheduling_size, static_size
from mlsim.application.techniques.guided import guided_recursive_size, guided_straightforward_size
from mlsim.application.techniques.trapezoid import trapezoid_first_size, trapezoid_size, trapezoid_slope

__all__ = ["AF", "SIZE", "STATIC", "new_rule", "recursive_size", "straightforward_size"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

STATIC = TECHNIQUES["STATIC"].code
SS = TECHNIQUES["SS"].code
GSS = TECHNIQUES["GSS"].code
TSS = TECHNIQUES["TSS"].code
FAC2 = TECHNIQUES["FAC2"].code
AF = TECHNIQUES["AF"].code

CODE, ITERATIONS, PES, MIN_CHUNK, SIZE, SLOPE, PREVIOUS = range(7)


@kernel
def new_rule(code: int, n: int, p: int, min_chunk: int, first_size: int) -> Ints:
    """Prepare a technique for one loop.

    Parameters
    ----------
    code
        Which technique.
    n, p
        Iterations and PEs.
    min_chunk
        Least chunk, 1 or more.
    first_size
        AF's chunk without statistics.

    Returns
    -------
    int64[7]
        Code, N, P, least chunk; the chunk size where it is constant, or the first of TSS, or AF's
        without statistics; what each chunk of TSS is smaller by; the last size, for techniques that
        repeat it.
    """
    rule = np.zeros(7, np.int64)
    rule[CODE] = code
    rule[ITERATIONS] = n
    rule[PES] = p
    rule[MIN_CHUNK] = min_chunk
    rule[SIZE] = self_scheduling_size()
    if code == STATIC:
        rule[SIZE] = min(max(static_size(n, p), min_chunk), n)
    elif code == TSS:
        rule[SIZE] = trapezoid_first_size(n, p)
        rule[SLOPE] = trapezoid_slope(n, p)
    elif code == AF:
        rule[SIZE] = first_size
    return rule


@kernel
def recursive_size(rule: Ints, measured: Floats, sums: Floats, i: int, remaining: int, pe: int) -> int:
    """Size the next chunk from what is left: step ``i``, ``remaining`` >= 1 iterations, for ``pe``.

    ``measured`` and ``sums`` are AF's statistics; the other techniques do not look at them.
    """
    code, n, p = int(rule[CODE]), int(rule[ITERATIONS]), int(rule[PES])
    size = int(rule[SIZE])
    if code == GSS:
        size = guided_recursive_size(remaining, p)
    elif code == TSS:
        size = trapezoid_size(i, size, rule[SLOPE])
    elif code == FAC2:
        size = factoring_recursive_size(i, remaining, p, rule[PREVIOUS])
        rule[PREVIOUS] = size
    elif code == AF:
        size = adaptive_size(measured, sums, pe, remaining, n, p, size)
    return min(max(size, int(rule[MIN_CHUNK])), remaining)


@kernel
def straightforward_size(rule: Ints, guide: Ints, i: int) -> int:
    """Size chunk ``i`` from ``i`` alone, at least ``min_chunk`` and at most N; AF has no such form."""
    code, n, p = int(rule[CODE]), int(rule[ITERATIONS]), int(rule[PES])
    size = int(rule[SIZE])
    if code == GSS:
        size = guided_straightforward_size(guide, i, n, p)
    elif code == TSS:
        size = trapezoid_size(i, size, rule[SLOPE])
    elif code == FAC2:
        size = factoring_straightforward_size(i, n, p)
    return min(max(size, int(rule[MIN_CHUNK])), n)
