"""Workloads that a model draws."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from mlsim._runtime.arrays import Ints
from mlsim._runtime.work_progress import followed, stage
from mlsim.errors import InputError
from mlsim.scenario import field_types, section_base, words, workload_section
from mlsim.scenario.resources_section import DrawnRequest, parse_requests
from mlsim.workload.log_fields import DAY, Header
from mlsim.workload.models import model_base
from mlsim.workload.models.accasim_generator import Learned, is_model_file, read_model
from mlsim.workload.models.drawn_requests import request_words, with_requests
from mlsim.workload.models.tsafrir import Walltimes
from mlsim.workload.workload_jobs import JobBlock, LogBlock, log_of, named_columns

if TYPE_CHECKING:
    import polars as pl

PLACE = Path("workload.generate")  # Prefix of messages about generated jobs, in place of a log


class Made(ABC):
    """A workload that is made, not read."""

    @property
    @abstractmethod
    def header(self) -> Header:
        """Header of a log of these jobs, with their derivation."""

    @property
    def place(self) -> Path:
        """Beginning of messages about its jobs."""
        return PLACE

    @property
    def identity(self) -> str | None:
        """Key of these jobs, so that runs may share them; None if there is none."""
        return None

    @property
    def length(self) -> int | None:
        """Number of jobs, about; None if that is not known before they are made."""
        return None

    @abstractmethod
    def blocks(self) -> Iterator[JobBlock]:
        """Yield the jobs in arrival order, in blocks; the same ones at every call."""

    def jobs(self) -> JobBlock:
        """Return all jobs at once."""
        return JobBlock.concatenate(list(self.blocks()))

    def frame(self) -> pl.DataFrame:
        """Return all jobs as a data frame, with the columns of CSV workloads, which ``mlsim.run`` takes."""
        import polars as pl

        return pl.DataFrame(named_columns(log_of(self.jobs()), self.header, all_names=True))

    def write(self, path: str | Path) -> int:
        """Write the jobs as SWF, CSV or Parquet by suffix, compressed or not; return their number."""
        from mlsim.workload.log_formats import write_blocks

        header = self.header
        with stage("jobs", self.length) as work:
            blocks = followed(self.blocks(), work, len)
            return write_blocks(Path(path), header, map(log_of, blocks))


_DEFAULT_PROCESSORS = 128


@dataclass(frozen=True, slots=True)
class Plan:
    """Arguments of :func:`generate`, checked."""

    model: str
    jobs: int | None
    end: float | None
    processors: int
    seed: int
    load: float | None
    estimates: words.EstimateModel | tuple[float, float] | None
    max_estimate: float | None
    kinds: words.JobKinds
    parameters: Mapping[str, float]
    nodes: int | None = None
    requests: tuple[DrawnRequest, ...] = ()
    per_unit: int = 1  # the most processors of a unit that has them


class Generated(Made):
    """A workload that a model draws; ``plan``: its arguments."""

    def __init__(self, plan: Plan) -> None:
        model_base.check_length(plan.jobs, plan.end)
        if plan.load is not None and not 0 < plan.load < np.inf:
            raise InputError(f"load: {plan.load:g}; allowed: a number above 0")
        self.plan = plan
        self._model = _model(plan)
        self._check_time()

    def _stream(self) -> Iterator[JobBlock]:
        """Yield the model's jobs without end, with their requests."""
        plan, model = self.plan, self._model
        if not plan.requests:
            return model.stream()
        speed = model.gflops if isinstance(model, Learned) else 1.0
        return with_requests(model.stream(), plan.requests, plan.per_unit, plan.seed, speed)

    def _check_time(self) -> None:
        """Reject a time in which too many jobs arrive, by the rate of the first ones."""
        if self.plan.end is None or self.plan.jobs is not None:
            return
        first = next(iter(self._stream()), None)
        if first is None or self.plan.end <= (last := float(first.submit_time[-1])):
            return
        if self.plan.load is not None:
            work = float(np.sum(first.run_time * first.processors))
            last = work / (self.plan.load * self.plan.processors)
        jobs = len(first) * self.plan.end / last if last > 0 else np.inf
        if jobs > model_base.MOST_JOBS:
            raise InputError(
                f"days: {self.plan.end / DAY:g}: about {jobs:.1e} jobs come in this time; allowed: a time "
                f"with {model_base.MOST_JOBS:,} jobs, or jobs, how many there are at most"
            )

    @property
    def identity(self) -> str | None:
        """Key of these jobs; None where user code draws them."""
        return repr(self.plan) if isinstance(self.plan.model, words.WorkloadModel) else None

    @cached_property
    def _extent(self) -> model_base.Extent:
        plan = self.plan
        if plan.load is None:
            return model_base.Extent(plan.jobs, plan.end)
        length = (plan.jobs, plan.end)
        return model_base.extent_of_load(self._stream(), *length, plan.load, plan.processors)

    @property
    def stretch(self) -> float:
        """Factor of the model's times between arrivals, for the load; 1 where none is given."""
        return self._extent.stretch

    @cached_property
    def _run_times(self) -> tuple[Ints, Ints]:
        """Run times, rounded up to whole seconds, and the number of jobs of each."""
        times, counts = np.empty(0, np.int64), np.empty(0, np.int64)
        for block in self._drawn():
            some, of_some = np.unique(np.ceil(block.run_time).astype(np.int64), return_counts=True)
            times, place = np.unique(np.concatenate([times, some]), return_inverse=True)
            counts = np.bincount(place, np.concatenate([counts, of_some]), times.size).astype(np.int64)
        return times, counts

    def _drawn(self) -> Iterator[JobBlock]:
        extent = self._extent
        drawn = model_base.cut(self._stream(), extent.jobs, extent.end)
        return model_base.stretched(drawn, extent.stretch)

    def _walltimes(self) -> Walltimes | None:
        """Return popular walltimes, where these are asked for."""
        if self.plan.estimates is not words.EstimateModel.TSAFRIR:
            return None
        return Walltimes(self._run_times, self.plan.max_estimate, self.plan.seed)

    def blocks(self) -> Iterator[JobBlock]:
        """Yield the jobs in arrival order, in blocks of bounded size; the same ones at every call."""
        walltimes = self._walltimes()
        return self._drawn() if walltimes is None else walltimes.over(self._drawn())

    @cached_property
    def header(self) -> Header:
        """Header of a log of these jobs, with their derivation."""
        plan, header = self.plan, dict(self._model.header)
        note = str(header["Note"])
        if plan.load is not None:
            note += f", load {plan.load!r} by times between arrivals x {self.stretch!r}"
        if (walltimes := self._walltimes()) is not None:
            largest = walltimes.largest
            of_model = f", {model_base.factor_words((1.0, 1.0))}"
            note = note.replace(of_model, "") + f", walltimes of Tsafrir et al. 2005 up to {largest} s"
        if plan.requests:
            header["request_columns"] = [request.name for request in plan.requests]
            note += f", {request_words(plan.requests, plan.per_unit)}"
        if plan.nodes is not None:
            header["MaxNodes"] = str(plan.nodes)
        return header | {"Note": note}


class MadeReader:
    """Reader of a workload that is made, like :class:`mlsim.workload.log_formats.LogReader`."""

    streams = True
    broken_lines = 0
    counts: ClassVar[dict[str, int]] = {}

    def __init__(self, made: Made) -> None:
        self._made = made
        self.path = made.place
        self.header = made.header
        self.jobs = 0

    def blocks(self) -> Iterator[LogBlock]:
        """Yield the jobs."""
        for block in self._made.blocks():
            self.jobs += len(block)
            yield log_of(block)


def generate(
    model: str = "lublin",
    *,
    jobs: int | None = None,
    days: float | None = None,
    processors: int | None = None,
    nodes: int | None = None,
    seed: int = 0,
    load: float | None = None,
    estimates: str | float | Sequence[float] | None = None,
    max_estimate: float | None = None,
    kinds: str = "both",
    parameters: Mapping[str, float] | None = None,
    requests: Mapping[str, object] | None = None,
    processors_per_unit: int = 1,
    gflops: Mapping[str, float] | None = None,
) -> Generated:
    """Make a workload of a model.

    Parameters
    ----------
    model
        ``lublin``, ``poisson``, ``weibull``, a file of ``mlsim workload fit`` (``model.json``),
        ``./file.py:Name``, or the name of an entry point in the group ``mlsim.workloads``.
    jobs
        How many; None: as many as there are in the time.
    days
        Days in which jobs are submitted; None: until there are enough jobs.
    processors
        Of the machine; the sizes of jobs follow. None: 128, of a learned model those of the log's machine.
    nodes
        Of the machine, for the header of a log; None: left out.
    seed
        Of all random numbers.
    load
        Offered load, reached by one factor on all times between arrivals; None: the model's own.
    estimates
        ``perfect``, ``tsafrir``, a factor of the run time, or two of them between which one is drawn for each
        job. None: as in a user-defined model, else perfect.
    max_estimate
        Largest walltime [s] of estimates ``tsafrir``; None: the longest run time in whole hours.
    kinds
        Which jobs of model ``lublin``: both, batch, interactive, typeless.
    parameters
        Other values of the model's parameters, by name (``batch.aarr`` of model ``lublin``); those of a
        model of the user's own may be of any type.
    requests
        Amounts of resources per unit, drawn for each job: ``{"gpu": "1:2@0.25", "memory": "1 GB:8 GB"}``.
    processors_per_unit
        With requests: the most processors of a unit; larger sizes are rounded up to multiples of it.
    gflops
        Of a learned model: GFLOP/s of one of a requested resource, which shortens run times.

    Raises
    ------
    InputError
        If an argument makes no sense.

    Examples
    --------
    >>> made = generate("poisson", jobs=1000, processors=16, load=0.5)
    >>> len(made.jobs()), int(made.jobs().processors.max())
    (1000, 16)
    """
    word = _word_of(model)
    name: str = model if word is None else word
    if is_model_file(model) and parameters:
        raise InputError(f"{model}: a learned model has no parameters; leave them out")
    if word is None:
        name, parameters = section_base.with_parameters(model, parameters or {}), None
    walltimes = _estimates(estimates)
    if max_estimate is not None and walltimes is not words.EstimateModel.TSAFRIR:
        raise InputError("max-estimate: needs estimates tsafrir; ask for these, or leave it out")
    chosen = _kinds(kinds, model)
    end = None if days is None else days * DAY
    processors = _processors_of(name) if processors is None else processors
    _check_units(processors_per_unit, processors, bool(requests))
    drawn = parse_requests(requests or {}, _speeds(gflops, model))
    more = (load, walltimes, max_estimate, chosen, parameters or {}, nodes, drawn, processors_per_unit)
    return Generated(Plan(name, jobs, end, processors, seed, *more))


def _word_of(model: str) -> words.WorkloadModel | None:
    try:
        return words.WorkloadModel(model)
    except ValueError:
        return None


def _kinds(kinds: str, model: str) -> words.JobKinds:
    """Return the jobs of model lublin that are asked for."""
    try:
        chosen = words.JobKinds(kinds)
    except ValueError:
        near = field_types.nearest(kinds, list(words.JobKinds))
        raise InputError(f"kinds: {kinds!r};{near} allowed: {', '.join(words.JobKinds)}") from None
    if _word_of(model) is not words.WorkloadModel.LUBLIN and chosen is not words.JobKinds.BOTH:
        raise InputError(f"kinds: read by model lublin only, and the model is {model}; leave it out")
    return chosen


def _processors_of(model: str) -> int:
    return read_model(model).processors if is_model_file(model) else _DEFAULT_PROCESSORS


def _speeds(gflops: Mapping[str, float] | None, model: str) -> Mapping[str, float] | None:
    if gflops and not is_model_file(model):
        raise InputError(f"gflops: read by a learned model only, and the model is {model}; leave it out")
    return gflops


def _check_units(per_unit: int, processors: int, requests: bool) -> None:
    """Check the most processors of a unit, which divide those of the machine."""
    if per_unit < 1 or (per_unit > 1 and not requests):
        raise InputError(f"processors-per-unit: {per_unit}; allowed: 1 or more, with requests")
    if requests and processors % per_unit:
        raise InputError(f"processors-per-unit: {per_unit} does not divide the {processors} of the machine")


def planned(config: workload_section.GenerateConfig, model: str, processors: int, seed: int) -> Generated:
    """Return the workload of a scenario's section ``workload.generate``; ``processors``: of the platform."""
    processors = processors if config.processors is None else config.processors
    seed = seed if config.seed is None else config.seed
    walltimes = (config.load, config.estimates, config.max_estimate)
    parameters, requests, per_unit = config.split_parameters()
    drawn = parse_requests(requests)
    try:
        _check_units(int(per_unit), processors, bool(drawn))
    except InputError as error:
        raise InputError(f"workload.generate.parameters: {error}") from None
    more = (*walltimes, config.kinds, parameters, None, drawn, int(per_unit))
    return Generated(Plan(model, config.jobs, config.duration, processors, seed, *more))


def _estimates(
    given: str | float | Sequence[float] | None,
) -> words.EstimateModel | tuple[float, float] | None:
    if given is None:
        return None
    if isinstance(given, str):
        try:
            return words.EstimateModel(given)
        except ValueError:
            raise InputError(
                f"estimates: {given!r}; allowed: {', '.join(words.EstimateModel)}, a factor, or two of them"
            ) from None
    low, high = (given, given) if isinstance(given, int | float) else given
    return float(low), float(high)


def _model(plan: Plan) -> model_base.Model:
    """Make the model of a plan."""
    factor = plan.estimates if isinstance(plan.estimates, tuple) else None
    if plan.estimates is words.EstimateModel.PERFECT:
        factor = (1.0, 1.0)
    options = model_base.Drawing(plan.processors, plan.seed, factor, plan.parameters, plan.kinds)
    if is_model_file(plan.model):
        return Learned(read_model(plan.model), options)
    if isinstance(plan.model, words.WorkloadModel):
        return model_base.model_record(plan.model).make(options)
    from mlsim.workload.user_workloads import OwnModel  # imports the plug-ins, which takes 40 ms

    return OwnModel(plan.model, options)
