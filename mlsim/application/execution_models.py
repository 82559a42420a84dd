"""The execution models by name: meaning and source, in plain strings."""

from __future__ import annotations

from dataclasses import dataclass


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
