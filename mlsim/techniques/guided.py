"""Guided self-scheduling (GSS) and its descendants TAP and PLS: chunks of about R/P iterations.

The recursive form, ⌈R/P⌉, is one integer division. The straightforward form,
⌈N·(P−1)^i / P^(i+1)⌉ (Eleliemy 2021, Eq. 4.1), must not be computed by ``ceil(pow(...))``: floating
point is off by one where the value lies close to an integer (N=1000, P=5, i=2 is exactly 128).
Here x_i = N·(P−1)^i / P^(i+1) is computed in fixed point: x_{i+1} = x_i − x_i/P, each step rounded
down by less than one unit in the last place. As every step also shrinks the earlier errors by
(P−1)/P, the computed value is never more than P + 1 units too small, however many steps there were.
So the ceiling is known unless the fraction is within P + 1 units of one; then that one value is
computed again with more digits. If x_i is an integer, P^(i+1) divides N; then all values before it
are integers too, nothing was ever rounded, and the value is exact.
"""

import math

import numpy as np

from mlsim._jit import inner_kernel, kernel, zeros
from mlsim._runtime.arrays import Floats, Ints
from mlsim.techniques.fixed import ROUNDING, ceil_div, ratio, share_size
from mlsim.techniques.rule_layout import LEFT, OWN, SIZE
from mlsim.techniques.technique_entry import MU, SIGMA, Given, Rule, TechniqueEntry, parameter_keys

FRACTION_WORDS = 4
STEP, ROUNDED, HEADER = 0, 1, 2
WORD = 32
MASK = (1 << WORD) - 1


@inner_kernel
def guided_recursive_size(remaining: int, p: int) -> int:
    """Return GSS's ⌈R/P⌉ (Polychronopoulos and Kuck 1987; Eleliemy 2021, Eq. 2.4)."""
    return ceil_div(remaining, p)


@kernel
def new_guide(fraction_words: int) -> Ints:
    """Return the memory for GSS's x_i, int64[2, 4 + fraction words], with which a step is one division.

    Row 0: the step of the value (-1: none yet), 1 if any step was rounded, then the value in base 2^32,
    most significant word first, two words before the point and ``fraction_words`` after it. Row 1: scratch.
    """
    guide: Ints = zeros((2, HEADER + 2 + fraction_words), np.int64)
    guide[0, STEP] = -1
    return guide


@inner_kernel
def _divide(guide: Ints, p: int, row: int) -> int:
    """Divide the value by P into a row, rounding down; return 1 if there is a remainder, else 0."""
    rest = 0
    for k in range(HEADER, guide.shape[1]):
        # rest < P < 2^31, so that the two words together stay below 2^63
        part = (rest << WORD) | guide[0, k]
        quotient = part // p
        guide[row, k] = quotient
        rest = part - quotient * p
    return 1 if rest != 0 else 0


@inner_kernel
def _reset(guide: Ints, n: int, p: int) -> None:
    """Set the value to x_0 = N/P."""
    guide[0, :] = 0
    guide[0, HEADER] = n >> WORD
    guide[0, HEADER + 1] = n & MASK
    guide[0, ROUNDED] = _divide(guide, p, 0)


@inner_kernel
def _step(guide: Ints, p: int) -> None:
    """Advance by one step: x − ⌈x/P⌉ in units of the last place."""
    borrow = _divide(guide, p, 1)
    guide[0, STEP] += 1
    guide[0, ROUNDED] |= borrow
    for k in range(guide.shape[1] - 1, HEADER - 1, -1):
        difference = guide[0, k] - guide[1, k] - borrow
        borrow = 1 if difference < 0 else 0
        guide[0, k] = difference + (borrow << WORD)


@inner_kernel
def _ceiling(guide: Ints, p: int) -> int:
    """Round the value up; -1 if the digits kept do not decide."""
    whole = int((guide[0, HEADER] << WORD) | guide[0, HEADER + 1])
    last = guide.shape[1] - 1
    if guide[0, ROUNDED] == 0:
        for k in range(HEADER + 2, last + 1):
            if guide[0, k] != 0:
                return whole + 1
        return whole
    carry = p + 1
    for k in range(last, HEADER + 1, -1):
        carry = (guide[0, k] + carry) >> WORD
    return whole + 1 if carry == 0 else -1


@inner_kernel
def _advance(guide: Ints, i: int, n: int, p: int) -> int:
    """Move the guide to step i and round its value up; -1 if its digits do not decide."""
    if guide[0, STEP] < 0 or i < guide[0, STEP]:
        _reset(guide, n, p)
    # Once below one, the value stays there and its ceiling is 1: no need for further steps.
    while guide[0, STEP] < i and (guide[0, HEADER] != 0 or guide[0, HEADER + 1] != 0):
        _step(guide, p)
    if guide[0, STEP] < i:
        return 1
    return _ceiling(guide, p)


@kernel
def guided_straightforward_size(guide: Ints, i: int, n: int, p: int) -> int:
    """Return GSS's exact ⌈N·(P−1)^i / P^(i+1)⌉ (Eleliemy 2021, Eq. 4.1).

    Any guide of this N and P leads to the same result; one at a step up to ``i`` is fastest.
    """
    size = _advance(guide, i, n, p)
    words = FRACTION_WORDS
    while size < 0:
        words *= 2
        size = _advance(new_guide(words), i, n, p)
    return size


_GSS = Rule(size=guided_recursive_size, size_by_step=guided_straightforward_size)
GSS = TechniqueEntry(
    code=4,
    name="GSS",
    title="guided self-scheduling",
    recursive="⌈R/P⌉",
    straightforward="⌈N·(P−1)^i / P^(i+1)⌉",
    reference="Polychronopoulos and Kuck 1987; Eleliemy 2021, Eq. 2.4, 4.1",
    options=parameter_keys("compat"),
    rule=_GSS,
    lb4mpi=_GSS,
    openmp="guided,1",
)


@inner_kernel
def _taper_size(k: float, v: float, most: int) -> int:
    """Return TAP's ⌈k + v²/2 − v·√(2k + v²/4)⌉, from 1 to ``most`` = N (Lucco 1992; Eleliemy 2021, Eq. 2.5).

    k is the chunk of GSS before rounding, v = α·σ/μ >= 0. In double precision; a value less than 1e-12·k
    above an integer counts as that integer.
    """
    if k <= v * v:  # where the formula is 0 or negative
        return 1
    value = k + v * v / 2.0 - v * math.sqrt(2.0 * k + v * v / 4.0)
    if not value < most:
        return most
    return max(math.ceil(value - ROUNDING * k), 1)


def _taper_values(given: Given) -> tuple[float, ...]:
    return (given.parameters.alpha * given.sigma / given.mu,)


@inner_kernel
def _taper_chunk(reals: Floats, remaining: int, n: int, p: int) -> int:
    return _taper_size(remaining / p, reals[0], n)


@inner_kernel
def _taper_chunk_by_step(reals: Floats, guide: Ints, i: int, n: int, p: int) -> int:
    """Size TAP's chunk with k = N·(P−1)^i / P^(i+1) from GSS's guide."""
    _advance(guide, i, n, p)
    if guide[0, STEP] < i:
        return 1  # k < 1
    value = 0.0
    for k in range(guide.shape[1] - 1, HEADER, -1):
        value = value / (1 << WORD) + guide[0, k]
    return _taper_size(value + guide[0, HEADER] * float(1 << WORD), reals[0], n)


TAP = TechniqueEntry(
    code=5,
    name="TAP",
    title="tapering",
    recursive="⌈k + v²/2 − v·√(2k + v²/4)⌉, k = R/P, v = α·σ/μ",
    straightforward="the same with k = N·(P−1)^i / P^(i+1)",
    reference="Lucco 1992; Eleliemy 2021, Eq. 2.5, 4.3",
    options=parameter_keys("sigma", "mu", "statistics", "alpha"),
    rule=Rule(size=_taper_chunk, size_by_step=_taper_chunk_by_step, needs=(SIGMA, MU), values=_taper_values),
)


def _static_share(given: Given) -> tuple[float, ...]:
    swr = given.parameters.swr
    return ratio(given.spread if isinstance(swr, str) else swr)


@inner_kernel
def _prepare_performance(rule: Ints, n: int, p: int, parameters: Floats) -> None:
    rule[SIZE] = share_size(n, p, int(parameters[OWN]), int(parameters[OWN + 1]))
    # P·K_0 may not fit in 64 bits
    rule[LEFT] = n - rule[SIZE] * p if rule[SIZE] <= n // p else 0


@inner_kernel
def _performance_chunk(rule: Ints, i: int, remaining: int, p: int) -> int:
    return int(rule[SIZE]) if i < p else guided_recursive_size(remaining, p)


@inner_kernel
def _performance_chunk_by_step(rule: Ints, guide: Ints, i: int, p: int) -> int:
    return int(rule[SIZE]) if i < p else guided_straightforward_size(guide, i - p, int(rule[LEFT]), p)


PLS = TechniqueEntry(
    code=14,
    name="PLS",
    title="performance-based loop scheduling",
    recursive="⌈N·swr/P⌉ for the first P chunks, then ⌈R/P⌉",
    straightforward="⌈N·swr/P⌉ for the first P chunks, then GSS with i − P and N − P·⌈N·swr/P⌉",
    reference="Shih, Yang and Tseng 2007; Eleliemy 2021, Eq. 2.13, 4.8",
    options=parameter_keys("swr"),
    rule=Rule(
        prepare=_prepare_performance,
        size=_performance_chunk,
        size_by_step=_performance_chunk_by_step,
        samples=True,
        values=_static_share,
    ),
)
