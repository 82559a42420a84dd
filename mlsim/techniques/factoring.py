"""Factoring (FAC, FAC2, WF), with learned weights (AWF, AWF-B to AWF-E), and adaptive (AF, mAF)."""

import math
from dataclasses import replace

from mlsim._jit import inner_kernel
from mlsim._runtime.arrays import Floats, Ints
from mlsim.techniques import lb4mpi
from mlsim.techniques import pe_statistics as stats
from mlsim.techniques.fixed import ceil_div, ratio, round_up, share_size
from mlsim.techniques.rule_layout import BATCH, LEFT, OWN, PREVIOUS, SIZE
from mlsim.techniques.technique_entry import MU, SIGMA, Given, Rule, TechniqueEntry, parameter_keys

_BITS = 62
_NOISE = 1e-9


@inner_kernel
def factoring_size(batch: int, remaining: int, p: int, variation: float) -> int:
    """Return FAC's ⌈R/(x·P)⌉, the chunk size of a batch (from 0) with R >= 1 iterations left at its start.

    With b = P·σ/(2μ√R): x = 1 + b² + b√(b²+2) in the first batch, 2 + b² + b√(b²+4) in later ones
    (Hummel, Schonberg and Flynn 1992). ``variation`` is σ/μ. In double precision, see :func:`round_up`.
    """
    b = p * variation / (2.0 * math.sqrt(remaining))
    least, inner = (1.0, 2.0) if batch == 0 else (2.0, 4.0)
    x = least + b * b + b * math.sqrt(b * b + inner)
    return max(round_up(remaining / (x * p), remaining), 1)


def _variation(given: Given) -> tuple[float, ...]:
    return (given.sigma / given.mu,)


@inner_kernel
def _factoring_chunk(rule: Ints, reals: Floats, i: int, remaining: int, p: int) -> int:
    if i % p == 0:
        rule[PREVIOUS] = factoring_size(i // p, remaining, p, reals[0])
    return int(rule[PREVIOUS])


@inner_kernel
def _factoring_chunk_by_step(rule: Ints, reals: Floats, i: int, n: int, p: int) -> int:
    """Return FAC's chunk by the step alone: R_0 = N, R_{b+1} = R_b − P·K_b; 1 if nothing is left."""
    batch = i // p + 1
    if rule[BATCH] == 0 or batch < rule[BATCH]:
        rule[BATCH] = 1
        rule[LEFT] = n
        rule[PREVIOUS] = factoring_size(0, max(rule[LEFT], 1), p, reals[0])
    while rule[BATCH] < batch and rule[LEFT] > 0:
        # P·K_b may not fit in 64 bits
        size = rule[PREVIOUS]
        rule[LEFT] = rule[LEFT] - p * size if size <= rule[LEFT] // p else 0
        rule[BATCH] += 1
        rule[PREVIOUS] = 1
        if rule[LEFT] > 0:
            rule[PREVIOUS] = factoring_size(rule[BATCH] - 1, rule[LEFT], p, reals[0])
    return int(rule[PREVIOUS])


FAC = TechniqueEntry(
    code=7,
    name="FAC",
    title="factoring, mFAC likewise",
    recursive="⌈R/(x·P)⌉ at the start of a batch, then the same again P−1 times; B = P·σ/(2μ√R), "
    "x = 1 + B² + B·√(B²+2) in the first batch, then 2 + B² + B·√(B²+4)",
    straightforward="the same, R by following the batches from N",
    reference="Hummel, Schonberg and Flynn 1992; Eleliemy 2021, §2.1",
    options=parameter_keys("sigma", "mu", "statistics", "compat"),
    aliases=("mFAC",),  # FAC where PEs follow its batches by a counter
    rule=Rule(
        size=_factoring_chunk, size_by_step=_factoring_chunk_by_step, needs=(SIGMA, MU), values=_variation
    ),
    lb4mpi=lb4mpi.FAC2_RULE,
)


@inner_kernel
def factoring_straightforward_size(i: int, n: int, p: int) -> int:
    """Return FAC2's chunk by the step alone: ⌈N/(P·2^(b+1))⌉, b = ⌊i/P⌋ (Eleliemy 2021, Eq. 4.2)."""
    halvings = i // p + 1
    if halvings > _BITS:
        return 1
    # ⌈N/(P·2^h)⌉ = ⌈⌈N/2^h⌉/P⌉, which needs no product that could overflow
    return ceil_div(ceil_div(n, 1 << halvings), p)


@inner_kernel
def _halving_chunk(rule: Ints, i: int, remaining: int, p: int) -> int:
    """Return FAC2's ⌈R/2P⌉ at the start of a batch, else the previous size.

    Rounded up: rounded down as printed in Eleliemy 2021, Eq. 2.7, R < 2P would give chunks of no iterations.
    """
    if i % p == 0:
        rule[PREVIOUS] = ceil_div(remaining, 2 * p)
    return int(rule[PREVIOUS])


FAC2 = TechniqueEntry(
    code=8,
    name="FAC2",
    title="factoring by halves",
    recursive="⌈R/2P⌉ at the start of a batch, then the same again P−1 times",
    straightforward="⌈N / (P·2^(b+1))⌉",
    reference="Hummel, Schonberg and Flynn 1992; Eleliemy 2021, Eq. 2.7, 4.2",
    options=parameter_keys("compat"),
    rule=Rule(size=_halving_chunk, size_by_step=factoring_straightforward_size),
    lb4mpi=lb4mpi.FAC2_RULE,
)


@inner_kernel
def weighted_size(size: int, weight: float, n: int) -> int:
    """WF: ⌈w·K⌉, K the chunk of FAC2, at most N (Hummel, Schmidt, Uma and Wein 1996; Eleliemy 2021, Eq. 2.8).

    A value less than 1e-9 (relative) above an integer counts as that integer, as scaled or measured weights
    carry rounding errors. From 10^9 on this rounds every value down, by less than an iteration.
    """
    if weight == 1.0:  # exact even for sizes that a double does not hold
        return min(size, n)
    value = size * weight
    if value * _NOISE >= 1.0:
        return int(value) if value < n else n
    return math.ceil(value * (1.0 - _NOISE)) if value < n else n


@inner_kernel
def _weighted_chunk(rule: Ints, weights: Floats, i: int, remaining: int, pe: int, n: int, p: int) -> int:
    return weighted_size(_halving_chunk(rule, i, remaining, p), float(weights[pe]), n)


@inner_kernel
def _weighted_chunk_by_step(weights: Floats, i: int, pe: int, n: int, p: int) -> int:
    return weighted_size(factoring_straightforward_size(i, n, p), weights[pe], n)


_WF = Rule(size=_weighted_chunk, size_by_step=_weighted_chunk_by_step)
WF = TechniqueEntry(
    code=9,
    name="WF",
    title="weighted factoring, WF2 likewise",
    recursive="⌈w_p·K⌉, K FAC2's chunk, w_p the weight of the PE, Σ w = P",
    straightforward="the same with FAC2's form",
    reference="Hummel, Schmidt, Uma and Wein 1996; Eleliemy 2021, Eq. 2.8",
    options=parameter_keys("weights", "compat"),
    aliases=("WF2",),  # WF as it is built on FAC2
    rule=_WF,
    lb4mpi=lb4mpi.WEIGHTED_RULE,
)

_LEARNED = "weights that each PE's measured times give, w_p = P·r_p / Σ r, r = (Σ k·n_k) / (Σ k·t_k)"
AWF = TechniqueEntry(
    code=15,
    name="AWF",
    title="adaptive weighted factoring",
    recursive=f"WF, with {_LEARNED}, n_k iterations in t_k s, in time step k",
    straightforward="WF's, with the weights of the time step",
    reference="Banicescu, Velusamy and Devaprasad 2003; Eleliemy 2021, §2.1",
    options=(*parameter_keys("weights", "compat"), "application.time_steps"),
    rule=_WF,
    lb4mpi=lb4mpi.WEIGHTED_RULE,
)


@inner_kernel
def learned_weight(measured: Floats, sums: Floats, weights: Floats, pe: int) -> float:
    """Return the weight of a PE from all chunks measured so far (AWF-C, AWF-E)."""
    if measured[stats.SECONDS, pe] == 0.0:
        return float(weights[pe])
    return float(
        sums[1, 0] * (measured[stats.ITERATIONS, pe] / measured[stats.SECONDS, pe]) / sums[stats.RATE, 1]
    )


@inner_kernel
def _chunk_by_batch_weights(
    rule: Ints,
    weights: Floats,
    measured: Floats,
    sums: Floats,
    i: int,
    remaining: int,
    pe: int,
    n: int,
    p: int,
) -> int:
    """Weigh FAC2's chunk by the weights measured until the start of the batch."""
    size = _halving_chunk(rule, i, remaining, p)
    if i % p == 0:
        for each in range(len(weights)):
            weights[each] = learned_weight(measured, sums, weights, each)
    return weighted_size(size, float(weights[pe]), n)


def _of_batch(given: Given) -> tuple[float, ...]:
    return (given.parameters.awf_chunk == "batch",)


@inner_kernel
def _chunk_by_latest_weights(
    rule: Ints,
    reals: Floats,
    weights: Floats,
    measured: Floats,
    sums: Floats,
    i: int,
    remaining: int,
    pe: int,
    n: int,
    p: int,
) -> int:
    """Weigh ⌈R/2P⌉, as LB4MPI and LB4OMP do without batches, or FAC2's chunk, by the latest weights."""
    by_rest = reals[0] == 0.0
    size = ceil_div(remaining, 2 * p) if by_rest else _halving_chunk(rule, i, remaining, p)
    return weighted_size(size, learned_weight(measured, sums, weights, pe), n)


_BY_BATCH = Rule(size=_chunk_by_batch_weights, learn=stats.learn_chunk, learn_measured=stats.learn_chunk)
_BY_CHUNK = Rule(
    size=_chunk_by_latest_weights, learn=stats.learn_chunk, learn_measured=stats.learn_chunk, values=_of_batch
)
_REFERENCE = "Cariño and Banicescu 2008; Eleliemy 2021, §2.1"
_OPTIONS = parameter_keys("weights", "compat")
AWF_B = TechniqueEntry(
    code=16,
    name="AWF-B",
    title="AWF by batches",
    recursive=f"WF, with {_LEARNED}, in its chunk k; taken over at the start of a batch",
    reference=_REFERENCE,
    options=_OPTIONS,
    rule=_BY_BATCH,
    lb4mpi=lb4mpi.BATCH_RULE,
)
AWF_C = TechniqueEntry(
    code=17,
    name="AWF-C",
    title="AWF by chunks",
    recursive="⌈w_p·⌈R/2P⌉⌉ at every request, w_p as AWF-B's; with awf_chunk: batch ⌈w_p·K⌉, K FAC2's chunk",
    reference=_REFERENCE,
    options=(*_OPTIONS, *parameter_keys("awf_chunk")),
    rule=_BY_CHUNK,
    lb4mpi=lb4mpi.CHUNK_RULE,
)
AWF_D = TechniqueEntry(
    code=18,
    name="AWF-D",
    title="AWF by batches, with overhead",
    recursive="AWF-B, t_k from asking for the chunk to its end",
    reference=_REFERENCE,
    options=_OPTIONS,
    rule=replace(_BY_BATCH, counts_overhead=True),
    lb4mpi=lb4mpi.BATCH_BREAKS_RULE,
)
AWF_E = TechniqueEntry(
    code=19,
    name="AWF-E",
    title="AWF by chunks, with overhead",
    recursive="AWF-C, t_k from asking for the chunk to its end",
    reference=_REFERENCE,
    options=(*_OPTIONS, *parameter_keys("awf_chunk")),
    rule=replace(_BY_CHUNK, counts_overhead=True),
    lb4mpi=lb4mpi.CHUNK_BREAKS_RULE,
)


# AF: with μ_q and σ_q² the mean and the variance of the iteration times of PE q, D = Σ σ_q²/μ_q and
# E = (Σ 1/μ_q)^−1 over the PEs that have statistics, the chunk of PE p is
# (D + 2·E·R − √(D² + 4·D·E·R)) / (2·μ_p), rounded down, at least one iteration.


def _first_share(given: Given) -> tuple[float, ...]:
    return ratio(given.parameters.first_chunk)


@inner_kernel
def _prepare_adaptive(rule: Ints, n: int, p: int, parameters: Floats) -> None:
    rule[SIZE] = share_size(n, p, int(parameters[OWN]), int(parameters[OWN + 1]))


@inner_kernel
def _adaptive_chunk(
    rule: Ints, measured: Floats, sums: Floats, pe: int, remaining: int, n: int, p: int
) -> int:
    """Return AF's chunk for one PE (Eleliemy 2021, Eq. 2.14)."""
    size = int(rule[SIZE])  # for a PE without measured time
    if measured[stats.MEAN, pe] > 0.0:
        d = sums[stats.RISK, 1]
        work = remaining / sums[stats.RATE, 1]
        # The printed difference cancels where D >> E·R, so it is expanded by its conjugate:
        share = 2.0 * work * work / (d + 2.0 * work + math.sqrt(d * d + 4.0 * d * work))
        # The rounding of the statistics must not cost an iteration.
        size = int(min(share / measured[stats.MEAN, pe] * (1.0 + _NOISE), float(remaining)))
    if sums[0, 0] < p:
        # D and E do not cover all PEs yet, so that no chunk may be large.
        size = min(size, ceil_div(n, 2 * p))
    return size


_ADAPTIVE = Rule(
    prepare=_prepare_adaptive,
    size=_adaptive_chunk,
    learn=stats.learn_costs,
    learn_measured=stats.learn_pieces,
    times_iterations=True,
    values=_first_share,
)
_MEASURES = parameter_keys("first_chunk", "pieces")
AF = TechniqueEntry(
    code=20,
    name="AF",
    title="adaptive factoring",
    recursive="⌊(D + 2·E·R − √(D² + 4·D·E·R)) / (2·μ_p)⌋, D = Σ σ²/μ, E = 1/Σ(1/μ), measured per PE; "
    "until a PE has statistics ⌈first_chunk·N/P⌉, until all have at most ⌈N/2P⌉",
    reference="Banicescu and Liu 2000; Eleliemy 2021, Eq. 2.14",
    options=(*parameter_keys("compat"), *_MEASURES),
    rule=_ADAPTIVE,
    lb4mpi=lb4mpi.AF_RULE,
)
MAF = TechniqueEntry(
    code=21,
    name="mAF",
    title="adaptive factoring, with overhead",
    recursive="AF, with times from the request for a chunk to its end; the wait is shared equally by its "
    "iterations",
    reference="Korndörfer et al. 2022 (LB4OMP)",
    options=_MEASURES,
    rule=replace(_ADAPTIVE, counts_overhead=True),
)
