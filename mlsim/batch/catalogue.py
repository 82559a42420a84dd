"""What the batch level offers, in words: the policies, backfilling rules and allocators."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ALLOCATORS", "BACKFILLING", "DISPATCHERS", "POLICIES", "Entry", "PolicyEntry"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A name and what it means."""

    name: str
    meaning: str


@dataclass(frozen=True, slots=True)
class PolicyEntry:
    """A policy: name, key (smaller goes first), whether the key changes with time, and its meaning."""

    name: str
    key: str
    live: bool
    meaning: str


# The order is the policy's code in the kernels: keys fixed at submission first, live ones after.
POLICIES = (
    PolicyEntry("FCFS", "r", False, "first come, first served"),
    PolicyEntry("LCFS", "-r", False, "last come, first served"),
    PolicyEntry("SPF", "p", False, "shortest estimate first (alias SJF)"),
    PolicyEntry("LPF", "-p", False, "longest estimate first (alias LJF)"),
    PolicyEntry("SQF", "q", False, "fewest processors first"),
    PolicyEntry("LQF", "-q", False, "most processors first"),
    PolicyEntry("SAF", "p q", False, "smallest estimated area first"),
    PolicyEntry("LAF", "-p q", False, "largest estimated area first"),
    PolicyEntry("SRF", "p / q", False, "smallest ratio of estimate to processors first"),
    PolicyEntry("LRF", "-p / q", False, "largest ratio of estimate to processors first"),
    PolicyEntry("EDF", "r + deadline_factor p", False, "earliest deadline first"),
    PolicyEntry("F1", "log10(p) q + 870 log10(r)", False, "Carastan-Santos and de Camargo 2017"),
    PolicyEntry("F2", "sqrt(p) q + 25600 log10(r)", False, "Carastan-Santos and de Camargo 2017"),
    PolicyEntry("F3", "p q + 6.86e6 log10(r)", False, "Carastan-Santos and de Camargo 2017"),
    PolicyEntry("F4", "p sqrt(q) + 5.3e5 log10(r)", False, "Carastan-Santos and de Camargo 2017"),
    PolicyEntry("SEXP", "(w + p) / p", True, "smallest expansion factor first"),
    PolicyEntry("LEXP", "-(w + p) / p", True, "largest expansion factor first"),
    PolicyEntry("WFP", "-(w / p)^3 q", True, "waiting, short and wide jobs first"),
    PolicyEntry("UNICEF", "-w / (log2(q) p)", True, "waiting, short and narrow jobs first"),
    PolicyEntry(
        "linear", "sum of weight x (q, p, -w, p / q, -(w + p) / p, p q)", True, "weighted; see batch.weights"
    ),
    PolicyEntry("fairshare", "processor-seconds of the owner", True, "those who used least lately first"),
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
    Entry("first-fit", "the first nodes, in the platform's order, that have room"),
    Entry(
        "best-fit",
        "the busiest node first, anew after every unit; busy is the mean used share of what a node has",
    ),
    Entry("worst-fit", "the least busy node first, anew after every unit (alias balanced)"),
    Entry(
        "contiguous",
        "the shortest stretch of neighbouring nodes that holds the job; where there is none, first-fit, or "
        "it waits (contiguity: strict)",
    ),
    Entry("random", "nodes with room in random order, drawn for each job from the seed"),
    Entry(
        "topology-aware",
        "around the node from which the job's nodes are the fewest links away: smallest radius, then "
        "smallest sum of links",
    ),
    Entry(
        "heterogeneity-aware",
        "where the least of what few nodes have, and the job does not ask for, lies idle; then the busiest",
    ),
)

DISPATCHERS = (
    Entry("queue", "policy, backfill and allocator decide"),
    Entry("reject", "turns every job away: what the simulator itself costs"),
    Entry("prb", "the largest (w + p) / p first, best-fit, on past jobs that do not fit"),
)
