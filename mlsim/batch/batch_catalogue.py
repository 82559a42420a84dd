"""Policies, backfilling rules and allocators by name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """A name and what it means."""

    name: str
    meaning: str


@dataclass(frozen=True, slots=True)
class PolicyEntry:
    """A policy."""

    code: int
    """Its number in the kernels."""
    name: str
    """The word in a scenario."""
    key: str
    """The key by which it orders: smaller goes first."""
    live: bool
    """Whether the key changes with time."""
    meaning: str
    """The order in words."""


@dataclass(frozen=True, slots=True)
class AllocatorEntry:
    """An allocator: its number in the kernels, its name, and what it means."""

    code: int
    name: str
    meaning: str


POLICIES = (
    PolicyEntry(0, "FCFS", "r", False, "first come, first served"),
    PolicyEntry(1, "LCFS", "-r", False, "last come, first served"),
    PolicyEntry(2, "SPF", "p", False, "shortest estimate first (alias SJF)"),
    PolicyEntry(3, "LPF", "-p", False, "longest estimate first (alias LJF)"),
    PolicyEntry(4, "SQF", "q", False, "fewest processors first"),
    PolicyEntry(5, "LQF", "-q", False, "most processors first"),
    PolicyEntry(6, "SAF", "p q", False, "smallest estimated area first"),
    PolicyEntry(7, "LAF", "-p q", False, "largest estimated area first"),
    PolicyEntry(8, "SRF", "p / q", False, "smallest ratio of estimate to processors first"),
    PolicyEntry(9, "LRF", "-p / q", False, "largest ratio of estimate to processors first"),
    PolicyEntry(10, "EDF", "r + deadline_factor p", False, "earliest deadline first"),
    PolicyEntry(11, "F1", "log10(p) q + 870 log10(r)", False, "Carastan-Santos and de Camargo 2017"),
    PolicyEntry(12, "F2", "sqrt(p) q + 25600 log10(r)", False, "Carastan-Santos and de Camargo 2017"),
    PolicyEntry(13, "F3", "p q + 6.86e6 log10(r)", False, "Carastan-Santos and de Camargo 2017"),
    PolicyEntry(14, "F4", "p sqrt(q) + 5.3e5 log10(r)", False, "Carastan-Santos and de Camargo 2017"),
    PolicyEntry(15, "SEXP", "(w + p) / p", True, "smallest expansion factor first"),
    PolicyEntry(16, "LEXP", "-(w + p) / p", True, "largest expansion factor first"),
    PolicyEntry(17, "WFP", "-(w / p)^3 q", True, "waiting, short and wide jobs first"),
    PolicyEntry(18, "UNICEF", "-w / (log2(q) p)", True, "waiting, short and narrow jobs first"),
    PolicyEntry(
        19,
        "linear",
        "sum of weight x (q, p, -w, p / q, -(w + p) / p, p q)",
        True,
        "weighted; see batch.weights",
    ),
    PolicyEntry(20, "fairshare", "processor-seconds of the owner", True, "those who used least lately first"),
)

BACKFILLING = (
    Entry("none", "start jobs in the queue's order; stop at the first that does not fit"),
    Entry("greedy", "skip jobs that do not fit and go on"),
    Entry(
        "easy", "the first that does not fit gets a reservation; later jobs may start if they do not delay it"
    ),
    Entry("conservative", "every waiting job has a reservation, which is kept and only ever moves forward"),
)

ALLOCATORS = (
    AllocatorEntry(0, "first-fit", "the first nodes, in the platform's order, that have room"),
    AllocatorEntry(
        1,
        "best-fit",
        "the busiest node first, anew after every unit; busy is the mean used share of what a node has",
    ),
    AllocatorEntry(2, "worst-fit", "the least busy node first, anew after every unit (alias balanced)"),
    AllocatorEntry(
        3,
        "contiguous",
        "the shortest stretch of neighbouring nodes that holds the job; where there is none, first-fit, or "
        "it waits (contiguity: strict)",
    ),
    AllocatorEntry(4, "random", "nodes with room in random order, drawn for each job from the seed"),
    AllocatorEntry(
        5,
        "topology-aware",
        "around the node from which the job's nodes are the fewest links away: smallest radius, then "
        "smallest sum of links",
    ),
    AllocatorEntry(
        6,
        "heterogeneity-aware",
        "where the least of what few nodes have, and the job does not ask for, lies idle; then the busiest; "
        "it counts nodes that have a resource, not jobs that want it: demand-aware does",
    ),
    AllocatorEntry(
        7,
        "demand-aware",
        "off nodes with scarce resources that other jobs ask for, by how many do; then the busiest; a part "
        "of such nodes is kept for those jobs (batch.reserve)",
    ),
)

DISPATCHERS = (
    Entry("queue", "policy, backfill and allocator decide"),
    Entry("reject", "turns every job away: what the simulator itself costs"),
    Entry("prb", "the largest (w + p) / p first, best-fit, on past jobs that do not fit"),
)
