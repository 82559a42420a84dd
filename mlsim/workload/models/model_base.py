"""Declaration of a model of workloads, and the common parts of all: length, walltimes, offered load.

A module ``<word>_model.py`` of this folder is the model ``<word>``: it declares a :class:`ModelRecord` called
``MODEL``, and nothing else has to know of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Final, Protocol

import numpy as np

from mlsim import __version__
from mlsim._runtime.arrays import Floats
from mlsim.errors import InputError
from mlsim.scenario import JobKinds, WorkloadModel
from mlsim.workload.log_times import DAY
from mlsim.workload.swf_fields import Header
from mlsim.workload.workload_jobs import JobBlock

MOST_JOBS: Final = 1_000_000_000
MOST_PROCESSORS: Final = 1 << 30
DRAWN: Final = 16_384
"""Jobs that are drawn at a time."""


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
    """Options of a model."""

    processors: int
    """Of the machine; sizes follow."""
    seed: int
    """Of all random numbers. Other walltimes leave the rest of the jobs as it is."""
    factor: tuple[float, float]
    """Least and largest of walltime / run time, drawn uniformly for each job."""
    parameters: Mapping[str, float]
    """Parameters that differ from the published ones, by name."""
    kinds: JobKinds


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


def check_length(jobs: int | None, end: float | None) -> None:
    """Check the length of a workload: ``jobs``, ``end`` [s] or both."""
    if jobs is None and end is None:
        raise InputError("jobs and days: neither is given; how many jobs are to be made?")
    if jobs is not None and not 1 <= jobs <= MOST_JOBS:
        raise InputError(f"jobs: {jobs}; allowed: 1 to {MOST_JOBS:,}")
    if end is not None and not 0 < end < math.inf:
        raise InputError(f"days: {end / DAY:g}; allowed: a number above 0")


def cut(stream: Iterator[JobBlock], jobs: int | None, end: float | None) -> Iterator[JobBlock]:
    """Return at most ``jobs`` jobs of a stream, numbered from 1, all submitted before ``end`` [s]."""
    check_length(jobs, end)
    return _cut(stream, MOST_JOBS if jobs is None else jobs, math.inf if end is None else end)


def _cut(stream: Iterator[JobBlock], jobs: int, end: float) -> Iterator[JobBlock]:
    made = 0
    for block in stream:
        kept = min(int(np.searchsorted(block.submit_time, end)), jobs - made)
        ids = np.arange(made + 1, made + kept + 1)
        if kept:
            yield replace(block.select(np.arange(kept)), job_id=ids)
        made += kept
        if kept < len(block) or made == jobs:
            return


def base_header(note: str, processors: int) -> Header:
    """Return the header of a log of a model; its clock starts at midnight of a Thursday, UTC."""
    return {
        "Version": "2.2",
        "Note": f"made by mlsim {__version__} with {note}",
        "UnixStartTime": "0",
        "TimeZoneString": "UTC",
        "MaxProcs": str(processors),
    }


def factor_words(factor: tuple[float, float]) -> str:
    """Return the header's words on walltimes by a factor."""
    return f"walltime {factor[0]!r} to {factor[1]!r} times the run time"


def check_seed(seed: int) -> None:
    """Check that a seed is 0 or more."""
    if seed < 0:
        raise InputError(f"seed: {seed}; allowed: 0 or more")


def check_factor(factor: tuple[float, float]) -> None:
    """Check the least and the largest of walltime / run time."""
    low, high = factor
    if not 0 < low <= high < math.inf:
        raise InputError(f"estimates: {low:g}:{high:g}; allowed: FACTOR or LOW:HIGH, above 0")


def factored(run_time: Floats, factor: tuple[float, float], rng: np.random.Generator) -> Floats:
    """Return walltimes, whole seconds: run times by a factor that is drawn uniformly for each job."""
    walltimes: Floats = np.ceil(run_time * rng.uniform(*factor, run_time.size))
    return walltimes


@dataclass(frozen=True, slots=True)
class Extent:
    """The jobs of a stream that a workload has: at most ``jobs``, before ``end`` [s, time of the model].

    Their submit times are multiplied by ``stretch``.
    """

    jobs: int | None
    end: float | None
    stretch: float = 1.0


def extent_of_load(
    stream: Iterator[JobBlock], jobs: int | None, end: float | None, load: float, processors: int
) -> Extent:
    """Return the jobs of a stream that offer a load, and the factor of their submit times.

    With ``end`` [s], the length of the result, the load is over that time; else until the last of ``jobs``
    jobs.
    """
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
