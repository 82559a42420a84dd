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


# WF2 is the name of WF as it is built on FAC2.
class Technique(Choice, aliases={"WF2": "WF"}):
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

    CCA = "cca"
    DCA = "dca"
    HMW = "hmw"
    HDCA = "hdca"
    MPI_OPENMP = "mpi+openmp"
    STEAL = "steal"


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
