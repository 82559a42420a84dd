"""The model of Lublin and Feitelson (2003): jobs of a parallel machine, batch and interactive.

Sizes are serial, powers of two, or between them, and the logarithm of a parallel size is uniform in two
stages. The logarithm of a run time is one of two gamma variables, and the larger the job, the more often the
second. The logarithm of an inter-arrival time is a gamma variable on a clock that runs fast in the hours in
which jobs come.
Numbers are those of the Parallel Workloads Archive's program for the model, under its names.

Where this departs from the program: submit times are cut to whole seconds and not each interval (which moves
every arrival by half a second); random numbers are numpy's; a power of two is never above the largest size.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from typing import Final

import numpy as np

from mlsim._runtime.arrays import Floats, Ints
from mlsim.errors import InputError
from mlsim.scenario.field_types import nearest
from mlsim.scenario.words import JobKinds as Kinds
from mlsim.workload.log_fields import DAY
from mlsim.workload.models.model_base import DRAWN, Drawing, ModelRecord, drawn_jobs, read_rows
from mlsim.workload.workload_jobs import JobBlock

_SOURCE: Final = "the model of Lublin and Feitelson 2003"
LARGEST_LOG_RUN_TIME: Final = 12.0
LARGEST_LOG_INTERVAL: Final = 13.0
SLOTS: Final = 48
SLOT: Final = 1800.0
FIRST_SLOT: Final = 11
_PUBLISHED_UHI = 7.0
_LEAST_PROCESSORS = 32
_SERIES_END = 1e-17


class JobKind(StrEnum):
    """A kind of jobs that has parameters of its own."""

    INTERACTIVE = "interactive"
    BATCH = "batch"
    TYPELESS = "typeless"


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters of the model for one kind of jobs.

    Sizes: ``serial_prob`` of the jobs are serial and ``pow2_prob`` have a power of two; the binary logarithm
    of a parallel size is uniform from ``ulow`` to ``umed`` with probability ``uprob``, else from ``umed`` to
    ``uhi``. Run times: the natural logarithm [s] is of one of two gamma distributions of shapes ``a1``,
    ``a2`` and scales ``b1``, ``b2``; of the first with the probability ``pa`` × size + ``pb``, cut to 0 and
    1. Arrivals: ``aarr`` and ``barr`` are shape and scale of the gamma distribution of the natural logarithm
    of the inter-arrival time [s] in rush hours, and ``arar`` the factor that turns this shape into that of
    the whole day; ``anum`` and ``bnum`` those of the distribution of arrivals over the half hours of a day.
    """

    serial_prob: float
    pow2_prob: float
    ulow: float
    umed: float
    uhi: float
    uprob: float
    a1: float
    b1: float
    a2: float
    b2: float
    pa: float
    pb: float
    aarr: float
    barr: float
    arar: float
    anum: float
    bnum: float


_ROWS = read_rows("lublin.csv", ("parameter", *JobKind))
PARAMETERS: Final = {
    kind: Parameters(**{row["parameter"]: float(row[kind]) for row in _ROWS}) for kind in JobKind
}
"""The parameters as published (``data/lublin.csv``), for a machine of 128 processors."""

_CODES = {JobKind.INTERACTIVE: 0, JobKind.BATCH: 1, JobKind.TYPELESS: 0}
_CHOSEN = {
    Kinds.BOTH: (JobKind.INTERACTIVE, JobKind.BATCH),
    Kinds.BATCH: (JobKind.BATCH,),
    Kinds.INTERACTIVE: (JobKind.INTERACTIVE,),
    Kinds.TYPELESS: (JobKind.TYPELESS,),
}
_POSITIVE = ("a1", "b1", "a2", "b2", "aarr", "barr", "arar", "anum", "bnum")
_SHARES = ("serial_prob", "pow2_prob", "uprob")


class Lublin:
    """A workload of the model; its parameters have names such as ``batch.aarr``.

    The published bounds of sizes, ``umed`` and ``uhi``, move by log2(processors / 128); given ones do not.
    """

    def __init__(self, options: Drawing) -> None:
        options.check_processors(_LEAST_PROCESSORS, ", as the model is about parallel machines")
        self._options = options
        self.parameters = {
            kind: moved(PARAMETERS[kind], options.processors) for kind in _CHOSEN[options.kinds]
        }
        kinds = {str(kind): kind for kind in self.parameters}
        names = [field.name for field in fields(Parameters)]
        for key, value in options.parameters.items():
            kind, _, name = key.partition(".")
            if not name:
                raise InputError(f"{key}: allowed: KIND.NAME, such as batch.aarr")
            if kind not in kinds:
                raise InputError(
                    f"parameters of {kind!r}: there are no such jobs; allowed: {', '.join(kinds)}"
                )
            if name not in names:
                raise InputError(f"{key}: unknown;{nearest(name, names)} allowed: {', '.join(names)}")
            of_kind = self.parameters[kinds[kind]]
            self.parameters[kinds[kind]] = replace(of_kind, **{name: value})
        for kind, parameters in self.parameters.items():
            _check(kind, parameters, options.processors)
        note = [f"{_SOURCE}: kinds {options.kinds}", options.words]
        note += [f"{key}={float(value)!r}" for key, value in options.parameters.items()]
        self.header = options.header(", ".join(note)) | {
            "MaxRuntime": str(int(math.exp(LARGEST_LOG_RUN_TIME))),
            "Queue": [f"{_CODES[kind]} {kind}" for kind in self.parameters],
        }

    def stream(self) -> Iterator[JobBlock]:
        """Yield the jobs in arrival order without end; the clock starts at midnight."""
        return _merged([self._of_kind(kind) for kind in self.parameters])

    def _of_kind(self, kind: JobKind) -> Iterator[JobBlock]:
        """Yield the jobs of one kind without end, `DRAWN` at a time."""
        parameters = self.parameters[kind]
        arrivals, sizes, times, walltimes = self._options.generators(list(JobKind).index(kind), 4)
        for submit in _submit_times(kind, parameters, arrivals):
            processors = sizes_of(parameters, sizes, DRAWN)
            run_time = run_times_of(parameters, times, processors)
            walltime = self._options.walltimes(run_time, walltimes)
            queue = np.full(DRAWN, _CODES[kind], np.int64)
            yield drawn_jobs(submit, run_time, walltime, processors, queue=queue)


def moved(parameters: Parameters, processors: int) -> Parameters:
    """Return parameters of a machine of 128 processors for another machine."""
    by = math.log2(processors) - _PUBLISHED_UHI
    return replace(parameters, umed=parameters.umed + by, uhi=parameters.uhi + by)


def _check(kind: JobKind, given: Parameters, processors: int) -> None:
    values = asdict(given)

    def refuse(name: str, allowed: str) -> None:
        raise InputError(f"{kind}.{name}: {values[name]:g}; allowed: {allowed}")

    for name, value in values.items():
        if not math.isfinite(value):
            refuse(name, "a finite number")
        if name in _POSITIVE and value <= 0:
            refuse(name, "a number above 0")
        if name in _SHARES and not 0 <= value <= 1:
            refuse(name, "0 to 1")
    if given.serial_prob + given.pow2_prob > 1:
        refuse("pow2_prob", f"at most 1 - serial_prob, {1 - given.serial_prob:g}")
    if given.ulow < 0:
        refuse("ulow", "0 or more")
    if not given.ulow <= given.umed <= given.uhi:
        refuse("umed", f"from ulow, {given.ulow:g}, to uhi, {given.uhi:g}")
    if given.uhi > math.log2(processors):
        refuse("uhi", f"at most log2 of the {processors} processors, {math.log2(processors):g}")
    # What is too large is drawn again. Below these means at least half of the draws are small enough.
    for shape, scale, factor, limit, what in (
        ("a1", "b1", 1.0, LARGEST_LOG_RUN_TIME, "run time"),
        ("a2", "b2", 1.0, LARGEST_LOG_RUN_TIME, "run time"),
        ("aarr", "barr", given.arar, LARGEST_LOG_INTERVAL, "interval"),
    ):
        mean = values[shape] * values[scale] * factor
        if mean >= limit:
            refuse(shape, f"a mean logarithm of the {what} below {limit:g}; it is {mean:g}")


def arrival_weights(kind: JobKind, parameters: Parameters) -> Floats:
    """Return the arrival rate in each half hour of the day, from midnight on; 1 in the mean."""
    slots = np.arange(FIRST_SLOT, FIRST_SLOT + SLOTS)
    bounds = np.append(slots - 0.5, slots[-1] + 0.5)
    below = np.array([_gamma_below(x / parameters.bnum, parameters.anum) for x in bounds.tolist()])
    weights = np.zeros(SLOTS)
    weights[(slots - 1) % SLOTS] = np.maximum(np.diff(below), 0.0)
    total = weights.sum()
    if not total > 0:
        raise InputError(f"{kind}.anum and {kind}.bnum: by these no job comes at any time of the day")
    result: Floats = weights * (SLOTS / total)
    return result


def _gamma_below(x: float, shape: float) -> float:
    """Return the probability that a gamma variable of scale 1 is at most x, by its power series."""
    log_first = shape * math.log(x) - x - math.lgamma(shape + 1.0)
    if x > shape and log_first < math.log(_SERIES_END):
        return 1.0
    term = total = 1.0
    k = shape
    while term > _SERIES_END * total:
        k += 1.0
        term *= x / k
        total += term
    return min(1.0, math.exp(log_first + math.log(total)))


def _submit_times(kind: JobKind, parameters: Parameters, rng: np.random.Generator) -> Iterator[Floats]:
    """Yield whole seconds: a renewal process on a clock that passes each half hour's weight in its time."""
    passed = np.append(0.0, np.cumsum(arrival_weights(kind, parameters)))
    passed *= SLOTS / passed[-1]
    shape, scale = parameters.aarr * parameters.arar, parameters.barr
    bounds = np.arange(SLOTS + 1) * SLOT
    day, rest = 0.0, 0.0
    while True:
        logs = rng.gamma(shape, scale, DRAWN)
        while (large := np.flatnonzero(logs > LARGEST_LOG_INTERVAL)).size:
            logs[large] = rng.gamma(shape, scale, large.size)
        points = rest + np.cumsum(np.exp(logs) / SLOT)
        days = np.floor(points / SLOTS)
        points -= days * SLOTS
        yield np.floor((day + days) * DAY + np.interp(points, passed, bounds))
        day, rest = day + float(days[-1]), float(points[-1])


def sizes_of(parameters: Parameters, rng: np.random.Generator, jobs: int) -> Ints:
    """Draw the processors of ``jobs`` jobs."""
    sort, stage, place = rng.random((3, jobs))
    first = stage <= parameters.uprob
    low = np.where(first, parameters.ulow, parameters.umed)
    high = np.where(first, parameters.umed, parameters.uhi)
    log2 = low + place * (high - low)
    power = np.minimum(np.floor(log2 + 0.5), math.floor(parameters.uhi))
    log2 = np.where(sort <= parameters.serial_prob + parameters.pow2_prob, power, log2)
    size = np.floor(2.0**log2 + 0.5)
    return np.where(sort <= parameters.serial_prob, 1, size).astype(np.int64)


def run_times_of(parameters: Parameters, rng: np.random.Generator, processors: Ints) -> Floats:
    """Draw the run times of jobs of these sizes, whole seconds [s]."""
    chance = parameters.pa * processors + parameters.pb
    logs = np.empty(processors.size)
    open_rows = np.arange(processors.size)
    while open_rows.size:
        first = rng.random(open_rows.size) <= chance[open_rows]
        shape = np.where(first, parameters.a1, parameters.a2)
        logs[open_rows] = rng.gamma(shape) * np.where(first, parameters.b1, parameters.b2)
        open_rows = open_rows[logs[open_rows] > LARGEST_LOG_RUN_TIME]
    return np.floor(np.exp(logs))


def _merged(streams: list[Iterator[JobBlock]]) -> Iterator[JobBlock]:
    """Merge endless streams by arrival; on ties, jobs of the first stream precede."""
    waiting = [next(stream) for stream in streams]
    while True:
        horizon = min(float(block.submit_time[-1]) for block in waiting)
        parts = []
        for k, block in enumerate(waiting):
            ready = int(np.searchsorted(block.submit_time, horizon))
            parts.append(block.select(np.arange(ready)))
            rest = block.select(np.arange(ready, len(block)))
            ends = float(block.submit_time[-1]) == horizon
            waiting[k] = JobBlock.concatenate([rest, next(streams[k])]) if ends else rest
        joined = JobBlock.concatenate(parts)
        if len(joined):
            yield joined.select(np.argsort(joined.submit_time, kind="stable"))


MODEL = ModelRecord(
    "batch and interactive jobs with a daily cycle; run times depend on sizes",
    "Lublin and Feitelson 2003",
    Lublin,
)
