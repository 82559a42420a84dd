"""Words of the section ``batch``."""

from __future__ import annotations

from typing import Self

from mlsim.scenario.words.choice import Choice

__all__ = [
    "Allocator",
    "Backfill",
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


class Policy(Choice):
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

    @classmethod
    def aliases(cls) -> dict[str, str]:
        """SJF and LJF, the older names of SPF and LPF."""
        return {"SJF": "SPF", "LJF": "LPF"}


class Backfill(Choice):
    """Whether jobs may overtake the queue's head, and how it is protected."""

    NONE = "none"
    GREEDY = "greedy"
    EASY = "easy"
    CONSERVATIVE = "conservative"

    @classmethod
    def aliases(cls) -> dict[str, str]:
        """Return names of the literature: first-fit backfilling, and aggressive backfilling for EASY."""
        return {"first-fit": "greedy", "aggressive": "easy"}


class EasyRule(Choice):
    """Whose meaning of EASY: the literature's, or that of a published simulator."""

    STANDARD = "standard"
    ACCASIM = "accasim"
    CQSIM = "cqsim"
    BATSCHED = "batsched"


class Compression(Choice):
    """How often conservative backfilling looks for earlier places when something comes back early."""

    FIXPOINT = "fixpoint"
    ONE_ROUND = "one-round"


class ShareOwner(Choice):
    """Whose usage fairshare adds up."""

    USER = "user"
    GROUP = "group"


class TieOrder(Choice):
    """What happens in which order at one time, and how many passes there are."""

    DRAINED = "drained"
    PER_EVENT = "per-event"
    ENDS_FIRST = "ends-first"

    @classmethod
    def aliases(cls) -> dict[str, str]:
        """Return what orders amount to: one pass for all events of a time, or a pass for each."""
        return {"batched": "drained", "immediate": "per-event"}


class Engine(Choice):
    """What simulates the batch level."""

    AUTO = "auto"
    SIMPY = "simpy"
    REPLAY = "replay"


class Allocator(Choice):
    """Which free nodes a job gets."""

    FIRST_FIT = "first-fit"
    BEST_FIT = "best-fit"
    WORST_FIT = "worst-fit"
    CONTIGUOUS = "contiguous"
    RANDOM = "random"
    TOPOLOGY_AWARE = "topology-aware"
    HETEROGENEITY_AWARE = "heterogeneity-aware"

    @classmethod
    def aliases(cls) -> dict[str, str]:
        """Balanced, what worst-fit leads to."""
        return {"balanced": "worst-fit"}


class Contiguity(Choice):
    """What a job gets that finds no neighbouring nodes."""

    PREFER = "prefer"
    STRICT = "strict"


class Dispatcher(Choice):
    """What decides which jobs start, and on which nodes.

    Attributes
    ----------
    solves
        Whether it plans by constraint programming.
    """

    solves: bool

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
    """What dispatcher cp makes small on average."""

    SLOWDOWN = "slowdown"
    BOUNDED_SLOWDOWN = "bounded-slowdown"
    WAIT = "wait"


class OverrunRule(Choice):
    """What happens to a job that runs past its walltime."""

    EXTEND = "extend"
    KILL = "kill"

    @classmethod
    def aliases(cls) -> dict[str, str]:
        """Return what the rules do, in the words of resource managers."""
        return {"terminate": "kill", "continue": "extend"}


class Predictor(Choice):
    """Where the run time that the dispatcher sees is predicted from."""

    WALLTIME = "walltime"
    ACTUAL = "actual"
    DATA_DRIVEN = "D"
    CONFIDENT = "D2"
    LAST_TWO = "L2"
    EASY_PLUS_PLUS = "EASY++"

    @classmethod
    def aliases(cls) -> dict[str, str]:
        """W, R and D1, as the sources write them."""
        return {"W": "walltime", "R": "actual", "D1": "D"}
