"""Techniques with fixed chunk sizes (STATIC, SS, FSC, mFSC) and with random ones (RND)."""

import math
from fractions import Fraction
from functools import cache

import numpy as np

from mlsim._jit import inner_kernel
from mlsim._runtime.arrays import Floats, Ints
from mlsim.techniques.rule_layout import KEY, OWN, SIZE, SLOPE
from mlsim.techniques.technique_entry import OVERHEAD, SIGMA, Given, Rule, TechniqueEntry, parameter_keys

ROUNDING = 1e-12
_DENOMINATOR = 10**9


@inner_kernel
def ceil_div(dividend: int, divisor: int) -> int:
    """Divide and round up (dividend >= 0, divisor >= 1) without intermediate values above the dividend."""
    quotient = dividend // divisor
    return quotient + 1 if quotient * divisor < dividend else quotient


@inner_kernel
def begin_of_part(begin: int, end: int, number: int, size: int) -> int:
    """Return the begin of part ``number`` of a range in parts of ``size``; ``end`` if it has fewer parts."""
    # number·size may not fit in 64 bits
    return begin + number * size if size > 0 and number <= (end - begin) // size else end


@inner_kernel
def round_up(value: float, most: int) -> int:
    """Round up, to at most ``most``; a value less than 1e-12 (relative) above an integer is that integer.

    Formulas with roots and logarithms in double precision may exceed an exact integer by a few units in the
    last place.
    """
    if not value < most:
        return most
    return math.ceil(value * (1.0 - ROUNDING))


@cache
def ratio(share: float) -> tuple[int, int]:
    """Return a share as the fraction of its decimal digits, so that 0.1 of 30 rounds up to 3, not to 4."""
    exact = Fraction(repr(float(share))).limit_denominator(_DENOMINATOR)
    return exact.numerator, exact.denominator


@inner_kernel
def share_size(n: int, p: int, numerator: int, denominator: int) -> int:
    """Return the exact ⌈N·numerator / (denominator·P)⌉; 0 <= numerator <= denominator <= 10^9."""
    quotient = n // denominator
    rest = n - quotient * denominator
    return ceil_div(quotient * numerator + ceil_div(rest * numerator, denominator), p)


@inner_kernel
def static_size(n: int, p: int) -> int:
    """Return STATIC's ⌈N/P⌉, one chunk per PE (Eleliemy 2021, Eq. 2.1)."""
    return ceil_div(n, p)


_COMPAT = parameter_keys("compat")
_STATIC = Rule(constant=True, size=static_size)
STATIC = TechniqueEntry(
    code=0,
    name="STATIC",
    title="static block scheduling",
    recursive="⌈N/P⌉; chunk j to PE j",
    straightforward="⌈N/P⌉; chunk j to PE j",
    reference="Li et al. 1993; Eleliemy 2021, Eq. 2.1",
    options=_COMPAT,
    rule=_STATIC,
    lb4mpi=_STATIC,
    openmp="static",
)


_SS = Rule(constant=True)
SS = TechniqueEntry(
    code=1,
    name="SS",
    title="self-scheduling",
    recursive="1",
    straightforward="1",
    reference="Tang and Yew 1986; Eleliemy 2021, Eq. 2.2",
    options=_COMPAT,
    rule=_SS,
    lb4mpi=_SS,
    openmp="dynamic,1",
)


CYCLIC = TechniqueEntry(
    code=23,
    name="CYCLIC",
    title="static cyclic scheduling",
    recursive="1, block-cyclic with `min_chunk` k: k; chunk j to PE j mod P",
    straightforward="the same",
    reference="Li et al. 1993; Eleliemy 2021, §2.1.2",
    notes="A PE requests once and executes its chunks without further requests, as under OpenMP's "
    "`schedule(static,k)`. `cca` and `dca`; inside a node `mpi+openmp`.",
    rule=_SS,
    aliases=("block-cyclic",),
    openmp="static,k",
)


@inner_kernel
def _fixed_size(n: int, p: int, reals: Floats) -> int:
    """⌈(√2·N·h / (σ·P·√(ln P)))^(2/3)⌉ (Kruskal and Weiss 1985); Eleliemy's Eq. 2.3 lacks the exponent."""
    if p == 1:
        return n  # ln P = 0
    sigma, overhead = reals[0], reals[1]
    base = math.sqrt(2.0) * n * overhead / (sigma * p * math.sqrt(math.log(p)))
    return round_up(base ** (2.0 / 3.0), n)


def _sigma_and_overhead(given: Given) -> tuple[float, ...]:
    return given.sigma, given.parameters.overhead or 0.0


_FSC = Rule(
    constant=True,
    size=_fixed_size,
    needs=(SIGMA._replace(positive=True), OVERHEAD),
    values=_sigma_and_overhead,
)
FSC = TechniqueEntry(
    code=2,
    name="FSC",
    title="fixed size chunking",
    recursive="⌈(√2·N·h / (σ·P·√(ln P)))^(2/3)⌉; N if P = 1",
    straightforward="the same",
    reference="Kruskal and Weiss 1985; Eleliemy 2021, Eq. 2.3, with the exponent that is missing there",
    options=parameter_keys("overhead", "sigma", "statistics", "compat"),
    rule=_FSC,
    lb4mpi=_FSC,
)


@inner_kernel
def _modified_size(n: int, p: int) -> int:
    """⌊0.55 + t·ln 2 / ln t⌋ with t = ⌈N/P⌉, which leads to about as many chunks as FAC2.

    The value before rounding down is never an integer: t / log₂ t + 0.55 is irrational unless t is a power
    of two, and is none then either.
    """
    t = ceil_div(n, p)
    return int(0.55 + t * math.log(2.0) / math.log(t)) if t > 1 else 1


_MFSC = Rule(constant=True, size=_modified_size)
MFSC = TechniqueEntry(
    code=3,
    name="mFSC",
    title="modified fixed size chunking",
    recursive="⌊0.55 + t·ln 2 / ln t⌋, t = ⌈N/P⌉; 1 if t = 1",
    straightforward="the same",
    reference="Banicescu, Ciorba and Srivastava 2013",
    options=_COMPAT,
    rule=_MFSC,
    lb4mpi=_MFSC,
)


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


@inner_kernel
def _mixed(state: int) -> int:
    """Mix the bits of a 64-bit number (SplitMix64; Steele, Lea and Flood 2014)."""
    z = np.uint64(state)
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return np.int64(z ^ (z >> np.uint64(31)))  # type: ignore[return-value]  # an int to kernels


@inner_kernel
def random_key(low: int, high: int) -> int:
    """Return the key of a loop's random numbers, from the lower 32 bits of the seed and the others."""
    return _mixed(_mixed(low + 1) ^ high)


@inner_kernel
def random_size(i: int, low: int, high: int, key: int) -> int:
    """Return RND's chunk, uniform in ``low`` … ``high`` (Ciorba, Iwainsky and Buder 2018).

    Both are shares of N/P, in Eleliemy 2021, Eq. 2.12, 1 and ⌈N/P⌉. The size is 63 random bits modulo the
    number of sizes, so probabilities differ by at most (high − low + 1) / 2^63. The generator is SplitMix64:
    its i-th number does not depend on those before it.
    """
    bits = np.uint64(_mixed(np.int64(np.uint64(key) + np.uint64(i + 1) * _GOLDEN)))  # type: ignore[arg-type]  # as above
    return int(np.int64(bits >> np.uint64(1))) % (high - low + 1) + low


# Indices of RND's own values in ``parameters``.
_LOW, _HIGH, _SEED_LOW, _SEED_HIGH = OWN, OWN + 2, OWN + 4, OWN + 5
_SEED_BITS = 32


def _random_values(given: Given) -> tuple[float, ...]:
    """Return the bounds as ratios, the lower 32 bits of the seed, and its upper bits."""
    low, high = ratio(given.parameters.random_from), ratio(given.parameters.random_to)
    return (*low, *high, given.seed % (1 << _SEED_BITS), given.seed >> _SEED_BITS)


@inner_kernel
def _prepare_random(rule: Ints, n: int, p: int, parameters: Floats) -> None:
    rule[KEY] = random_key(int(parameters[_SEED_LOW]), int(parameters[_SEED_HIGH]))
    low = share_size(n, p, int(parameters[_LOW]), int(parameters[_LOW + 1]))
    high = share_size(n, p, int(parameters[_HIGH]), int(parameters[_HIGH + 1]))
    rule[SIZE] = max(low, 1)
    rule[SLOPE] = max(high, 1)


@inner_kernel
def _random_chunk(rule: Ints, i: int) -> int:
    return random_size(i, rule[SIZE], rule[SLOPE], rule[KEY])


RND = TechniqueEntry(
    code=13,
    name="RND",
    title="random",
    recursive="uniform in ⌈N·random_from/P⌉ ≥ 1 … ⌈N·random_to/P⌉, by the seed and i alone",
    straightforward="the same",
    reference="Ciorba, Iwainsky and Buder 2018; Eleliemy 2021, Eq. 2.12",
    options=("seed", *parameter_keys("random_from", "random_to")),
    rule=Rule(prepare=_prepare_random, size=_random_chunk, size_by_step=_random_chunk, values=_random_values),
)
