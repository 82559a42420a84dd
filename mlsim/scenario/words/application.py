"""Words of the section ``application``."""

from __future__ import annotations

from typing import NamedTuple, Self

from mlsim.scenario.words.choice import Choice

__all__ = [
    "ApplicationModel",
    "Calibration",
    "CostProfile",
    "ExecutionModel",
    "Growth",
    "LockOrder",
    "MasterRole",
    "ModelProperties",
    "ServiceOrder",
    "Statistics",
    "Technique",
    "WeightSource",
]


class ApplicationModel(Choice):
    """What a job executes: a fixed run time, or a parallel loop."""

    RIGID = "rigid"
    LOOP = "loop"


class CostProfile(Choice):
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

    @classmethod
    def aliases(cls) -> dict[str, str]:
        """Return other names of distributions."""
        return {"gaussian": "normal", "log-normal": "lognormal"}


class Calibration(Choice):
    """Whether iteration costs are scaled to what the log says."""

    NONE = "none"
    RUN_TIME = "run-time"


class Technique(Choice):
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

    @classmethod
    def aliases(cls) -> dict[str, str]:
        """WF2, the name of WF as it is built on FAC2."""
        return {"WF2": "WF"}


class Statistics(Choice):
    """Where a technique knows the iteration times from."""

    GIVEN = "given"
    PROFILED = "profiled"


class Growth(Choice):
    """How the chunks of VISS grow from batch to batch."""

    CONVERGING = "converging"
    GEOMETRIC = "geometric"


class WeightSource(Choice):
    """Where the weights of the PEs come from, if they are not listed."""

    SPEED = "speed"
    EQUAL = "equal"


class ModelProperties(NamedTuple):
    """What others need to know of an execution model.

    Attributes
    ----------
    levels
        Of techniques: 1, or 2 where X+Y are one between nodes and one inside them.
    nodes
        Whether it knows which PEs are on one node.
    releases
        Whether nodes can leave a loop, and come back, while it runs.
    hands_out_first
        Whether PEs are told that no work is left only once all of it has been handed out.
    adaptive
        Whether techniques that learn within a loop can.
    reads
        Keys of ``application.execution`` that only some models read; ``master``: its first PE, or that of
        each node, is a master, which may be dedicated.
    """

    levels: int = 1
    nodes: bool = False
    releases: bool = False
    hands_out_first: bool = False
    adaptive: bool = True
    reads: tuple[str, ...] = ()

    @property
    def masters(self) -> bool:
        """Whether it has masters, which may be dedicated."""
        return "master" in self.reads


_MASTER = ("master", "break_after", "service_order")
_LOCK = ("atomic_service", "lock", "lock_retry")


class ExecutionModel(Choice):
    """Who computes the chunks (Eleliemy 2021, ch. 4 and 5): on one level, on two, or each PE for itself.

    Attributes
    ----------
    properties
        What others need to know of the model.
    """

    properties: ModelProperties

    def __new__(cls, word: str, properties: ModelProperties) -> Self:
        """Make a word with the properties of what it stands for."""
        member = str.__new__(cls, word)
        member._value_ = word
        member.properties = properties
        return member

    CCA = "cca", ModelProperties(releases=True, hands_out_first=True, reads=_MASTER)
    DCA = "dca", ModelProperties(releases=True, hands_out_first=True, reads=_LOCK)
    HMW = "hmw", ModelProperties(levels=2, nodes=True, reads=_MASTER)
    HDCA = "hdca", ModelProperties(levels=2, nodes=True, reads=_LOCK)
    MPI_OPENMP = "mpi+openmp", ModelProperties(levels=2, nodes=True, reads=(*_LOCK, "nowait"))
    STEAL = "steal", ModelProperties(nodes=True, adaptive=False, reads=("atomic_service",))

    @classmethod
    def aliases(cls) -> dict[str, str]:
        """Return the models in full words."""
        return {
            "centralized": "cca",
            "distributed": "dca",
            "hierarchical-master-worker": "hmw",
            "hierarchical": "hdca",
        }


class MasterRole(Choice):
    """Whether a master executes iterations itself."""

    DEDICATED = "dedicated"
    NON_DEDICATED = "non-dedicated"


class LockOrder(Choice):
    """How a lock goes over to the next one that wants it."""

    FIFO = "fifo"
    POLLING = "polling"

    @classmethod
    def aliases(cls) -> dict[str, str]:
        """Return ticket, as locks in order of arrival are called."""
        return {"ticket": "fifo"}


class ServiceOrder(Choice):
    """Which waiting request the coordinator serves first."""

    FIFO = "fifo"
    LOWEST_RANK = "lowest-rank"

    @classmethod
    def aliases(cls) -> dict[str, str]:
        """Return fcfs: first come, first served."""
        return {"fcfs": "fifo"}
