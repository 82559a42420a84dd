"""Published properties of a machine's jobs, as input of a generator of similar jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["DAY", "HOUR", "JobClass", "Length", "Mix", "Queue", "Shape"]

HOUR: Final = 3600.0
DAY: Final = 86400.0


@dataclass(frozen=True, slots=True)
class Length:
    """Jobs of similar run time: their share, limits and mean [s], the σ of the lognormal, jobs a campaign."""

    name: str
    low: float
    high: float
    mean: float
    sigma: float
    campaign: float


@dataclass(frozen=True, slots=True)
class Shape:
    """What a script asks for: units, and of each unit cores, memory [MB] and other resources by place."""

    weight: float
    units: int
    cores: int
    memory: int
    others: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class JobClass:
    """Jobs that ask for the same sorts of resources: the share of all jobs in each length, and shapes."""

    name: str
    shares: tuple[float, ...]
    shapes: tuple[Shape, ...]


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue and its walltime limit [s], which is also its default."""

    name: str
    limit: float


@dataclass(frozen=True, slots=True)
class Mix:
    """A machine's jobs.

    Attributes
    ----------
    jobs, period
        How many there were, in how many seconds.
    users, single
        How many users, and the share of them who submitted one job only.
    lengths, classes
        How jobs divide; ``shares`` of all classes add up to 1.
    resources
        Names of the resources that requests are about, memory first.
    queues
        By limit; a job goes into the first one in which it has room, or a later one.
    walltime_error
        Mean absolute error of walltimes [s]; None where it is not published.
    late
        Share of jobs that run a little longer than their walltime.
    """

    jobs: int
    period: float
    users: int
    single: float
    lengths: tuple[Length, ...]
    classes: tuple[JobClass, ...]
    resources: tuple[str, ...]
    queues: tuple[Queue, ...]
    walltime_error: float | None
    late: float
