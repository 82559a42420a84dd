"""Techniques with linearly shrinking or growing chunks: TSS, TFSS, FISS and VISS."""

from mlsim._jit import inner_kernel, kernel
from mlsim._runtime.arrays import Floats, Ints
from mlsim.techniques.factoring import factoring_straightforward_size
from mlsim.techniques.fixed import ceil_div
from mlsim.techniques.lb4mpi import library_slope
from mlsim.techniques.rule_layout import OF_LB4MPI, OWN, SIZE, SLOPE
from mlsim.techniques.technique_entry import Given, Rule, TechniqueEntry, parameter_keys


@inner_kernel
def trapezoid_size(i: int, first: int, slope: int) -> int:
    """Return TSS's K_0 − i·C, 0 if that is negative (Tzen and Ni 1993; Eleliemy 2021, Eq. 2.6, 4.4)."""
    if slope > 0 and i > first // slope:
        return 0
    return first - i * slope


@inner_kernel
def _prepare_trapezoid(rule: Ints, n: int, p: int, parameters: Floats) -> None:
    """K_0 = ⌈N/2P⌉, and C = ⌊(K_0 − 1)/(S − 1)⌋ with S = ⌈2N/(K_0 + 1)⌉ steps (Tzen and Ni 1993)."""
    first = ceil_div(n, 2 * p)
    # 2N may not fit in 64 bits: double quotient and remainder instead.
    quotient = n // (first + 1)
    steps = 2 * quotient + ceil_div(2 * (n - quotient * (first + 1)), first + 1)
    rule[SIZE] = first
    rule[SLOPE] = (first - 1) // (steps - 1) if steps > 1 else 0
    if parameters[OF_LB4MPI] != 0.0:
        rule[SLOPE] = library_slope(n, first)


@inner_kernel
def _trapezoid_chunk(rule: Ints, i: int) -> int:
    return trapezoid_size(i, rule[SIZE], rule[SLOPE])


_TSS = Rule(prepare=_prepare_trapezoid, size=_trapezoid_chunk, size_by_step=_trapezoid_chunk)
TSS = TechniqueEntry(
    code=6,
    name="TSS",
    title="trapezoid self-scheduling",
    recursive="K0 − i·C, K0 = ⌈N/2P⌉, S = ⌈2N/(K0+1)⌉, C = ⌊(K0−1)/(S−1)⌋",
    straightforward="the same",
    reference="Tzen and Ni 1993; Eleliemy 2021, Eq. 2.6, 4.4",
    options=parameter_keys("compat"),
    rule=_TSS,
    lb4mpi=_TSS,
)


@inner_kernel
def _trapezoid_factoring_chunk(rule: Ints, i: int, p: int) -> int:
    """Return the mean of the P chunks of TSS from step b·P on, rounded down; b = ⌊i/P⌋.

    K_0 − b·P·C − C·(P−1)/2 in closed form, negative once TSS's chunks are (Chronopoulos et al. 2001;
    Eleliemy 2021, Eq. 2.9; with the index of Eq. 4.5 counted from b·P).
    """
    slope = rule[SLOPE]
    return trapezoid_size(i // p * p, rule[SIZE], slope) - ceil_div(slope * (p - 1), 2)


TFSS = TechniqueEntry(
    code=10,
    name="TFSS",
    title="trapezoid factoring self-scheduling",
    recursive="⌊mean of TSS's chunks b·P to b·P + P − 1⌋",
    straightforward="the same",
    reference="Chronopoulos et al. 2001; Eleliemy 2021, Eq. 2.9, 4.5",
    rule=Rule(
        prepare=_prepare_trapezoid, size=_trapezoid_factoring_chunk, size_by_step=_trapezoid_factoring_chunk
    ),
)

_LARGE = 1 << 60
_BITS = 62


@kernel
def default_batches(n: int, p: int) -> int:
    """Count the batches of FAC2's straightforward form, including a partial last one; at least 2."""
    batches, left = 0, n
    while left > 0:
        size = factoring_straightforward_size(batches * p, n, p)
        # P·size may not fit in 64 bits
        left = left - p * size if size <= left // p else 0
        batches += 1
    return max(batches, 2)


def _batches(given: Given) -> tuple[float, ...]:
    """Return B (0: FAC2's number of batches), and whether VISS grows geometrically."""
    parameters = given.parameters
    return parameters.batches or 0, parameters.growth == "geometric"


@inner_kernel
def _batch_count(n: int, p: int, parameters: Floats) -> int:
    batches = int(parameters[OWN])
    return default_batches(n, p) if batches == 0 else batches


@inner_kernel
def _first_increase(n: int, p: int, batches: int) -> int:
    return n // (2 + batches) // p


@inner_kernel
def _prepare_fixed_increase(rule: Ints, n: int, p: int, parameters: Floats) -> None:
    """K_0 = ⌊N/((2+B)·P)⌋, and the growth per batch, C = ⌈2N·(1 − B/(2+B)) / (P·B·(B−1))⌉.

    C is 2N / ((2+B)·P·B·(B−1)/2) rounded up; all factors are integers, so each division may round up.
    """
    batches = _batch_count(n, p, parameters)
    pairs = batches * (batches - 1) // 2
    quotient = n // pairs
    doubled = 2 * quotient + ceil_div(2 * (n - quotient * pairs), pairs)
    rule[SIZE] = _first_increase(n, p, batches)
    rule[SLOPE] = ceil_div(ceil_div(doubled, 2 + batches), p)


@inner_kernel
def _fixed_increase_chunk(rule: Ints, i: int, n: int, p: int) -> int:
    """Return K_0 + b·C of batch b = ⌊i/P⌋, at most N; with this index, B batches sum up to N."""
    batch, first, increase = i // p, int(rule[SIZE]), int(rule[SLOPE])
    if increase > 0 and batch > (n - first) // increase:
        return n
    return first + batch * increase


FISS = TechniqueEntry(
    code=11,
    name="FISS",
    title="fixed increase self-scheduling",
    recursive="⌊N/((2+B)·P)⌋ + b·⌈2N·(1 − B/(2+B)) / (P·B·(B−1))⌉, B batches",
    straightforward="the same",
    reference="Philip and Das 1997; Eleliemy 2021, Eq. 2.10, 4.6",
    options=parameter_keys("batches"),
    rule=Rule(
        prepare=_prepare_fixed_increase,
        size=_fixed_increase_chunk,
        size_by_step=_fixed_increase_chunk,
        values=_batches,
    ),
)


@inner_kernel
def _shifted(value: int, halvings: int) -> int:
    return value >> halvings if halvings >= 0 else value << -halvings


@inner_kernel
def geometric_increase_size(i: int, n: int, p: int, first: int) -> int:
    """Return VISS's chunk with ``growth: geometric``, ⌊K_0·1.5^b⌋, at most N (Eleliemy 2021, Eq. 2.11).

    Exact while K_0·3^b is below 2^62, then accurate to 60 bits.
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


@inner_kernel
def _prepare_variable_increase(rule: Ints, n: int, p: int, parameters: Floats) -> None:
    rule[SIZE] = max(_first_increase(n, p, _batch_count(n, p, parameters)), 1)


@inner_kernel
def _variable_increase_chunk(rule: Ints, reals: Floats, i: int, n: int, p: int) -> int:
    """Return ⌊K_0·(1 − 0.5^(b+1))/0.5⌋ = 2·K_0 − ⌈K_0/2^b⌉, b = ⌊i/P⌋, K_0 >= 1; or grow geometrically.

    Philip and Das 1997; the derivation of Eleliemy 2021, Eq. 4.7, whose exponent as printed, i mod P,
    would fall back to K_0 with every batch.
    """
    first = int(rule[SIZE])
    if reals[1] != 0.0:
        return geometric_increase_size(i, n, p, first)
    batch = i // p
    return 2 * first - (ceil_div(first, 1 << batch) if batch < _BITS else 1)


VISS = TechniqueEntry(
    code=12,
    name="VISS",
    title="variable increase self-scheduling",
    recursive="⌊K0·(1 − 0.5^(b+1))/0.5⌋, K0 = ⌊N/((2+B)·P)⌋ ≥ 1; ⌊K0·1.5^b⌋ with growth: geometric",
    straightforward="the same",
    reference="Philip and Das 1997; Eleliemy 2021, Eq. 4.7 (derivation), 2.11 (geometric)",
    options=parameter_keys("batches", "growth"),
    rule=Rule(
        prepare=_prepare_variable_increase,
        size=_variable_increase_chunk,
        size_by_step=_variable_increase_chunk,
        values=_batches,
    ),
)
