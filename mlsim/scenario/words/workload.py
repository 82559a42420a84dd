"""Words of the section ``workload``."""

from __future__ import annotations

from mlsim.scenario.words.choice import Choice

__all__ = [
    "CleaningRule",
    "CrossingRule",
    "EstimateModel",
    "EstimateSource",
    "JobKinds",
    "Mapping",
    "MemorySource",
    "NeverRan",
    "ResampledBy",
    "WeekBegin",
    "WeekEvent",
    "WorkloadFormat",
    "WorkloadModel",
]


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
