"""What models of workloads have in common: how long a workload is, and walltimes by a factor."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, Protocol

import numpy as np

from mlsim import __version__
from mlsim._arrays import Floats
from mlsim.errors import InputError
from mlsim.workload.header import Header
from mlsim.workload.jobs import JobBlock
from mlsim.workload.mix import DAY

__all__ = [
    "DRAWN",
    "MOST_JOBS",
    "MOST_PROCESSORS",
    "Model",
    "base_header",
    "check_factor",
    "check_length",
    "check_seed",
    "cut",
    "factor_words",
    "factored",
]

MOST_JOBS: Final = 1_000_000_000
MOST_PROCESSORS: Final = 1 << 30
DRAWN: Final = 16_384
"""Jobs that are drawn at a time."""


class Model(Protocol):
    """What draws jobs."""

    @property
    def header(self) -> Header:
        """What a log says of how it was made."""
        ...

    def stream(self) -> Iterator[JobBlock]:
        """Yield jobs in arrival order, from time 0 on; the same ones at every call."""
        ...


def check_length(jobs: int | None, end: float | None) -> None:
    """Check how long a workload is to be.

    Raises
    ------
    InputError
        If neither is given, or one is not a number above 0 (jobs: at most 10^9).
    """
    if jobs is None and end is None:
        raise InputError("jobs and days: neither is given; how many jobs are to be made?")
    if jobs is not None and not 1 <= jobs <= MOST_JOBS:
        raise InputError(f"jobs: {jobs}; allowed: 1 to {MOST_JOBS:,}")
    if end is not None and not 0 < end < math.inf:
        raise InputError(f"days: {end / DAY:g}; allowed: a number above 0")


def cut(stream: Iterator[JobBlock], jobs: int | None, end: float | None) -> Iterator[JobBlock]:
    """Return the first jobs of a stream, numbered from 1 on.

    Parameters
    ----------
    stream
        Jobs in arrival order.
    jobs
        How many at most; None: as many as there are in the time.
    end
        Jobs submitted before this time [s]; None: until there are so many jobs.

    Raises
    ------
    InputError
        As :func:`check_length`.
    """
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
    """Return what the log of a model says of itself; its clock starts at midnight of a Thursday, UTC."""
    return {
        "Version": "2.2",
        "Note": f"made by mlsim {__version__} with {note}",
        "UnixStartTime": "0",
        "TimeZoneString": "UTC",
        "MaxProcs": str(processors),
    }


def factor_words(factor: tuple[float, float]) -> str:
    """Return what the header says of walltimes by a factor."""
    return f"walltime {factor[0]!r} to {factor[1]!r} times the run time"


def check_seed(seed: int) -> None:
    """Check that a seed is none below 0."""
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
