"""Words of the sections ``batch`` and ``workload``."""

from __future__ import annotations

from typing import Self

from mlsim.scenario.words.word_set import Choice


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


class WorkloadFormat(Choice):
    """How the file of jobs is written."""

    AUTO = "auto"
    SWF = "swf"
    CSV = "csv"
    PARQUET = "parquet"
    BATSIM = "batsim"
    SACCT = "sacct"
    PBS = "pbs"
    SGE = "sge"


class WorkloadModel(Choice):
    """What draws the jobs of a generated workload."""

    LUBLIN = "lublin"
    POISSON = "poisson"
    WEIBULL = "weibull"


class JobKinds(Choice):
    """The kinds of jobs of the model of Lublin and Feitelson."""

    BOTH = "both"
    BATCH = "batch"
    INTERACTIVE = "interactive"
    TYPELESS = "typeless"


class ResampledBy(Choice):
    """Whose weeks are drawn together when a log is resampled."""

    USER = "user"
    WEEK = "week"


class EstimateModel(Choice):
    """Where the walltimes of a generated workload come from, if not from a factor."""

    PERFECT = "perfect"
    TSAFRIR = "tsafrir"


# Packed means that nodes are not shared.
class Mapping(Choice, aliases={"whole-nodes": "packed"}):
    """What a processor of the log is on the machine: a core, a node, or a share of whole nodes."""

    CORE = "core"
    NODE = "node"
    PACKED = "packed"


class MemorySource(Choice):
    """Where the memory that a unit asks for comes from."""

    NONE = "none"
    REQUESTED = "requested"
    USED = "used"


# What the user asked, and an estimate without error.
class EstimateSource(Choice, aliases={"walltime": "request", "perfect": "actual"}):
    """Where the run time that the dispatcher sees comes from."""

    REQUEST = "request"
    ACTUAL = "actual"


class CleaningRule(Choice):
    """What happens to a job that meets a cleaning rule."""

    KEEP = "keep"
    DROP = "drop"
    CLAMP = "clamp"


# As users have it: they took the job back.
class NeverRan(Choice, aliases={"cancel": "withdraw", "drop": "leave-out"}):
    """What happens to a job that was cancelled while it waited in the log, and never ran."""

    WITHDRAW = "withdraw"
    LEAVE_OUT = "leave-out"
    KEEP = "keep"


class WeekEvent(Choice):
    """By what a job belongs to a week of its log."""

    START = "start"
    SUBMIT = "submit"


# In the order of the calendar module: Monday is 0.
class WeekBegin(Choice):
    """Where the weeks of a log begin."""

    MONDAY = "Monday"
    TUESDAY = "Tuesday"
    WEDNESDAY = "Wednesday"
    THURSDAY = "Thursday"
    FRIDAY = "Friday"
    SATURDAY = "Saturday"
    SUNDAY = "Sunday"
    FIRST_JOB = "first-job"


class CrossingRule(Choice, aliases={"drop": "remove"}):
    """What happens to a job that in the log ended in a later week than its own."""

    KEEP = "keep"
    REMOVE = "remove"
