"""The sections ``workload`` and ``workload.generate``."""

from collections.abc import Iterator
from pathlib import PurePath
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import Field

from mlsim.errors import InputError
from mlsim.scenario import amount_types, field_types, resources_section, words
from mlsim.scenario.section_base import Parameters, Section, Violation, plugin_name

WorkloadModelName = Annotated[str, plugin_name(words.WorkloadModel, "mlsim.workloads")]
_ANY = field_types.number(-1e300, 1e300)
_MODELS_OF_WALLTIMES = field_types.word_of(words.EstimateModel)


_REQUEST = "request."  # before the name of a resource, among the parameters of a model
_PER_UNIT = "processors_per_unit"


def _parameter(name: object, value: object) -> tuple[str, float | str]:
    try:
        return str(name), str(value) if str(name).startswith(_REQUEST) else _ANY.read(value)
    except ValueError:
        raise ValueError(f"{name}: {field_types.shown(value)}") from None


_PARAMETERS = field_types.mapping_of("names with numbers, e.g. {batch.aarr: 7}", _parameter, {})


def _read_parameters(value: object) -> field_types.Pairs[str, float | str]:
    """Read a mapping; a nested mapping is flattened to names with a point."""
    if not isinstance(value, dict | field_types.Pairs):
        return _PARAMETERS.read(value)
    flat: dict[str, object] = {}
    for name, item in value.items():
        inner = item if isinstance(item, dict) else {"": item}
        flat |= {f"{name}.{part}" if part else str(name): each for part, each in inner.items()}
    return _PARAMETERS.read(flat)


_NUMBER_OR_TEXT = {"type": ["number", "string"]}  # a text is the range of a request
_NUMBER_OR_NESTED = {"anyOf": [_NUMBER_OR_TEXT, {"type": "object", "additionalProperties": _NUMBER_OR_TEXT}]}
ModelParameters = Annotated[
    field_types.Pairs[str, float | str],
    field_types.FieldType(
        _PARAMETERS.allowed,
        _read_parameters,
        {"type": "object", "additionalProperties": _NUMBER_OR_NESTED},
        _PARAMETERS.show,
    ),
]


def _read_walltimes(value: object) -> words.EstimateModel | tuple[float, float]:
    if isinstance(value, str):
        try:
            return words.EstimateModel(value)
        except ValueError:
            raise ValueError(f"{field_types.shown(value)} is not known") from None
    ends = list(value) if isinstance(value, list | tuple) else [value, value]
    if len(ends) != 2:
        raise ValueError(f"{field_types.shown(value)} is no pair")
    try:
        low, high = map(field_types.POSITIVE.read, ends)
    except ValueError:
        raise ValueError(f"{field_types.shown(value)} is no factor") from None
    if low > high:
        raise ValueError(f"{field_types.shown(value)}: the first is above the second")
    return low, high


Walltimes = Annotated[
    words.EstimateModel | tuple[float, float],
    field_types.FieldType(
        f"{_MODELS_OF_WALLTIMES.allowed}; a factor, more than 0; [low, high], two of them",
        _read_walltimes,
        {
            "anyOf": [
                {"enum": [word.value for word in words.EstimateModel]},
                field_types.POSITIVE.json(),
                amount_types.list_schema(field_types.POSITIVE.json(), 2, 2),
            ]
        },
        lambda value: (
            value.value if isinstance(value, words.EstimateModel) else amount_types.show_range(value)
        ),
    ),
]


class GenerateConfig(Section):
    """Model and number of generated jobs; see docs/reference/workloads.md."""

    model: WorkloadModelName = Field(examples=["lublin"])
    """The model: lublin (Lublin and Feitelson 2003), poisson or weibull (arrivals of that kind, plain sizes
    and run times, for tests), a class or function in a file, or an installed one.
    """
    jobs: Annotated[int, field_types.whole(1, 1_000_000_000)] | None = Field(None, examples=[10_000])
    """How many jobs. This, duration or both must be given; with both, whichever ends first."""
    duration: amount_types.Duration | None = Field(None, examples=["365 d"])
    """Time in which jobs are submitted (s)."""
    seed: field_types.Natural | None = None
    """Seed of the jobs. Default: that of the scenario."""
    processors: Annotated[int, field_types.whole(1, 1 << 30)] | None = None
    """Processors of the machine that the jobs are meant for, in the sense of workload.mapping; sizes and load
    follow. Default: those of the platform. More than these need cleaning.oversize: clamp or drop.
    """
    load: Annotated[float, field_types.POSITIVE] | None = Field(None, examples=[0.8])
    """Offered load: run time x processors of all jobs, over the machine's processors x the time until the
    last submission (with duration: x that). Reached by one factor on all times between arrivals. Default: the
    model's own.
    """
    kinds: field_types.OneOf[words.JobKinds] = words.JobKinds.BOTH
    """Which jobs of model lublin: both, batch, interactive, or typeless (parameters of all jobs together)."""
    parameters: ModelParameters | None = Field(None, examples=[{"batch.aarr": 7}])
    """Other values of parameters of a model of mlsim's own, by name, e.g. {batch.aarr: 7} of lublin. Default:
    as published. Models of your own have theirs beside their name, {class: ..., parameters: {...}}. With any
    model, {request.gpu: "1:2@0.25", processors_per_unit: 8} draws requests of units for resources, as
    --request of mlsim workload generate does.
    """
    estimates: Walltimes | None = Field(None, examples=["tsafrir"])
    """Walltimes of the jobs: perfect (run times), tsafrir (20 popular values, Tsafrir, Etsion and Feitelson
    2005), a factor of the run time, or [low, high], between which one is drawn for each job. Default: what a
    model of your own says, else perfect.
    """
    max_estimate: amount_types.Duration | None = Field(None, examples=["36 h"])
    """Largest walltime (s) that the system lets users ask for, with estimates: tsafrir. Default: the longest
    run time, rounded up to whole hours.
    """

    def split_parameters(self) -> tuple[dict[str, float], dict[str, float | str], float]:
        """Return parameters of the model, requests by resource, and the most processors of their units."""
        given = dict(self.parameters or {})
        per_unit = given.pop(_PER_UNIT, 1)
        requests = {
            key.removeprefix(_REQUEST): given.pop(key) for key in [*given] if key.startswith(_REQUEST)
        }
        return {key: float(value) for key, value in given.items()}, requests, float(per_unit)

    def broken_rules(self) -> Iterator[Violation]:
        """Check that there is an end, and that every given key is read."""
        if self.jobs is None and self.duration is None:
            yield Violation("jobs", "missing; give jobs, duration, or both", ("duration",))
        yield from self.unread(("kinds",), "model", words.WorkloadModel.LUBLIN, "; take it out")
        parameters, requests, per_unit = self.split_parameters()
        if parameters and not isinstance(self.model, words.WorkloadModel):
            message = f"write {{class: {self.model}, parameters: {{...}}}} at model, in place of this"
            yield Violation("parameters", message, ("model",))
        try:
            resources_section.parse_requests(requests)
        except InputError as error:
            yield Violation("parameters", str(error))
        if per_unit < 1 or not per_unit.is_integer() or (per_unit > 1 and not requests):
            message = f"{_PER_UNIT}: {per_unit:g}; allowed: a whole number, 1 or more, with request.RESOURCE"
            yield Violation("parameters", message)
        if self.max_estimate is not None and self.estimates is not words.EstimateModel.TSAFRIR:
            message = "needs estimates: tsafrir; write that, or take it out"
            yield Violation("max_estimate", message, ("estimates",))


class MeasuredPowerConfig(Section):
    """Power over time of jobs, such as `mlsim learn energy --steps` writes it."""

    path: field_types.Line = Field(examples=["steps.csv"])
    """CSV or Parquet file of steps: job_id, time (s from the job's start, 0 first), power (W of a node all of
    whose cores it holds) and, optionally, period (s, after which the steps begin again; empty: the last one
    holds). Looked up as workload.path. Jobs that it does not name take the busy power of their nodes.
    """


MOST_WEEKS = 100_000


class ResampleConfig(Section):
    """Weeks of the log, put together anew before anything is selected (Zrigui 2021, Algorithm 2)."""

    weeks: Annotated[int, field_types.whole(1, MOST_WEEKS)] = Field(examples=[10])
    """How many weeks the new workload has."""
    by: field_types.OneOf[words.ResampledBy] = words.ResampledBy.USER
    """Whose weeks are drawn, with replacement: user (of each user by itself) or week (of all together)."""
    seed: field_types.Natural | None = None
    """Of the draws. Default: the scenario's, so that seeds of a study are samples."""


_KEEP, _DROP, _CLAMP = words.CleaningRule
Rule = field_types.OneOf[words.CleaningRule]
KeepOrDrop = Annotated[words.CleaningRule, field_types.word_of(words.CleaningRule, _KEEP, _DROP)]
DropOrClamp = Annotated[words.CleaningRule, field_types.word_of(words.CleaningRule, _DROP, _CLAMP)]


class WindowConfig(Parameters):
    """A stretch of the log."""

    start: amount_types.Seconds = Field(examples=["0 s"])
    """Start of the window (s after the first job's arrival); jobs submitted then are taken."""
    end: amount_types.Duration = Field(examples=["7 d"])
    """End of the window (s after the first job's arrival); jobs submitted then are not taken."""

    def broken_rules(self) -> Iterator[Violation]:
        """Check that the window has a positive length."""
        if self.end <= self.start:
            yield Violation("end", "is not after start; allowed: a later time than start", ("start",))


class DatesConfig(Parameters):
    """A period of the calendar; the log's header has its start (UnixStartTime) and time zone."""

    start: amount_types.Moment | None = Field(None, examples=["2002-08-01"])
    """Jobs submitted from this date (0:00) or time on, on the clocks of the log's time zone. Default: from
    the first job.
    """
    end: amount_types.Moment | None = Field(None, examples=["2002-09-01"])
    """Jobs submitted before this date (0:00) or time. Default: to the last job."""

    def broken_rules(self) -> Iterator[Violation]:
        """Check that there is a bound."""
        if self.start is None and self.end is None:
            yield Violation("start", "missing; give start, end, or both")


class WeeksConfig(Section):
    """Division of the log into weeks, each of which is simulated alone (Zrigui 2021, §5.2)."""

    by: field_types.OneOf[words.WeekEvent] = words.WeekEvent.SUBMIT
    """By what a job belongs to a week: its submission, or its start in the log (submit time + recorded wait;
    the submit time where no wait is recorded).
    """
    begin: field_types.OneOf[words.WeekBegin] = words.WeekBegin.MONDAY
    """Weekday at 0:00 of which weeks begin, by the log's header (UnixStartTime), or first-job: with the
    arrival of the log's first job. Week 0 is the first whole one; what comes before it is left out. month:
    calendar months in place of weeks (Zrigui 2021, §5.9).
    """
    zone: field_types.Line | None = Field(None, examples=["Europe/Paris"])
    """Time zone of these clocks. Default: that of the log's header."""
    phase: amount_types.Seconds = Field(0.0, examples=["12 h"])
    """Time by which weeks begin later (s), less than a week: sums over weeks depend on where the cut lies."""
    crossing: field_types.OneOf[words.CrossingRule] = words.CrossingRule.KEEP
    """Jobs that in the log ended in a later week than their own: keep, or remove as the source does."""

    def broken_rules(self) -> Iterator[Violation]:
        """Check that the zone exists and is read, and that the phase is one."""
        if self.phase >= 604_800.0:
            yield Violation("phase", f"{self.phase:g} s is not less than a week; allowed: 0 s to below 7 d")
        if self.zone is None:
            return
        if self.begin is words.WeekBegin.FIRST_JOB:
            yield Violation("zone", "read where weeks begin on a weekday only; take it out", ("begin",))
        try:
            ZoneInfo(self.zone)
        except (OSError, ValueError, KeyError):  # zoneinfo raises all of them
            yield Violation("zone", f"{self.zone!r} is no time zone; allowed: names such as Europe/Paris")


class SelectConfig(Section):
    """Selection of the simulated jobs of the log."""

    warm_up: amount_types.Duration | None = None
    """Leave out the jobs of the log's first time of this length (s), often tests and not the usual workload
    (Zrigui 2021, §5.2); all else counts from the first job that is left.
    """
    window: WindowConfig | None = None
    """Take the jobs submitted in a window of time. Only one of window, weeks, dates and most_intensive."""
    weeks: amount_types.Weeks | None = Field(None, examples=["1-4"])
    """Take the jobs submitted in these weeks; week 1 begins with the first job's arrival. With
    workload.weeks: the jobs of these weeks as it cuts them, from 0.
    """
    dates: DatesConfig | None = None
    """Take the jobs submitted between calendar dates."""
    most_intensive: amount_types.Duration | None = None
    """Take the window of this length (s) with the most arrivals (Eleliemy 2021, §3.5: 24 h)."""
    week_crossers: KeepOrDrop = _KEEP
    """Jobs that in the log started in one week and ended in another; weeks count from the first job's arrival
    (Zrigui 2021, §5.2, drops them).
    """
    user: amount_types.Users | None = Field(None, examples=[4])
    """Take the jobs of this user or of these users."""
    first: field_types.Count | None = None
    """Take the first so many jobs of what the other keys leave. Default: all."""
    scale_load: Annotated[float, field_types.POSITIVE] = 1.0
    """Factor of the load: the times between arrivals are divided by it, so that 2 lets jobs come twice as
    fast.
    """

    def broken_rules(self) -> Iterator[Violation]:
        """Check that there is only one stretch of time."""
        stretches = ("window", "weeks", "dates", "most_intensive")
        given = [key for key in stretches if getattr(self, key) is not None]
        for key in given[1:]:
            yield Violation(key, f"given together with {given[0]}; give one of them", (given[0],))


class CleaningConfig(Parameters):
    """Cleaning of odd jobs of the log; the number of jobs that met each rule is reported."""

    zero_run_time: Rule = _KEEP
    """Jobs that ran for 0 s: keep lets them start and end at once, clamp runs them 1 s."""
    unknown_run_time: DropOrClamp = _DROP
    """Jobs of unknown run time (-1): clamp runs them for their requested time."""
    cancelled: KeepOrDrop = _KEEP
    """Jobs the log calls cancelled (status 5)."""
    failed: KeepOrDrop = _KEEP
    """Jobs the log calls failed (status 0)."""
    no_processors: DropOrClamp = _DROP
    """Jobs that neither requested nor got a processor: clamp gives them one."""
    oversize: Rule = _KEEP
    """Jobs larger than the machine: keep leaves them to the batch level, which rejects and lists them; clamp
    gives them the whole machine for the same run time.
    """
    underestimate: Rule = _KEEP
    """Jobs that ran longer than their estimate: keep leaves them to batch.on_overrun, clamp raises the
    estimate to the run time.
    """


class WorkloadConfig(Section):
    """The jobs."""

    path: field_types.Line | None = Field(None, examples=["log.swf"])
    """The log. Looked up beside the scenario file, in the directories of $MLSIM_TRACES, in ./traces. This or
    generate must be given.
    """
    format: Annotated[str, plugin_name(words.WorkloadFormat, "mlsim.workloads", "function")] = (
        words.WorkloadFormat.AUTO
    )
    """Format of the log; auto tells by its content, after decompression. A function in a file may read it, or
    an installed one; see docs/reference/workloads.md.
    """
    lenient: field_types.Switch = False
    """Whether a broken line is skipped and counted; otherwise it is an error."""
    strict: field_types.Switch = False
    """Whether jobs of the log that ask for a resource which the platform lacks (memory, GPUs ...) are an
    error; otherwise these requests are ignored and counted.
    """
    columns: amount_types.Columns | None = Field(None, examples=[["deadline"]])
    """Further columns of the log, with names of your own, that policies and dispatchers of your own see
    (jobs.columns) and jobs.parquet keeps. Logs of format csv or parquet have them, and what a reader of your
    own returns. Default: none.
    """
    generate: GenerateConfig | None = Field(None, examples=[{"model": "lublin", "jobs": 10_000}])
    """In place of a log: a model that draws the jobs; see docs/reference/workloads.md."""
    resample: ResampleConfig | None = Field(None, examples=[{"weeks": 10}])
    """Weeks of the log put together anew, in place of the log. Default: the log as it is."""
    power: MeasuredPowerConfig | None = Field(None, examples=[{"path": "steps.csv"}])
    """Power over time of jobs, as it was measured, in place of the busy power of their nodes. Default: jobs
    take that.
    """
    mapping: field_types.OneOf[words.Mapping] = words.Mapping.PACKED
    """What a processor of the log is: core (one core), node (one whole node), or packed (so many whole nodes
    as have that many cores).
    """
    request: resources_section.RequestConfig = Field(default_factory=resources_section.RequestConfig)
    """What a unit of a job asks of a node beside its cores."""
    select: SelectConfig = Field(default_factory=SelectConfig)
    """Which jobs of the log are simulated. Default: all."""
    weeks: WeeksConfig | None = Field(None, examples=[{"begin": "Monday", "crossing": "remove"}])
    """How the log is cut into weeks. The jobs of whole weeks are simulated, or those of select.weeks, from 0.
    Default: select.weeks counts weeks of submission from the first job's arrival, from 1.
    """
    estimates: amount_types.Estimates = words.EstimateSource.REQUEST
    """Which run time the dispatcher sees: request (the log's requested time; where there is none the actual
    one, counted) or actual (a perfect estimate). A time, or times by partition or queue ('*': all others),
    replace missing requested times; a job that ran longer has its run time.
    """
    dependencies: field_types.Switch = False
    """Whether jobs wait for the jobs that the log says they depend on (SWF: preceding job and think time,
    fields 17 and 18; other formats: those, and a column dependencies); see
    docs/explanation/time-and-scheduling.md.
    """
    feedback: field_types.Switch = False
    """Whether a job that waits for others is submitted when they allow it, however early or late, as SWF
    defines its think time; otherwise not before the log's own submit time either. Needs dependencies: on, and
    holds the workload in memory as a whole.
    """
    never_ran: field_types.OneOf[words.NeverRan] | None = Field(None, examples=["withdraw"])
    """Jobs that were cancelled while they waited and never ran: withdraw (they leave the queue at the time at
    which they did in the log, unless they have started by then), leave-out, or keep (they get their
    processors for 0 s, however long that takes). Default: withdraw where the log has that time (sacct: End;
    column withdraw_time); jobs without it follow cleaning. Named here, withdraw reads field 3 of SWF, the
    wait, as the time until the job was cancelled.
    """
    requeued: field_types.OneOf[words.RequeueRule] = words.RequeueRule.SEPARATE
    """Attempts of a job that returned to the queue, in accounting that has a record of each (sacct
    --duplicates, PBS, Grid Engine): separate (each is a job, submitted when the one before it ended) or join
    (one job, with the first submission and the run of the last attempt).
    """
    cleaning: CleaningConfig = Field(default_factory=CleaningConfig)
    """What happens to odd jobs of the log."""

    @property
    def log_name(self) -> str:
        """Name of the jobs in messages and traces: the file's, or the model's."""
        if self.generate is not None:
            return f"{self.generate.model} (generated)"
        return "" if self.path is None else PurePath(self.path).name

    def broken_rules(self) -> Iterator[Violation]:
        """Check that the jobs have a single source, and that all keys on them are read."""
        yield from self._broken_origin()
        yield from self._broken_weeks()
        if self.resample is not None:
            if self.generate is not None:
                message = "is for logs, and generate draws the jobs; take it out"
                yield Violation("resample", message, ("generate",))
            for key in ("dependencies", "columns", "power"):
                if self.is_set(key):
                    message = "gets lost when weeks are resampled; take it out, or resample"
                    yield Violation(key, message, ("resample",))
        if self.feedback and not self.dependencies:
            message = "needs dependencies: on; write that, or take it out"
            yield Violation("feedback", message, ("dependencies",))

    def _broken_weeks(self) -> Iterator[Violation]:
        """Check that weeks are cut in one way, and counted as they are cut."""
        if self.weeks is None:
            if self.select.weeks is not None and self.select.weeks[0] < 1:
                message = "'0' names no weeks; allowed: weeks counted from 1 (from 0 with workload.weeks)"
                yield Violation("select.weeks", message, ("weeks",))
            return
        for key in ("window", "dates", "most_intensive"):
            if getattr(self.select, key) is not None:
                message = f"cuts the log into weeks, and select.{key} takes another stretch; give one of them"
                yield Violation("weeks", message, ("select",))
        if self.select.week_crossers is _DROP:
            message = "select.week_crossers counts weeks from the first job; write crossing: remove here"
            yield Violation("weeks", message, ("select",))

    def _broken_origin(self) -> Iterator[Violation]:
        """Check that there is a log or a model, and only what is read of it."""
        if self.generate is None:
            if self.path is None:
                message = "missing; give the log, or generate: a model that draws the jobs"
                yield Violation("path", message, ("generate",))
            return
        if self.path is not None:
            yield Violation("generate", "given together with path; give one of them", ("path",))
        for key in ("format", "lenient", "strict", "columns", "requeued"):
            if self.is_set(key):
                message = "is about logs that are read, and generate draws the jobs; take it out"
                yield Violation(key, message, ("generate",))
        if self.dependencies:
            message = "is for logs, and generated jobs depend on none; take it out"
            yield Violation("dependencies", message, ("generate",))
