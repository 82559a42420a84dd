"""The closed sets of words a scenario file may use; an enum's value is the word in the file."""

from collections.abc import Mapping as AnyMapping
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, Self

from mlsim.execution_models import MODELS, ModelEntry
from mlsim.techniques import TECHNIQUES, TechniqueEntry


class _Aliased:
    """A set that is declared with its other spellings."""

    _other_spellings: ClassVar[dict[str, str]] = {}

    def __init_subclass__(cls, aliases: AnyMapping[str, str] | None = None) -> None:
        """Keep the other spellings of a set."""
        super().__init_subclass__()
        cls._other_spellings = dict(aliases or {})

    @classmethod
    def aliases(cls) -> dict[str, str]:
        """Return other accepted spellings, each with its word."""
        return dict(cls._other_spellings)


class Choice(_Aliased, StrEnum):
    """Base of all word sets: ``Policy("saf")`` is ``Policy.SAF``; upper and lower case are the same.

    A set is declared with its other spellings: ``class Policy(Choice, aliases={"SJF": "SPF"})``.
    """

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        if not isinstance(value, str):
            return None
        wanted = value.casefold()
        others = {alias.casefold(): word for alias, word in cls.aliases().items()}
        wanted = others.get(wanted, wanted).casefold()
        return next((member for member in cls if member.value.casefold() == wanted), None)


def words_of_modules(folder: str, suffix: str) -> list[str]:
    """Return the words that modules of a folder declare by their names: ``sacct_log.py`` is ``sacct``."""
    place = Path(__file__).parents[1] / folder
    return sorted(path.name.removesuffix(suffix) for path in place.glob(f"*{suffix}"))


class Described(Choice):
    """Base of word sets whose words carry their meaning, as ``mlsim list`` shows it."""

    meaning: str  # the word explained in a phrase

    def __new__(cls, word: str, meaning: str = "", *facts: object) -> Self:
        """Make a word with the facts that its set declares; type checkers see a look-up by word alone."""
        member = str.__new__(cls, word)
        member._value_, member.meaning = word, meaning
        for name, fact in zip(cls.__annotations__, facts, strict=False):
            setattr(member, name, fact)
        return member


# Words of platform, coordination and output.


class Topology(Choice):
    """Connection of the nodes."""

    FULLY_CONNECTED = "fully-connected"
    STAR = "star"
    FAT_TREE = "fat-tree"
    DRAGONFLY = "dragonfly"
    TORUS = "torus"
    EDGE_LIST = "edge-list"


# Also what Slurm and checkpointing libraries call it.
class FailureRule(Choice, aliases={"fail": "die", "requeue": "restart", "checkpoint": "resume"}):
    """Handling of a job when one of its nodes fails."""

    DIE = "die"
    RESTART = "restart"
    RESUME = "resume"


class RequestRule(Choice):
    """When the batch level asks running applications for nodes."""

    NEVER = "never"
    HEAD_OF_QUEUE = "head-of-queue"


class AnswerRule(Choice):
    """Answer of an application to a request for nodes."""

    NEVER = "never"
    IDLE_ONLY = "idle-only"
    TOLERANCE = "tolerance"
    ALWAYS = "always"


class ReleasedNodes(Choice):
    """Recipients of nodes that were released early."""

    ANY = "any"
    SHORT_FIRST = "short-first"


class ForecastScope(Choice, aliases={"remaining-work": "remaining_work"}):
    """Forecasts of running jobs for the dispatcher."""

    ENDS = "ends"
    NODES = "nodes"
    REMAINING_WORK = "remaining_work"


class TraceLevel(Choice):
    """Level of detail of the OTF2 trace; each level includes those before it."""

    NONE = "none"
    JOBS = "jobs"
    NODES = "nodes"
    CHUNKS = "chunks"
    MESSAGES = "messages"

    @property
    def shows_chunks(self) -> bool:
        """Whether it needs every chunk."""
        return self in (TraceLevel.CHUNKS, TraceLevel.MESSAGES)


class TraceRows(Choice):
    """Rows of the OTF2 trace."""

    AUTO = "auto"
    CORES = "cores"
    NODES = "nodes"


# Words of batch and workload.


# The literature has first-fit backfilling, and aggressive backfilling for EASY.
class Backfill(Described, aliases={"first-fit": "greedy", "first_fit": "greedy", "aggressive": "easy"}):
    """Whether jobs may overtake the queue's head, and how it is protected."""

    NONE = "none", "start jobs in the queue's order; stop at the first that does not fit"
    GREEDY = "greedy", "skip jobs that do not fit and go on"
    EASY = (
        "easy",
        "the first that does not fit gets a reservation; later jobs may start if they do not delay it",
    )
    CONSERVATIVE = (
        "conservative",
        "every waiting job has a reservation, which is kept and only ever moves forward",
    )


class EasyRule(Choice):
    """Variant of EASY: the literature's, or that of a published simulator."""

    STANDARD = "standard"
    ACCASIM = "accasim"
    CQSIM = "cqsim"
    BATSCHED = "batsched"
    EASY_BF = "easy_bf"


class Compression(Choice):
    """Rounds of compression in conservative backfilling after an early release, or batsched's rule."""

    FIXPOINT = "fixpoint"
    ONE_ROUND = "one-round"
    EVERY_END = "every-end"
    CONSERVATIVE_BF = "conservative_bf"


class ClassSource(Choice):
    """Source of the classes of small and large jobs."""

    FOREST = "forest"
    ACTUAL = "actual"


class ShareOwner(Choice):
    """Owners whose usage fairshare sums."""

    USER = "user"
    GROUP = "group"


# Also what the orders amount to: one pass for all events of a time, or a pass for each.
class TieOrder(Choice, aliases={"batched": "drained", "immediate": "per-event"}):
    """Order of simultaneous events, and number of passes."""

    DRAINED = "drained"
    PER_EVENT = "per-event"
    ENDS_FIRST = "ends-first"


class Engine(Choice):
    """Simulation engine of the batch level."""

    AUTO = "auto"
    SIMPY = "simpy"
    REPLAY = "replay"


# Balanced is what worst-fit leads to.
class Allocator(Described, aliases={"balanced": "worst-fit"}):
    """Selection of a job's nodes among the free ones."""

    FIRST_FIT = "first-fit", "the first nodes, in the platform's order, that have room"
    BEST_FIT = (
        "best-fit",
        "the busiest node first, anew after every unit; busy is the mean used share of what a node has",
    )
    WORST_FIT = "worst-fit", "the least busy node first, anew after every unit (alias balanced)"
    CONTIGUOUS = (
        "contiguous",
        "the shortest stretch of neighbouring nodes that holds the job; where there is none, first-fit, or "
        "it waits (contiguity: strict)",
    )
    RANDOM = "random", "nodes with room in random order, drawn for each job from the seed"
    TOPOLOGY_AWARE = (
        "topology-aware",
        "around the node from which the job's nodes are the fewest links away: smallest radius, then "
        "smallest sum of links",
    )
    HETEROGENEITY_AWARE = (
        "heterogeneity-aware",
        "where the least of what few nodes have, and the job does not ask for, lies idle; then the busiest; "
        "it counts nodes that have a resource, not jobs that want it: demand-aware does",
    )
    DEMAND_AWARE = (
        "demand-aware",
        "off nodes with scarce resources that other jobs ask for, by how many do; then the busiest; a part "
        "of such nodes is kept for those jobs (batch.reserve)",
    )


class Contiguity(Choice):
    """Handling of a job that finds no neighbouring nodes."""

    PREFER = "prefer"
    STRICT = "strict"


class Dispatcher(Described):
    """Dispatcher, which decides which jobs start, and on which nodes."""

    solves: bool  # it plans by constraint programming

    QUEUE = "queue", "policy, backfill and allocator decide", False
    REJECT = "reject", "turns every job away: what the simulator itself costs", False
    RECORDED = "recorded", "each job starts at its recorded start, on its recorded nodes", False
    PRB = "prb", "the largest (w + p) / p first, best-fit, on past jobs that do not fit", False
    CP = "cp", "list schedules on classes of nodes, made better by CP-SAT; ours", True
    LISTS = "lists", "the list schedules of cp alone; ours", True
    HCP19 = "hcp19", "times on pooled resources by CP, then best-fit (HCP'19, HCP3)", True
    PCP19 = "pcp19", "times and nodes by CP, an optional interval per unit and node (PCP'19, PCP3)", True
    PCP4 = "pcp4", "times and nodes by CP, a count of units per job and node (PCP4)", True
    PCP21 = "pcp21", "times and nodes by CP, a box per unit and resource type (PCP'21)", True
    PCP21S = "pcp21s", "PCP'21 for requests that are all alike (PCP'21s)", True
    HCP1 = "hcp1", "HCP, version 1: objective from ewt, reduced model, search control", True
    HCP2 = "hcp2", "HCP, version 2: version 1 with underestimated jobs taken as 1 s", True
    PCP1 = "pcp1", "PCP, version 1: objective from ewt, reduced model, search control", True
    PCP2 = "pcp2", "PCP, version 2: version 1 with underestimated jobs taken as 1 s", True


class PlanGoal(Choice):
    """Objective of dispatchers cp and lists: a mean over jobs, or the time until the last one ends."""

    SLOWDOWN = "slowdown"
    BOUNDED_SLOWDOWN = "bounded-slowdown"
    WAIT = "wait"
    MAKESPAN = "makespan"


# Also in the words of resource managers.
class OverrunRule(Choice, aliases={"terminate": "kill", "continue": "extend"}):
    """Handling of a job that runs past its walltime."""

    EXTEND = "extend"
    KILL = "kill"


# W, R and D1, as the sources write them.
class Predictor(Described, aliases={"W": "walltime", "R": "actual", "D1": "D"}):
    """Predictor of the run times that the dispatcher uses."""

    source: str  # publication

    WALLTIME = "walltime", "what the user asked for (alias W)", ""
    ACTUAL = "actual", "the run time itself, which nobody can know (alias R)", ""
    DATA_DRIVEN = (
        "D",
        "last run time of a similar job of the user: by name, queue, walltime and request, then by less",
        "Galleguillos 2020, §4.1",
    )
    CONFIDENT = (
        "D2",
        "the walltime, for users whose last 3 jobs used 80 % of theirs in the mean; D for all others",
        "Galleguillos 2020, §4.2",
    )
    LAST_TWO = "L2", "mean of the user's last two run times", "Tsafrir et al. 2007"
    EASY_PLUS_PLUS = (
        "EASY++",
        "L2, raised in steps for jobs that outlive their prediction",
        "Tsafrir et al. 2007",
    )
    FOREST_MEAN = (
        "forest-mean",
        "mean by a random forest over features of jobs, which learns weekly; needs scikit-learn",
        "features: Zrigui 2021, Table 6.3",
    )
    FOREST_QUANTILE = (
        "forest-quantile",
        "the same, of a quantile (batch.quantile)",
        "features: Zrigui 2021, Table 6.3",
    )


class WorkloadFormat(Choice):
    """Format of the file of jobs."""

    AUTO = "auto"
    SWF = "swf"
    CSV = "csv"
    PARQUET = "parquet"
    BATSIM = "batsim"
    SACCT = "sacct"
    PBS = "pbs"
    SGE = "sge"
    RUN = "run"
    _ignore_ = "_word"
    for _word in words_of_modules("workload", "_log.py"):  # formats are declared there
        if _word.upper() not in vars():
            vars()[_word.upper()] = _word


class WorkloadModel(Choice):
    """Model that draws the jobs of a generated workload."""

    LUBLIN = "lublin"
    POISSON = "poisson"
    WEIBULL = "weibull"
    _ignore_ = "_word"
    for _word in words_of_modules("workload/models", "_model.py"):  # models are declared there
        if _word.upper() not in vars():
            vars()[_word.upper()] = _word


class JobKinds(Choice):
    """The kinds of jobs of the model of Lublin and Feitelson."""

    BOTH = "both"
    BATCH = "batch"
    INTERACTIVE = "interactive"
    TYPELESS = "typeless"


class ResampledBy(Choice):
    """Unit of resampling a log: weeks per user, or whole weeks."""

    USER = "user"
    WEEK = "week"


class EstimateModel(Choice):
    """Source of the walltimes of a generated workload, if not a factor."""

    PERFECT = "perfect"
    TSAFRIR = "tsafrir"


# Packed means that nodes are not shared.
class Mapping(Choice, aliases={"whole-nodes": "packed"}):
    """Mapping of a processor of the log to the machine: a core, a node, or a share of whole nodes."""

    CORE = "core"
    NODE = "node"
    PACKED = "packed"


class MemorySource(Choice):
    """Source of the memory that a unit requests."""

    NONE = "none"
    REQUESTED = "requested"
    USED = "used"


# What the user asked, and an estimate without error.
class EstimateSource(Choice, aliases={"walltime": "request", "perfect": "actual"}):
    """Source of the run times that the dispatcher uses."""

    REQUEST = "request"
    ACTUAL = "actual"


class CleaningRule(Choice):
    """Handling of a job that meets a cleaning rule."""

    KEEP = "keep"
    DROP = "drop"
    CLAMP = "clamp"


# As users have it: they took the job back.
class NeverRan(Choice, aliases={"cancel": "withdraw", "drop": "leave-out"}):
    """Handling of a job that was cancelled while it waited in the log, and never ran."""

    WITHDRAW = "withdraw"
    LEAVE_OUT = "leave-out"
    KEEP = "keep"


class RequeueRule(Choice, aliases={"attempts": "separate", "one": "join"}):
    """Reading of the attempts of a job that returned to the queue in the log."""

    SEPARATE = "separate"
    JOIN = "join"


class WeekEvent(Choice):
    """By what a job belongs to a week of its log."""

    START = "start"
    SUBMIT = "submit"


# In the order of the calendar module: Monday is 0.
class WeekBegin(Choice):
    """Begin of the weeks of a log."""

    MONDAY = "Monday"
    TUESDAY = "Tuesday"
    WEDNESDAY = "Wednesday"
    THURSDAY = "Thursday"
    FRIDAY = "Friday"
    SATURDAY = "Saturday"
    SUNDAY = "Sunday"
    FIRST_JOB = "first-job"
    MONTH = "month"


class CrossingRule(Choice, aliases={"drop": "remove"}):
    """Handling of a job that in the log ended in a later week than its own."""

    KEEP = "keep"
    REMOVE = "remove"


# Words of application.


class ApplicationModel(Choice, aliases={"fixed": "rigid"}):
    """Application of a job: a fixed run time, or a parallel loop."""

    RIGID = "rigid"
    LOOP = "loop"


# Also under other names of the distributions.
class CostProfile(Choice, aliases={"gaussian": "normal", "log-normal": "lognormal"}):
    """Source of the costs of a loop's iterations."""

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


class Calibration(Choice, aliases={"work": "run-time"}):
    """Whether iteration costs are scaled to the run times of the log."""

    NONE = "none"
    RUN_TIME = "run-time"
    RECORDED = "recorded"


class Technique(Choice, aliases={alias: each.name for each in TECHNIQUES.values() for alias in each.aliases}):
    """The rule for chunk sizes (Eleliemy 2021, §2.1); its words are the names of the records."""

    _ignore_ = "_name"
    for _name in TECHNIQUES:  # techniques are declared there: AWF_B is the member of AWF-B
        vars()[_name.replace("-", "_").upper()] = _name

    @property
    def entry(self) -> TechniqueEntry:
        """The record of the technique."""
        return TECHNIQUES[self.value]


class Statistics(Choice):
    """Source of the iteration times that a technique uses."""

    GIVEN = "given"
    PROFILED = "profiled"


class StaticShare(Choice):
    """Source of PLS's static workload ratio, if it is not given."""

    SAMPLED = "sampled"


class Growth(Choice):
    """Growth of the chunks of VISS from batch to batch."""

    CONVERGING = "converging"
    GEOMETRIC = "geometric"


class WeighedSize(Choice):
    """Size that AWF-C and AWF-E weigh at every request."""

    REST = "rest"
    BATCH = "batch"


class Compat(Choice):
    """Implementation whose interpretation of the techniques is followed, if any."""

    NONE = "none"
    LB4MPI = "lb4mpi"


class SelectionMethod(Choice):
    """Method of choosing the technique of a time step."""

    EXPERT = "expert"
    EXHAUSTIVE = "exhaustive"
    RANDOM = "random"
    RL = "rl"
    SIMULATION = "simulation"


class LearnsOver(Choice, aliases={"execution": "job"}):
    """Executions whose time steps a selection learns from."""

    JOB = "job"
    APPLICATION = "application"
    EXECUTABLE = "executable"


class SelectionGoal(Choice):
    """Objective of the choice of a technique."""

    T_LOOP = "t_loop"
    IMBALANCE = "imbalance"


class KnownCosts(Choice):
    """Iteration costs that a choice by simulation assumes."""

    MEASURED = "measured"
    PROFILE = "profile"


class TemporalDifference(Choice):
    """Update rule of action values in reinforcement learning."""

    Q_LEARNING = "q-learning"
    SARSA = "sarsa"


class WeightSource(Choice):
    """Source of the weights of the PEs, if they are not listed."""

    SPEED = "speed"
    EQUAL = "equal"


class ExecutionModel(
    Choice, aliases={alias: each.name for each in MODELS.values() for alias in each.aliases}
):
    """Execution model, by chunk computation (Eleliemy 2021, ch. 4 and 5): on one level, on two, or per PE."""

    CCA = "cca"
    DCA = "dca"
    HMW = "hmw"
    HDCA = "hdca"
    _ignore_ = "_name"
    for _name in MODELS:  # models are declared there: MPI_OPENMP is the member of mpi+openmp
        if _name.upper() not in vars():
            vars()[_name.replace("+", "_").upper()] = _name

    @property
    def entry(self) -> ModelEntry:
        """The record of the model."""
        return MODELS[self.value]


class GlobalP(Choice):
    """P of a technique between nodes."""

    NODES = "nodes"
    PES = "pes"


class MasterRole(Choice):
    """Whether a master executes iterations itself."""

    DEDICATED = "dedicated"
    NON_DEDICATED = "non-dedicated"


# Locks in order of arrival are called ticket locks.
class LockOrder(Choice, aliases={"ticket": "fifo"}):
    """Order in which waiting PEs acquire a lock."""

    FIFO = "fifo"
    POLLING = "polling"


class MeasuredCosts(Choice):
    """Machine whose measured costs of scheduling are charged."""

    NONE = "none"
    MPICH_EPYC = "mpich-epyc"


class MasterAnswers(Choice, aliases={"between_iterations": "between-iterations"}):
    """When a master that executes chunks itself answers requests."""

    BETWEEN_ITERATIONS = "between-iterations"
    INSIDE = "inside"
    THREAD = "thread"


# FCFS: first come, first served.
class ServiceOrder(Choice, aliases={"fcfs": "fifo"}):
    """Order in which the coordinator serves waiting requests."""

    FIFO = "fifo"
    LOWEST_RANK = "lowest-rank"
