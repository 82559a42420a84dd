"""Declaration of a model of workloads, and the common parts of all: figures, length, walltimes, offered load.

A module ``<word>_model.py`` of this folder is the model ``<word>``: it declares a :class:`ModelRecord` called
``MODEL``, and nothing else has to know of it. Published figures are files in ``data/``, whose comments name
the sources.
"""

import csv
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from mlsim import __version__
from mlsim._files import read_text
from mlsim._runtime.arrays import Floats, Ints
from mlsim.errors import InputError
from mlsim.scenario.scenario_text import yaml_class
from mlsim.scenario.words import JobKinds, WorkloadModel
from mlsim.workload.log_fields import DAY, Header
from mlsim.workload.workload_jobs import JobBlock

MOST_JOBS: Final = 1_000_000_000
MOST_PROCESSORS: Final = 1 << 30
DRAWN: Final = 16_384  # jobs that are drawn at a time
_DATA = Path(__file__).parent.parent / "data"


def read_rows(name: str, columns: tuple[str, ...] | None = None) -> list[dict[str, str]]:
    """Read a CSV table of ``data/``; every cell is filled, and the columns are the expected ones."""
    lines = (line for line in read_text(_DATA / name).splitlines() if not line.startswith("#"))
    rows = list(csv.DictReader(lines))
    for row in rows:
        if (columns is not None and tuple(row) != columns) or not all(row.values()):
            raise InputError(f"{_DATA / name}: row {row}; expected the columns {', '.join(columns or row)}")
    return rows


def read_mapping(name: str) -> dict[str, Any]:
    """Read a YAML file of ``data/``."""
    found = yaml_class()(typ="safe", pure=True).load(read_text(_DATA / name))
    if not isinstance(found, dict):
        raise InputError(f"{_DATA / name}: holds no mapping")
    return found


class Model(Protocol):
    """A source of jobs."""

    @property
    def header(self) -> Header:
        """Header of a log of these jobs, with their derivation."""
        ...

    def stream(self) -> Iterator[JobBlock]:
        """Yield jobs in arrival order, from time 0 on; the same ones at every call."""
        ...


@dataclass(frozen=True, slots=True)
class Drawing:
    """Options of a model; an InputError for a seed below 0, and for a factor that makes no sense."""

    processors: int = 128  # of the machine; sizes follow
    seed: int = 0  # of all random numbers; other walltimes leave the rest of the jobs as it is
    factor: tuple[float, float] | None = None
    """Least and largest of walltime / run time, drawn uniformly for each job; None: the model's own, 1."""
    parameters: Mapping[str, float] = field(default_factory=dict)  # other than the published ones, by name
    kinds: JobKinds = JobKinds.BOTH

    def __post_init__(self) -> None:
        low, high = self.factor or (1.0, 1.0)
        if not 0 < low <= high < math.inf:
            raise InputError(f"estimates: {low:g}:{high:g}; allowed: FACTOR or LOW:HIGH, above 0")
        if self.seed < 0:
            raise InputError(f"seed: {self.seed}; allowed: 0 or more")

    def check_processors(self, least: int = 1, reason: str = "") -> None:
        """Check that the machine has at least so many processors."""
        if not least <= self.processors <= MOST_PROCESSORS:
            raise InputError(
                f"processors: {self.processors}; allowed: {least} to {MOST_PROCESSORS:,}{reason}"
            )

    def generators(self, key: int, count: int) -> list[np.random.Generator]:
        """Return independent generators of random numbers; ``key`` keeps those of models apart."""
        return [np.random.default_rng((self.seed, key, k)) for k in range(count)]

    def header(self, note: str) -> Header:
        """Return the header of a log of a model; its clock starts at midnight of a Thursday, UTC."""
        return {
            "Version": "2.2",
            "Note": f"made by mlsim {__version__} with {note}",
            "UnixStartTime": "0",
            "TimeZoneString": "UTC",
            "MaxProcs": str(self.processors),
        }

    @property
    def words(self) -> str:
        """Seed and walltimes in the words of the header."""
        return f"seed {self.seed}, {factor_words(self.factor or (1.0, 1.0))}"

    def walltimes(self, run_time: Floats, rng: np.random.Generator) -> Floats:
        """Return walltimes, whole seconds: run times by a factor that is drawn uniformly for each job."""
        return np.ceil(run_time * rng.uniform(*(self.factor or (1.0, 1.0)), run_time.size))


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """A model of workloads."""

    meaning: str
    source: str
    make: Callable[[Drawing], Model]


def model_record(word: WorkloadModel) -> ModelRecord:
    """Return the record of a model."""
    record: ModelRecord = import_module(f"mlsim.workload.models.{word}_model").MODEL
    return record


def drawn_jobs(submit: Floats, run_time: Floats, walltime: Floats, processors: Ints, **more: Any) -> JobBlock:
    """Return completed jobs that have no identifiers yet."""
    jobs = len(submit)
    return JobBlock(
        job_id=np.full(jobs, -1, np.int64),
        submit_time=submit,
        run_time=run_time,
        walltime=walltime,
        processors=processors,
        status=np.ones(jobs, np.int64),
        **more,
    )


def check_length(jobs: int | None, end: float | None) -> None:
    """Check the length of a workload: ``jobs``, ``end`` [s] or both."""
    if jobs is None and end is None:
        raise InputError("jobs and days: neither is given; how many jobs are to be made?")
    if jobs is not None and not 1 <= jobs <= MOST_JOBS:
        raise InputError(f"jobs: {jobs}; allowed: 1 to {MOST_JOBS:,}")
    if end is not None and not 0 < end < math.inf:
        raise InputError(f"days: {end / DAY:g}; allowed: a number above 0")


def cut(stream: Iterator[JobBlock], jobs: int | None, end: float | None) -> Iterator[JobBlock]:
    """Yield at most ``jobs`` jobs of a stream, numbered from 1, all submitted before ``end`` [s]."""
    check_length(jobs, end)
    most, made = MOST_JOBS if jobs is None else jobs, 0
    for block in stream:
        before_end = int(np.searchsorted(block.submit_time, math.inf if end is None else end))
        kept = min(before_end, most - made)
        if kept:
            yield replace(block.select(slice(0, kept)), job_id=np.arange(made + 1, made + kept + 1))
        made += kept
        if kept < len(block) or made == most:
            return


def factor_words(factor: tuple[float, float]) -> str:
    """Return the header's words on walltimes by a factor."""
    return f"walltime {factor[0]!r} to {factor[1]!r} times the run time"


@dataclass(frozen=True, slots=True)
class Extent:
    """The jobs of a stream that a workload has; ``stretch`` multiplies their submit times."""

    jobs: int | None  # the most
    end: float | None  # all are submitted before it [s, time of the model]
    stretch: float = 1.0


def extent_of_load(
    stream: Iterator[JobBlock], jobs: int | None, end: float | None, load: float, processors: int
) -> Extent:
    """Return the jobs of a stream that offer a load until ``end`` [s], or else until the last of ``jobs``."""
    if end is not None:
        return replace(_extent_of_time(stream, end, load, processors), jobs=jobs)
    work = last = 0.0
    for block in cut(stream, jobs, None):
        work += float(np.sum(block.run_time * block.processors))
        last = float(block.submit_time[-1])
    stretch = work / (processors * load * last) if last else 0.0
    if not stretch > 0:
        raise InputError(
            f"load: {load:g}: the {jobs} jobs come at one time, or have no work; allowed: more jobs"
        )
    return Extent(jobs, None, stretch)


def _extent_of_time(stream: Iterator[JobBlock], end: float, load: float, processors: int) -> Extent:
    """Return the first jobs whose work is at most that of the load; the next one arrives at the end."""
    wanted, work, jobs = load * processors * end, 0.0, 0
    for block in stream:
        done = work + np.cumsum(block.run_time * block.processors)
        row = int(np.searchsorted(done, wanted, "right"))
        if row < len(block):
            after = float(block.submit_time[row])
            if jobs + row == 0 or not after > 0:
                raise InputError(
                    f"load: {load:g}: the first job alone has more work; "
                    "allowed: a higher load or a longer time"
                )
            return Extent(None, after, end / after)
        jobs, work = jobs + len(block), float(done[-1])
        if jobs >= MOST_JOBS:
            break
    raise InputError(
        f"load: {load:g}: all {jobs:,} jobs of the model have less work; "
        "allowed: a lower load or a shorter time"
    )


def stretched(blocks: Iterator[JobBlock], factor: float) -> Iterator[JobBlock]:
    """Yield the jobs, submitted after a multiple of their time, in whole seconds; by 1 as they are."""
    if factor == 1.0:
        return blocks
    return (replace(block, submit_time=np.floor(block.submit_time * factor)) for block in blocks)
