"""Words of the section ``batch``."""

from __future__ import annotations

from typing import Self

from mlsim.scenario.words.choice import Choice

__all__ = [
    "Allocator",
    "Backfill",
    "ClassSource",
    "Compression",
    "Contiguity",
    "Dispatcher",
    "EasyRule",
    "Engine",
    "OverrunRule",
    "PlanGoal",
    "Policy",
    "Predictor",
    "ShareOwner",
    "TieOrder",
]


# SJF and LJF are the older names of SPF and LPF.
class Policy(Choice, aliases={"SJF": "SPF", "LJF": "LPF"}):
    """The order in which the queue is served."""

    FCFS = "FCFS"
    LCFS = "LCFS"
    SPF = "SPF"
    LPF = "LPF"
    SQF = "SQF"
    LQF = "LQF"
    SAF = "SAF"
    LAF = "LAF"
    SRF = "SRF"
    LRF = "LRF"
    SEXP = "SEXP"
    LEXP = "LEXP"
    WFP = "WFP"
    UNICEF = "UNICEF"
    EDF = "EDF"
    F1 = "F1"
    F2 = "F2"
    F3 = "F3"
    F4 = "F4"
    LINEAR = "linear"
    FAIRSHARE = "fairshare"


# The literature has first-fit backfilling, and aggressive backfilling for EASY.
class Backfill(Choice, aliases={"first-fit": "greedy", "aggressive": "easy"}):
    """Whether jobs may overtake the queue's head, and how it is protected."""

    NONE = "none"
    GREEDY = "greedy"
    EASY = "easy"
    CONSERVATIVE = "conservative"


class EasyRule(Choice):
    """Whose meaning of EASY: the literature's, or that of a published simulator."""

    STANDARD = "standard"
    ACCASIM = "accasim"
    CQSIM = "cqsim"
    BATSCHED = "batsched"
    EASY_BF = "easy_bf"


class Compression(Choice):
    """How often conservative backfilling looks for earlier places when something comes back early."""

    FIXPOINT = "fixpoint"
    ONE_ROUND = "one-round"


class ClassSource(Choice):
    """What tells small jobs from large ones."""

    FOREST = "forest"
    ACTUAL = "actual"


class ShareOwner(Choice):
    """Whose usage fairshare adds up."""

    USER = "user"
    GROUP = "group"


# Also what the orders amount to: one pass for all events of a time, or a pass for each.
class TieOrder(Choice, aliases={"batched": "drained", "immediate": "per-event"}):
    """What happens in which order at one time, and how many passes there are."""

    DRAINED = "drained"
    PER_EVENT = "per-event"
    ENDS_FIRST = "ends-first"


class Engine(Choice):
    """What simulates the batch level."""

    AUTO = "auto"
    SIMPY = "simpy"
    REPLAY = "replay"


# Balanced is what worst-fit leads to.
class Allocator(Choice, aliases={"balanced": "worst-fit"}):
    """Which free nodes a job gets."""

    FIRST_FIT = "first-fit"
    BEST_FIT = "best-fit"
    WORST_FIT = "worst-fit"
    CONTIGUOUS = "contiguous"
    RANDOM = "random"
    TOPOLOGY_AWARE = "topology-aware"
    HETEROGENEITY_AWARE = "heterogeneity-aware"
    DEMAND_AWARE = "demand-aware"


class Contiguity(Choice):
    """What a job gets that finds no neighbouring nodes."""

    PREFER = "prefer"
    STRICT = "strict"


class Dispatcher(Choice):
    """What decides which jobs start, and on which nodes."""

    solves: bool
    """Whether it plans by constraint programming."""

    def __new__(cls, word: str, solves: bool = False) -> Self:
        """Make a word that says whether it stands for a dispatcher that plans."""
        member = str.__new__(cls, word)
        member._value_ = word
        member.solves = solves
        return member

    QUEUE = "queue"
    REJECT = "reject"
    PRB = "prb"
    CP = "cp", True
    LISTS = "lists", True
    HCP19 = "hcp19", True
    PCP19 = "pcp19", True
    PCP4 = "pcp4", True
    PCP21 = "pcp21", True
    PCP21S = "pcp21s", True
    HCP1 = "hcp1", True
    HCP2 = "hcp2", True
    PCP1 = "pcp1", True
    PCP2 = "pcp2", True


class PlanGoal(Choice):
    """What dispatchers cp and lists make small: a mean over jobs, or the time until the last one ends."""

    SLOWDOWN = "slowdown"
    BOUNDED_SLOWDOWN = "bounded-slowdown"
    WAIT = "wait"
    MAKESPAN = "makespan"


# Also in the words of resource managers.
class OverrunRule(Choice, aliases={"terminate": "kill", "continue": "extend"}):
    """What happens to a job that runs past its walltime."""

    EXTEND = "extend"
    KILL = "kill"


# W, R and D1, as the sources write them.
class Predictor(Choice, aliases={"W": "walltime", "R": "actual", "D1": "D"}):
    """Where the run time that the dispatcher sees is predicted from."""

    WALLTIME = "walltime"
    ACTUAL = "actual"
    DATA_DRIVEN = "D"
    CONFIDENT = "D2"
    LAST_TWO = "L2"
    EASY_PLUS_PLUS = "EASY++"
    FOREST_MEAN = "forest-mean"
    FOREST_QUANTILE = "forest-quantile"
