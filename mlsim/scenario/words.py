"""The closed sets of words a scenario file may use; an enum's value is the word in the file."""

from __future__ import annotations

from enum import StrEnum
from typing import Self

__all__ = [
    "Allocator",
    "AnswerRule",
    "ApplicationModel",
    "Backfill",
    "Calibration",
    "CleaningRule",
    "Compression",
    "Contiguity",
    "CostProfile",
    "Dispatcher",
    "EasyRule",
    "Engine",
    "EstimateSource",
    "ExecutionModel",
    "FailureRule",
    "Growth",
    "LockOrder",
    "Mapping",
    "MasterRole",
    "MemorySource",
    "OverrunRule",
    "PlanGoal",
    "Policy",
    "Predictor",
    "ReleasedNodes",
    "RequestRule",
    "ServiceOrder",
    "ShareOwner",
    "Statistics",
    "Technique",
    "TieOrder",
    "Topology",
    "TraceLevel",
    "WeightSource",
    "Word",
    "WorkloadFormat",
]


class Word(StrEnum):
    """Base of all word sets: ``Policy("saf")`` is ``Policy.SAF``; upper and lower case are the same."""

    @classmethod
    def aliases(cls) -> dict[str, str]:
        """Other spellings that are understood, and the word each stands for."""
        return {}

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        if not isinstance(value, str):
            return None
        wanted = value.casefold()
        others = {alias.casefold(): word for alias, word in cls.aliases().items()}
        wanted = others.get(wanted, wanted).casefold()
        return next((member for member in cls if member.value.casefold() == wanted), None)


class Topology(Word):
    """How the nodes are connected."""

    FULLY_CONNECTED = "fully-connected"
    STAR = "star"
    FAT_TREE = "fat-tree"
    DRAGONFLY = "dragonfly"
    TORUS = "torus"
    EDGE_LIST = "edge-list"


class WorkloadFormat(Word):
    """How the file of jobs is written."""

    AUTO = "auto"
    SWF = "swf"
    CSV = "csv"
    PARQUET = "parquet"
    BATSIM = "batsim"


class Mapping(Word):
    """What a processor of the log is on the machine: a core, a node, or a share of whole nodes."""

    CORE = "core"
    NODE = "node"
    PACKED = "packed"


class MemorySource(Word):
    """Where the memory that a unit asks for comes from."""

    NONE = "none"
    REQUESTED = "requested"
    USED = "used"


class EstimateSource(Word):
    """Where the run time that the dispatcher sees comes from."""

    REQUEST = "request"
    ACTUAL = "actual"


class CleaningRule(Word):
    """What happens to a job that meets a cleaning rule."""

    KEEP = "keep"
    DROP = "drop"
    CLAMP = "clamp"


class Policy(Word):
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


class Backfill(Word):
    """Whether jobs may overtake the queue's head, and how it is protected."""

    NONE = "none"
    GREEDY = "greedy"
    EASY = "easy"
    CONSERVATIVE = "conservative"


class EasyRule(Word):
    """Whose meaning of EASY: the literature's, or that of a published simulator."""

    STANDARD = "standard"
    ACCASIM = "accasim"
    CQSIM = "cqsim"
    BATSCHED = "batsched"


class Compression(Word):
    """How often conservative backfilling looks for earlier places when something comes back early."""

    FIXPOINT = "fixpoint"
    ONE_ROUND = "one-round"


class ShareOwner(Word):
    """Whose usage fairshare adds up."""

    USER = "user"
    GROUP = "group"


class TieOrder(Word):
    """What happens in which order at one time, and how many passes there are."""

    DRAINED = "drained"
    PER_EVENT = "per-event"
    ENDS_FIRST = "ends-first"


class Engine(Word):
    """What simulates the batch level."""

    AUTO = "auto"
    SIMPY = "simpy"
    REPLAY = "replay"


class Allocator(Word):
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


class Contiguity(Word):
    """What a job gets that finds no neighbouring nodes."""

    PREFER = "prefer"
    STRICT = "strict"


class Dispatcher(Word):
    """What decides which jobs start, and on which nodes."""

    QUEUE = "queue"
    REJECT = "reject"
    PRB = "prb"
    CP = "cp"
    HCP19 = "hcp19"
    PCP19 = "pcp19"
    PCP4 = "pcp4"
    PCP21 = "pcp21"
    PCP21S = "pcp21s"
    HCP1 = "hcp1"
    HCP2 = "hcp2"
    PCP1 = "pcp1"
    PCP2 = "pcp2"

    @property
    def solves(self) -> bool:
        """Whether it plans by constraint programming."""
        return self not in (Dispatcher.QUEUE, Dispatcher.REJECT, Dispatcher.PRB)


class PlanGoal(Word):
    """What dispatcher cp makes small on average."""

    SLOWDOWN = "slowdown"
    BOUNDED_SLOWDOWN = "bounded-slowdown"
    WAIT = "wait"


class OverrunRule(Word):
    """What happens to a job that runs past its walltime."""

    EXTEND = "extend"
    KILL = "kill"


class Predictor(Word):
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


class FailureRule(Word):
    """What becomes of a job when a node it holds fails."""

    DIE = "die"
    RESTART = "restart"
    RESUME = "resume"


class RequestRule(Word):
    """When the batch level asks running applications for nodes."""

    NEVER = "never"
    HEAD_OF_QUEUE = "head-of-queue"


class AnswerRule(Word):
    """What an application answers when it is asked for nodes."""

    NEVER = "never"
    IDLE_ONLY = "idle-only"
    TOLERANCE = "tolerance"
    ALWAYS = "always"


class ReleasedNodes(Word):
    """Who gets nodes that were released early."""

    ANY = "any"
    SHORT_FIRST = "short-first"


class ApplicationModel(Word):
    """What a job executes: a fixed run time, or a parallel loop."""

    RIGID = "rigid"
    LOOP = "loop"


class CostProfile(Word):
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


class Calibration(Word):
    """Whether iteration costs are scaled to what the log says."""

    NONE = "none"
    RUN_TIME = "run-time"


class Technique(Word):
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


class Statistics(Word):
    """Where a technique knows the iteration times from."""

    GIVEN = "given"
    PROFILED = "profiled"


class Growth(Word):
    """How the chunks of VISS grow from batch to batch."""

    CONVERGING = "converging"
    GEOMETRIC = "geometric"


class WeightSource(Word):
    """Where the weights of the PEs come from, if they are not listed."""

    SPEED = "speed"
    EQUAL = "equal"


class ExecutionModel(Word):
    """Who computes the chunks, on one level (cca, dca) or on two (Eleliemy 2021, ch. 4 and 5)."""

    CCA = "cca"
    DCA = "dca"
    HMW = "hmw"
    HDCA = "hdca"
    MPI_OPENMP = "mpi+openmp"


class MasterRole(Word):
    """Whether a master executes iterations itself."""

    DEDICATED = "dedicated"
    NON_DEDICATED = "non-dedicated"


class LockOrder(Word):
    """How a lock goes over to the next one that wants it."""

    FIFO = "fifo"
    POLLING = "polling"


class ServiceOrder(Word):
    """Which waiting request the coordinator serves first."""

    FIFO = "fifo"
    LOWEST_RANK = "lowest-rank"


class TraceLevel(Word):
    """How much the OTF2 trace holds; each level includes those before it."""

    NONE = "none"
    JOBS = "jobs"
    NODES = "nodes"
    CHUNKS = "chunks"
