"""Words of the section ``application``."""

from __future__ import annotations

from mlsim.scenario.words.choice import Choice

__all__ = [
    "ApplicationModel",
    "Calibration",
    "CostProfile",
    "ExecutionModel",
    "Growth",
    "LockOrder",
    "MasterRole",
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


class ExecutionModel(Choice):
    """Who computes the chunks (Eleliemy 2021, ch. 4 and 5): on one level, on two, or each PE for itself."""

    CCA = "cca"
    DCA = "dca"
    HMW = "hmw"
    HDCA = "hdca"
    MPI_OPENMP = "mpi+openmp"
    STEAL = "steal"

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
