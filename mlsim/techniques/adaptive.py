"""Adaptive factoring (AF, mAF): chunk sizes from the iteration times measured on each PE.

With μ_q and σ_q² the mean and the variance of the iteration times of PE q, D = Σ σ_q²/μ_q and
E = (Σ 1/μ_q)^−1, the chunk of PE p is (D + 2·E·R − √(D² + 4·D·E·R)) / (2·μ_p), rounded down, at least
one iteration (Banicescu and Liu 2000; Eleliemy 2021, Eq. 2.14). The sums run over the PEs that have
statistics.
"""

import math
from dataclasses import replace

from mlsim._jit import inner_kernel
from mlsim._runtime.arrays import Floats, Ints
from mlsim.techniques.fixed import ceil_div, share_size
from mlsim.techniques.lb4mpi import AF_RULE
from mlsim.techniques.pe_statistics import MEAN, RATE, RISK, learn_costs, learn_pieces
from mlsim.techniques.technique_entry import OWN, SIZE, Given, Rule, TechniqueEntry, parameter_keys, ratio

ROUNDING = 1e-9


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
    if measured[MEAN, pe] > 0.0:
        d = sums[RISK, 1]
        work = remaining / sums[RATE, 1]
        # The printed difference cancels where D >> E·R, so it is expanded by its conjugate:
        share = 2.0 * work * work / (d + 2.0 * work + math.sqrt(d * d + 4.0 * d * work))
        # The rounding of the statistics must not cost an iteration.
        size = int(min(share / measured[MEAN, pe] * (1.0 + ROUNDING), float(remaining)))
    if sums[0, 0] < p:
        # D and E do not cover all PEs yet, so that no chunk may be large.
        size = min(size, ceil_div(n, 2 * p))
    return size


_RULE = Rule(
    prepare=_prepare_adaptive,
    size=_adaptive_chunk,
    learn=learn_costs,
    learn_measured=learn_pieces,
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
    rule=_RULE,
    lb4mpi=AF_RULE,
)
MAF = TechniqueEntry(
    code=21,
    name="mAF",
    title="adaptive factoring, with overhead",
    recursive="AF, with times from the request for a chunk to its end; the wait is shared equally by its "
    "iterations",
    reference="Korndörfer et al. 2022 (LB4OMP)",
    options=_MEASURES,
    rule=replace(_RULE, counts_overhead=True),
)
