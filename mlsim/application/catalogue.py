"""What techniques, execution models and cost profiles there are, in plain strings.

This module holds no kernel, so that listing them costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["MODELS", "PROFILES", "TECHNIQUES", "ModelEntry", "ProfileEntry", "TechniqueEntry"]


@dataclass(frozen=True, slots=True)
class TechniqueEntry:
    """One technique: how it is called and how it sizes chunks.

    Attributes
    ----------
    code
        Number of the technique in the kernels.
    name
        The word in a scenario file (upper and lower case are the same there).
    title
        Full name.
    recursive
        Chunk size from what is left, as CCA computes it. N iterations, P PEs, R remaining, i the
        scheduling step from 0, b = ⌊i/P⌋ the batch. Every chunk is finally min(max(K, min_chunk), R).
    straightforward
        Chunk size from i alone, as DCA computes it; empty where there is no such form.
    options
        Keys of a scenario file that the technique reads besides ``application.min_chunk``.
    reference
        Where it comes from.
    """

    code: int
    name: str
    title: str
    recursive: str
    straightforward: str
    options: tuple[str, ...]
    reference: str


_ENTRIES = (
    TechniqueEntry(
        code=0,
        name="STATIC",
        title="static block scheduling",
        recursive="⌈N/P⌉; chunk j to PE j",
        straightforward="⌈N/P⌉; chunk j to PE j",
        options=(),
        reference="Li et al. 1993; Eleliemy 2021, Eq. 2.1",
    ),
    TechniqueEntry(
        code=1,
        name="SS",
        title="self-scheduling",
        recursive="1",
        straightforward="1",
        options=(),
        reference="Tang and Yew 1986; Eleliemy 2021, Eq. 2.2",
    ),
    TechniqueEntry(
        code=2,
        name="GSS",
        title="guided self-scheduling",
        recursive="⌈R/P⌉",
        straightforward="⌈N·(P−1)^i / P^(i+1)⌉",
        options=(),
        reference="Polychronopoulos and Kuck 1987; Eleliemy 2021, Eq. 2.4, 4.1",
    ),
    TechniqueEntry(
        code=3,
        name="TSS",
        title="trapezoid self-scheduling",
        recursive="K0 − i·C, K0 = ⌈N/2P⌉, S = ⌈2N/(K0+1)⌉, C = ⌊(K0−1)/(S−1)⌋",
        straightforward="K0 − i·C",
        options=(),
        reference="Tzen and Ni 1993; Eleliemy 2021, Eq. 2.6, 4.4",
    ),
    TechniqueEntry(
        code=4,
        name="FAC2",
        title="factoring by halves",
        recursive="⌈R/2P⌉ at the start of a batch, then the same again P−1 times",
        straightforward="⌈N / (P·2^(b+1))⌉",
        options=(),
        reference="Hummel, Schonberg and Flynn 1992; Eleliemy 2021, Eq. 2.7, 4.2",
    ),
    TechniqueEntry(
        code=5,
        name="AF",
        title="adaptive factoring",
        recursive="⌊(D + 2·E·R − √(D² + 4·D·E·R)) / (2·μ_p)⌋, D = Σ σ²/μ, E = 1/Σ(1/μ), measured a PE; "
        "until a PE has statistics ⌈first_chunk·N/P⌉, until all have at most ⌈N/2P⌉",
        straightforward="",
        options=("application.execution.first_chunk",),
        reference="Banicescu and Liu 2000; Eleliemy 2021, Eq. 2.14",
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
        "centralized: PE 0 is the master; it calculates and assigns every chunk on request, and executes "
        "chunks itself, with a look for requests after every break_after iterations",
        "Cariño and Banicescu 2005; Eleliemy 2021, §4.1",
    ),
    ModelEntry(
        "dca",
        "distributed: a PE fetches the step at PE 0, calculates its own chunk, and claims it at PE 0; AF "
        "holds the lock meanwhile",
        "Eleliemy 2021, §4.3",
    ),
)


@dataclass(frozen=True, slots=True)
class ProfileEntry:
    """One profile of iteration costs: the word in a scenario file, and what an iteration costs."""

    name: str
    meaning: str


PROFILES = (
    ProfileEntry(
        "job",
        "normal, cut at 0: mean = run time of the job / its iterations a PE, standard deviation = "
        "variation * mean; drawn anew for each job (Eleliemy 2021, §3.4)",
    ),
    ProfileEntry("constant", "mean"),
    ProfileEntry("normal", "normal with mean and std, cut at 0; the same for all jobs of one length"),
    ProfileEntry("exponential", "exponential with mean; the same for all jobs of one length"),
    ProfileEntry("file", "as in the file at path, .npy or .csv, in seconds"),
)
