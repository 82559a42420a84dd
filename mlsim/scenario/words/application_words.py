"""Words of the section ``application``."""

from __future__ import annotations

from typing import Literal, NamedTuple, Self

from mlsim.scenario.words.word_set import Choice


class ApplicationModel(Choice):
    """What a job executes: a fixed run time, or a parallel loop."""

    RIGID = "rigid"
    LOOP = "loop"


# Also under other names of the distributions.
class CostProfile(Choice, aliases={"gaussian": "normal", "log-normal": "lognormal"}):
    """Where the costs of a loop's iterations come from."""

    JOB = "job"
    CONSTANT = "constant"
    UNIFORM = "uniform"
    NORMAL = "normal"
    EXPONENTIAL = "exponential"
    GAMMA = "gamma"
    LOGNORMAL = "lognormal"
    BIMODAL = "bimodal"
    INCREASING = "increasing"
    DECREASING = "decreasing"
    FILE = "file"
    MANDELBROT = "mandelbrot"
    PSIA = "psia"


class Calibration(Choice):
    """Whether iteration costs are scaled to what the log says."""

    NONE = "none"
    RUN_TIME = "run-time"


# WF2 is the name of WF as it is built on FAC2, mFAC of FAC where PEs follow its batches by a counter.
class Technique(Choice, aliases={"WF2": "WF", "mFAC": "FAC"}):
    """The rule for chunk sizes (Eleliemy 2021, §2.1)."""

    STATIC = "STATIC"
    SS = "SS"
    FSC = "FSC"
    MFSC = "mFSC"
    GSS = "GSS"
    TAP = "TAP"
    TSS = "TSS"
    FAC = "FAC"
    FAC2 = "FAC2"
    WF = "WF"
    TFSS = "TFSS"
    FISS = "FISS"
    VISS = "VISS"
    RND = "RND"
    PLS = "PLS"
    AWF = "AWF"
    AWF_B = "AWF-B"
    AWF_C = "AWF-C"
    AWF_D = "AWF-D"
    AWF_E = "AWF-E"
    AF = "AF"
    MAF = "mAF"
    BOLD = "BOLD"


class Statistics(Choice):
    """Where a technique knows the iteration times from."""

    GIVEN = "given"
    PROFILED = "profiled"


class Growth(Choice):
    """How the chunks of VISS grow from batch to batch."""

    CONVERGING = "converging"
    GEOMETRIC = "geometric"


class WeighedSize(Choice):
    """What AWF-C and AWF-E weigh at every request."""

    REST = "rest"
    BATCH = "batch"


class Compat(Choice):
    """Whose readings of the techniques are followed."""

    NONE = "none"
    LB4MPI = "lb4mpi"


class SelectionMethod(Choice):
    """How the technique of a time step is chosen."""

    EXPERT = "expert"
    EXHAUSTIVE = "exhaustive"
    RANDOM = "random"
    RL = "rl"
    SIMULATION = "simulation"


class SelectionGoal(Choice):
    """What the choice of a technique is to make least."""

    T_LOOP = "t_loop"
    IMBALANCE = "imbalance"


class KnownCosts(Choice):
    """What a choice by simulation takes for the costs of the iterations."""

    MEASURED = "measured"
    PROFILE = "profile"


class TemporalDifference(Choice):
    """How reinforcement learning updates what an action is worth."""

    Q_LEARNING = "q-learning"
    SARSA = "sarsa"


class WeightSource(Choice):
    """Where the weights of the PEs come from, if they are not listed."""

    SPEED = "speed"
    EQUAL = "equal"


Asking = Literal["master", "node master", "window", "node window", "own part", "threads", "unknown"]


class ModelProperties(NamedTuple):
    """What others need to know of an execution model."""

    levels: int = 1
    """Of techniques: 1, or 2 where X+Y are one between nodes and one inside them."""
    nodes: bool = False
    """Whether it knows which PEs are on one node."""
    releases: bool = False
    """Whether nodes can leave a loop, and come back, while it runs; not where each PE has its own part."""
    hands_out_first: bool = False
    """Whether PEs are told that no work is left only once all of it has been handed out."""
    adaptive: bool = True
    """Whether techniques that learn within a loop can."""
    reads: tuple[str, ...] = ()
    """Keys of ``application.execution`` that only some models read; ``master``: its first PE, or that of each
    node, is a master, which may be dedicated.
    """
    asking: Asking = "unknown"
    """Whom a PE asks for chunks: PE 0 (master, window), or its node's first PE (node master, node window), as
    a master or as the owner of a window; nobody, as it has its own part of the loop; or other threads.
    """

    @property
    def masters(self) -> bool:
        """Whether it has masters, which may be dedicated."""
        return "master" in self.reads


_GLOBAL = ("global_p",)
_MASTER = ("master", "break_after", "break_time", "break_every", "service_order")
_LOCK = ("atomic_service", "lock", "lock_retry")


# Also in full words.
class ExecutionModel(
    Choice,
    aliases={
        "centralized": "cca",
        "distributed": "dca",
        "hierarchical-master-worker": "hmw",
        "hierarchical": "hdca",
    },
):
    """Who computes the chunks (Eleliemy 2021, ch. 4 and 5): on one level, on two, or each PE for itself."""

    properties: ModelProperties
    """What others need to know of the model."""

    def __new__(cls, word: str, properties: ModelProperties) -> Self:
        """Make a word with the properties of what it stands for."""
        member = str.__new__(cls, word)
        member._value_ = word
        member.properties = properties
        return member

    CCA = (
        "cca",
        ModelProperties(
            releases=True, hands_out_first=True, asking="master", reads=(*_MASTER, "request_ahead")
        ),
    )
    DCA = "dca", ModelProperties(releases=True, hands_out_first=True, asking="window", reads=_LOCK)
    HMW = (
        "hmw",
        ModelProperties(
            levels=2, nodes=True, releases=True, asking="node master", reads=(*_MASTER, *_GLOBAL)
        ),
    )
    HDCA = (
        "hdca",
        ModelProperties(levels=2, nodes=True, releases=True, asking="node window", reads=(*_LOCK, *_GLOBAL)),
    )
    MPI_OPENMP = (
        "mpi+openmp",
        ModelProperties(2, nodes=True, releases=True, asking="threads", reads=(*_LOCK, *_GLOBAL, "nowait")),
    )
    STEAL = "steal", ModelProperties(nodes=True, adaptive=False, asking="own part", reads=("atomic_service",))


class GlobalP(Choice):
    """What a technique between nodes takes for P."""

    NODES = "nodes"
    PES = "pes"


class MasterRole(Choice):
    """Whether a master executes iterations itself."""

    DEDICATED = "dedicated"
    NON_DEDICATED = "non-dedicated"


# Locks in order of arrival are called ticket locks.
class LockOrder(Choice, aliases={"ticket": "fifo"}):
    """How a lock goes over to the next one that wants it."""

    FIFO = "fifo"
    POLLING = "polling"


# FCFS: first come, first served.
class ServiceOrder(Choice, aliases={"fcfs": "fifo"}):
    """Which waiting request the coordinator serves first."""

    FIFO = "fifo"
    LOWEST_RANK = "lowest-rank"
