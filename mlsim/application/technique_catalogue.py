"""Techniques, execution models and cost profiles, in plain strings."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class TechniqueEntry:
    """One technique: how it is called and how it sizes chunks."""

    code: int
    """Number of the technique in the kernels."""
    name: str
    """The word in a scenario file (upper and lower case are the same there)."""
    title: str
    """Full name."""
    recursive: str
    """Chunk size from what is left, as CCA computes it. N iterations, P PEs, R remaining, i the scheduling
    step from 0, b = ⌊i/P⌋ the batch. Every chunk is finally min(max(K, min_chunk), R).
    """
    straightforward: str
    """Chunk size from i alone, as DCA computes it; empty where there is no such form."""
    reference: str
    """Where it comes from."""
    options: tuple[str, ...] = ()
    """Keys of a scenario file that the technique reads besides ``application.min_chunk``."""
    constant: bool = False
    """Whether all chunks of a loop have one size."""
    adaptive: bool = False
    """Whether it learns within a loop from measured times."""
    counts_overhead: bool = False
    """Whether what it learns from includes the time from the request for a chunk to its start."""


_PARAMETERS = "application.parameters."
_STATISTICS = (_PARAMETERS + "sigma", _PARAMETERS + "mu", _PARAMETERS + "statistics")
_WEIGHTS = (_PARAMETERS + "weights",)
_COMPAT = (_PARAMETERS + "compat",)
_MEASURES = (_PARAMETERS + "first_chunk", _PARAMETERS + "pieces")
_LEARNED = "weights that each PE's measured times give, w_p = P·r_p / Σ r, r = (Σ k·n_k) / (Σ k·t_k)"

_ENTRIES = (
    TechniqueEntry(
        0,
        "STATIC",
        "static block scheduling",
        "⌈N/P⌉; chunk j to PE j",
        "⌈N/P⌉; chunk j to PE j",
        options=_COMPAT,
        reference="Li et al. 1993; Eleliemy 2021, Eq. 2.1",
        constant=True,
    ),
    TechniqueEntry(
        1,
        "SS",
        "self-scheduling",
        "1",
        "1",
        options=_COMPAT,
        reference="Tang and Yew 1986; Eleliemy 2021, Eq. 2.2",
        constant=True,
    ),
    TechniqueEntry(
        2,
        "FSC",
        "fixed size chunking",
        "⌈(√2·N·h / (σ·P·√(ln P)))^(2/3)⌉; N if P = 1",
        "the same",
        options=(
            _PARAMETERS + "overhead",
            _PARAMETERS + "sigma",
            _PARAMETERS + "statistics",
            *_COMPAT,
        ),
        reference="Kruskal and Weiss 1985; Eleliemy 2021, Eq. 2.3, with the exponent that is missing there",
        constant=True,
    ),
    TechniqueEntry(
        3,
        "mFSC",
        "modified fixed size chunking",
        "⌊0.55 + t·ln 2 / ln t⌋, t = ⌈N/P⌉; 1 if t = 1",
        "the same",
        options=_COMPAT,
        reference="Banicescu, Ciorba and Srivastava 2013",
        constant=True,
    ),
    TechniqueEntry(
        4,
        "GSS",
        "guided self-scheduling",
        "⌈R/P⌉",
        "⌈N·(P−1)^i / P^(i+1)⌉",
        options=_COMPAT,
        reference="Polychronopoulos and Kuck 1987; Eleliemy 2021, Eq. 2.4, 4.1",
    ),
    TechniqueEntry(
        5,
        "TAP",
        "tapering",
        "⌈k + v²/2 − v·√(2k + v²/4)⌉, k = R/P, v = α·σ/μ",
        "the same with k = N·(P−1)^i / P^(i+1)",
        options=(*_STATISTICS, _PARAMETERS + "alpha"),
        reference="Lucco 1992; Eleliemy 2021, Eq. 2.5, 4.3",
    ),
    TechniqueEntry(
        6,
        "TSS",
        "trapezoid self-scheduling",
        "K0 − i·C, K0 = ⌈N/2P⌉, S = ⌈2N/(K0+1)⌉, C = ⌊(K0−1)/(S−1)⌋",
        "the same",
        options=_COMPAT,
        reference="Tzen and Ni 1993; Eleliemy 2021, Eq. 2.6, 4.4",
    ),
    TechniqueEntry(
        7,
        "FAC",
        "factoring, mFAC likewise",
        "⌈R/(x·P)⌉ at the start of a batch, then the same again P−1 times; B = P·σ/(2μ√R), "
        "x = 1 + B² + B·√(B²+2) in the first batch, then 2 + B² + B·√(B²+4)",
        "the same, R by following the batches from N",
        options=(*_STATISTICS, *_COMPAT),
        reference="Hummel, Schonberg and Flynn 1992; Eleliemy 2021, §2.1",
    ),
    TechniqueEntry(
        8,
        "FAC2",
        "factoring by halves",
        "⌈R/2P⌉ at the start of a batch, then the same again P−1 times",
        "⌈N / (P·2^(b+1))⌉",
        options=_COMPAT,
        reference="Hummel, Schonberg and Flynn 1992; Eleliemy 2021, Eq. 2.7, 4.2",
    ),
    TechniqueEntry(
        9,
        "WF",
        "weighted factoring, WF2 likewise",
        "⌈w_p·K⌉, K FAC2's chunk, w_p the weight of the PE, Σ w = P",
        "the same with FAC2's form",
        options=(*_WEIGHTS, *_COMPAT),
        reference="Hummel, Schmidt, Uma and Wein 1996; Eleliemy 2021, Eq. 2.8",
    ),
    TechniqueEntry(
        10,
        "TFSS",
        "trapezoid factoring self-scheduling",
        "⌊mean of TSS's chunks b·P to b·P + P − 1⌋",
        "the same",
        reference="Chronopoulos et al. 2001; Eleliemy 2021, Eq. 2.9, 4.5",
    ),
    TechniqueEntry(
        11,
        "FISS",
        "fixed increase self-scheduling",
        "⌊N/((2+B)·P)⌋ + b·⌈2N·(1 − B/(2+B)) / (P·B·(B−1))⌉, B batches",
        "the same",
        options=(_PARAMETERS + "batches",),
        reference="Philip and Das 1997; Eleliemy 2021, Eq. 2.10, 4.6",
    ),
    TechniqueEntry(
        12,
        "VISS",
        "variable increase self-scheduling",
        "⌊K0·(1 − 0.5^(b+1))/0.5⌋, K0 = ⌊N/((2+B)·P)⌋ ≥ 1; ⌊K0·1.5^b⌋ with growth: geometric",
        "the same",
        options=(_PARAMETERS + "batches", _PARAMETERS + "growth"),
        reference="Philip and Das 1997; Eleliemy 2021, Eq. 4.7 (derivation), 2.11 (geometric)",
    ),
    TechniqueEntry(
        13,
        "RND",
        "random",
        "uniform in ⌈N·random_from/P⌉ ≥ 1 … ⌈N·random_to/P⌉, by the seed and i alone",
        "the same",
        options=("seed", _PARAMETERS + "random_from", _PARAMETERS + "random_to"),
        reference="Ciorba, Iwainsky and Buder 2018; Eleliemy 2021, Eq. 2.12",
    ),
    TechniqueEntry(
        14,
        "PLS",
        "performance-based loop scheduling",
        "⌈N·swr/P⌉ for the first P chunks, then ⌈R/P⌉",
        "⌈N·swr/P⌉ for the first P chunks, then GSS with i − P and N − P·⌈N·swr/P⌉",
        options=(_PARAMETERS + "swr",),
        reference="Shih, Yang and Tseng 2007; Eleliemy 2021, Eq. 2.13, 4.8",
    ),
    TechniqueEntry(
        15,
        "AWF",
        "adaptive weighted factoring",
        f"WF, with {_LEARNED}, n_k iterations in t_k s, in time step k",
        "WF's, with the weights of the time step",
        options=(*_WEIGHTS, *_COMPAT, "application.time_steps"),
        reference="Banicescu, Velusamy and Devaprasad 2003; Eleliemy 2021, §2.1",
    ),
    TechniqueEntry(
        16,
        "AWF-B",
        "AWF by batches",
        f"WF, with {_LEARNED}, in its chunk k; taken over at the start of a batch",
        "",
        options=(*_WEIGHTS, *_COMPAT),
        reference="Cariño and Banicescu 2008; Eleliemy 2021, §2.1",
        adaptive=True,
    ),
    TechniqueEntry(
        17,
        "AWF-C",
        "AWF by chunks",
        "⌈w_p·⌈R/2P⌉⌉ at every request, w_p as AWF-B's; with awf_chunk: batch ⌈w_p·K⌉, K FAC2's chunk",
        "",
        options=(*_WEIGHTS, *_COMPAT, _PARAMETERS + "awf_chunk"),
        reference="Cariño and Banicescu 2008; Eleliemy 2021, §2.1",
        adaptive=True,
    ),
    TechniqueEntry(
        18,
        "AWF-D",
        "AWF by batches, with overhead",
        "AWF-B, t_k from asking for the chunk to its end",
        "",
        options=(*_WEIGHTS, *_COMPAT),
        reference="Cariño and Banicescu 2008; Eleliemy 2021, §2.1",
        adaptive=True,
        counts_overhead=True,
    ),
    TechniqueEntry(
        19,
        "AWF-E",
        "AWF by chunks, with overhead",
        "AWF-C, t_k from asking for the chunk to its end",
        "",
        options=(*_WEIGHTS, *_COMPAT, _PARAMETERS + "awf_chunk"),
        reference="Cariño and Banicescu 2008; Eleliemy 2021, §2.1",
        adaptive=True,
        counts_overhead=True,
    ),
    TechniqueEntry(
        20,
        "AF",
        "adaptive factoring",
        "⌊(D + 2·E·R − √(D² + 4·D·E·R)) / (2·μ_p)⌋, D = Σ σ²/μ, E = 1/Σ(1/μ), measured a PE; "
        "until a PE has statistics ⌈first_chunk·N/P⌉, until all have at most ⌈N/2P⌉",
        "",
        options=(*_COMPAT, *_MEASURES),
        reference="Banicescu and Liu 2000; Eleliemy 2021, Eq. 2.14",
        adaptive=True,
    ),
    TechniqueEntry(
        21,
        "mAF",
        "adaptive factoring, with overhead",
        "AF, the times from asking for a chunk to its end, the same for each of its iterations on top",
        "",
        options=_MEASURES,
        reference="Korndörfer et al. 2022 (LB4OMP)",
        adaptive=True,
        counts_overhead=True,
    ),
    TechniqueEntry(
        22,
        "BOLD",
        "bold strategy",
        "min(t + max(0, c·w) + s/2 − √(s·(t + s/4)), t), t = max(R, N)/P, of the iterations that nobody has "
        "got, R, and those that nobody has executed by the time, N; s grows with σ/μ, c = h/(μ·ln 2); see "
        "docs/reference/loops.md",
        "",
        options=(*_STATISTICS, _PARAMETERS + "overhead"),
        reference="Hagerup 1997",
    ),
)

TECHNIQUES = MappingProxyType({entry.name: entry for entry in _ENTRIES})
"""Every technique by name, in the order of the kernels' codes."""


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """One execution model: the word in a scenario file, what it means, where it comes from."""

    name: str
    meaning: str
    reference: str


MODELS = (
    ModelEntry(
        "cca",
        "centralized: PE 0 is the master; it calculates and assigns every chunk on request. Dedicated, or "
        "executing chunks itself with a look for requests after every break_after iterations",
        "Cariño and Banicescu 2005; Eleliemy 2021, §4.1",
    ),
    ModelEntry(
        "dca",
        "distributed: a PE fetches the step at PE 0, calculates its own chunk, and claims it at PE 0; AF, "
        "AWF-B to AWF-E hold the lock meanwhile",
        "Eleliemy 2021, §4.3",
    ),
    ModelEntry(
        "hmw",
        "hierarchical master-worker, X+Y: the first PE of every node is a local master, which serves its "
        "node by Y and asks PE 0, the global master, for the node's chunks by X",
        "Chronopoulos et al. 2005; Eleliemy 2021, §4.1",
    ),
    ModelEntry(
        "hdca",
        "hierarchical distributed (MPI+MPI), X+Y: PEs take sub-chunks by Y from their node's queue, under "
        "its lock; who finds it empty refills it as under dca by X",
        "Eleliemy 2021, §5.2",
    ),
    ModelEntry(
        "mpi+openmp",
        "X+Y: one process a node obtains chunks as under dca by X; its threads execute them by "
        "schedule(static), (dynamic,1) or (guided,1), which is Y = STATIC, SS or GSS, and meet at a barrier "
        "after each, or not with nowait",
        "Eleliemy 2021, §5.3, Table 5.1",
    ),
    ModelEntry(
        "steal",
        "work stealing: every PE has an equal part of the loop, from whose front it takes chunks; who has "
        "none left steals half of what the richest PE of its node has left, or else of another node",
        "Hendler and Shavit 2002; Dinan et al. 2009; schedule(static_steal) of LLVM's OpenMP",
    ),
)
