"""Published properties of a machine's jobs, as input of a generator of similar jobs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

__all__ = ["BURSTS", "CALM", "DAY", "HOUR", "Arrivals", "JobClass", "Length", "Mix", "Queue", "Shape"]

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
class Arrivals:
    """How the jobs of campaigns, and the campaigns of users, come."""

    at_once: float
    """Share of the campaigns whose jobs come one after the other, not each when the last one has run."""
    apart: tuple[float, float]
    """Least and largest time between the jobs of such a campaign [s]."""
    session: int
    """Campaigns that a user starts within an hour."""
    even: bool
    """Whether the sizes of campaigns are drawn one from each part of their distribution, so that logs of
    different seeds differ little in them, and every user has one; else independently."""
    steady: float
    """Share of the campaigns that run about as long as others of the same script."""


BURSTS: Final = Arrivals(0.9, (0.0, 1.0), 6, even=True, steady=0.5)
"""Fitted to the number of jobs in the models of Galleguillos 2020, Table 5.3 (README.md)."""
CALM: Final = Arrivals(0.4, (1.0, 5.0), 3, even=False, steady=0.0)
"""Jobs hardly ever wait."""


@dataclass(frozen=True, slots=True)
class Mix:
    """A machine's jobs."""

    jobs: int
    """How many there were."""
    period: float
    """In how many seconds."""
    users: int
    """How many users there were."""
    single: float
    """Share of the users who submitted one job only."""
    lengths: tuple[Length, ...]
    """How jobs divide by run time."""
    classes: tuple[JobClass, ...]
    """How jobs divide by what they ask for; ``shares`` of all classes add up to 1."""
    resources: tuple[str, ...]
    """Names of the resources that requests are about, memory first."""
    queues: tuple[Queue, ...]
    """By limit; a job goes into the first one in which it has room, or a later one."""
    walltime_error: float | None
    """Mean absolute error of walltimes [s]; None where it is not published."""
    late: float
    """Share of jobs that run a little longer than their walltime."""
    arrivals: Arrivals
    """How they come."""

    def calm(self, campaigns: tuple[float, ...]) -> Mix:
        """Return the same jobs in campaigns of these mean sizes, one a length, that hardly ever queue."""
        lengths = tuple(
            replace(length, campaign=size) for length, size in zip(self.lengths, campaigns, strict=True)
        )
        return replace(self, lengths=lengths, arrivals=CALM)
