"""Policies of the queue: the word in a scenario, the key of a job, and what it means.

A policy is one member of :class:`Policy`. The batch level compiles the keys, and the kernel that chooses
among them, from these records (:mod:`mlsim.batch.order.policies`).
"""

from __future__ import annotations

from collections.abc import Callable
from math import log2, log10, sqrt
from typing import TYPE_CHECKING, NamedTuple, Self

from mlsim.scenario.words import Described

if TYPE_CHECKING:
    from mlsim._runtime.arrays import Floats

# Places in the array of parameters.
DEADLINE_FACTOR, THRESHOLD, HALF_LIFE, WEIGHTS = range(4)


class WaitingJob(NamedTuple):
    """A waiting job as the key of a policy sees it."""

    r: float  # submission time (s)
    w: float  # wait so far (s)
    p: float  # estimate of the run time (s)
    q: float  # processors
    used: float  # decayed usage of the job's owner (processor-seconds); fairshare only
    parameters: Floats  # float64[9]: EDF's factor, the threshold, fairshare's half-life, weights of linear


# Keys of live policies take estimates of at least 1 s, as they divide by them; those with logarithms
# take submission times and estimates of at least 1 s, and two processors or more.


def _arrival(job: WaitingJob) -> float:
    return job.r


def _unicef(job: WaitingJob) -> float:
    return -job.w / (log2(max(job.q, 2.0)) * max(job.p, 1.0))


def _linear(job: WaitingJob) -> float:
    weights, p, q = job.parameters, job.p, job.q
    expansion = (job.w + max(p, 1.0)) / max(p, 1.0)
    return float(
        weights[WEIGHTS] * q
        + weights[WEIGHTS + 1] * p
        - weights[WEIGHTS + 2] * job.w
        + weights[WEIGHTS + 3] * (p / q)
        - weights[WEIGHTS + 4] * expansion
        + weights[WEIGHTS + 5] * (p * q)
    )


Key = Callable[[WaitingJob], float]
_CARASTAN = "Carastan-Santos and de Camargo 2017"


# SJF and LJF are the older names of SPF and LPF.
class Policy(Described, aliases={"SJF": "SPF", "LJF": "LPF"}):
    """The order in which the queue is served: the job with the smallest key first."""

    formula: str  # the key in words of the glossary: r, w, p and q as in :class:`WaitingJob`
    key: Key  # returns the key of a job; compiled by the batch level
    is_live: bool  # the key changes with time, so that it is computed in each pass

    def __new__(
        cls, word: str, formula: str = "", meaning: str = "", key: Key = _arrival, live: bool = False
    ) -> Self:
        """Make the word of a policy with its record."""
        member = str.__new__(cls, word)
        member._value_, member.meaning = word, meaning
        member.formula, member.key, member.is_live = formula, key, live
        return member

    FCFS = "FCFS", "r", "first come, first served", _arrival
    LCFS = "LCFS", "-r", "last come, first served", lambda job: -job.r
    SPF = "SPF", "p", "shortest estimate first (alias SJF)", lambda job: job.p
    LPF = "LPF", "-p", "longest estimate first (alias LJF)", lambda job: -job.p
    SQF = "SQF", "q", "fewest processors first", lambda job: job.q
    LQF = "LQF", "-q", "most processors first", lambda job: -job.q
    SAF = "SAF", "p q", "smallest estimated area first", lambda job: job.p * job.q
    LAF = "LAF", "-p q", "largest estimated area first", lambda job: -job.p * job.q
    SRF = "SRF", "p / q", "smallest ratio of estimate to processors first", lambda job: job.p / job.q
    LRF = "LRF", "-p / q", "largest ratio of estimate to processors first", lambda job: -job.p / job.q
    SEXP = (
        "SEXP",
        "(w + p) / p",
        "smallest expansion factor first",
        lambda job: (job.w + max(job.p, 1.0)) / max(job.p, 1.0),
        True,
    )
    LEXP = (
        "LEXP",
        "-(w + p) / p",
        "largest expansion factor first",
        lambda job: -((job.w + max(job.p, 1.0)) / max(job.p, 1.0)),
        True,
    )
    WFP = (
        "WFP",
        "-(w / p)^3 q",
        "waiting, short and wide jobs first",
        lambda job: -((job.w / max(job.p, 1.0)) ** 3) * job.q,
        True,
    )
    UNICEF = "UNICEF", "-w / (log2(q) p)", "waiting, short and narrow jobs first", _unicef, True
    EDF = (
        "EDF",
        "r + deadline_factor p",
        "earliest deadline first",
        lambda job: job.r + job.parameters[DEADLINE_FACTOR] * job.p,
    )
    F1 = (
        "F1",
        "log10(p) q + 870 log10(r)",
        _CARASTAN,
        lambda job: log10(max(job.p, 1.0)) * job.q + 870.0 * log10(max(job.r, 1.0)),
    )
    F2 = (
        "F2",
        "sqrt(p) q + 25600 log10(r)",
        _CARASTAN,
        lambda job: sqrt(job.p) * job.q + 25600.0 * log10(max(job.r, 1.0)),
    )
    F3 = (
        "F3",
        "p q + 6.86e6 log10(r)",
        _CARASTAN,
        lambda job: job.p * job.q + 6.86e6 * log10(max(job.r, 1.0)),
    )
    F4 = (
        "F4",
        "p sqrt(q) + 5.3e5 log10(r)",
        _CARASTAN,
        lambda job: job.p * sqrt(job.q) + 5.3e5 * log10(max(job.r, 1.0)),
    )
    LINEAR = (
        "linear",
        "sum of weight x (q, p, -w, p / q, -(w + p) / p, p q)",
        "weighted; see batch.weights",
        _linear,
        True,
    )
    FAIRSHARE = (
        "fairshare",
        "processor-seconds of the owner",
        "owners with the least recent usage first",
        lambda job: job.used,
        True,
    )
