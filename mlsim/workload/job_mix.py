"""Published properties of a machine's jobs, and the scripts and campaigns that have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final

import numpy as np

from mlsim._runtime.arrays import Floats, Ints
from mlsim.errors import InputError
from mlsim.workload.log_fields import DAY, HOUR
from mlsim.workload.models.model_base import read_mapping

MACHINES: Final = ("eurora", "forhlr2")  # Machines with a file of this name in `data/`


@dataclass(frozen=True, slots=True)
class Length:
    """Jobs of similar run time: limits and mean [s], the σ of the lognormal, mean jobs per campaign."""

    name: str
    low: float
    high: float
    mean: float
    sigma: float
    campaign: float
    calm_campaign: float


@dataclass(frozen=True, slots=True)
class Shape:
    """The request of a script: units, and per unit cores, memory [MB] and other resources by place."""

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
class Arrivals:
    """Arrival pattern of the jobs of a campaign, and of the campaigns of a user."""

    at_once: float  # Share of the campaigns whose jobs follow each other, not each one the end of the last
    apart: tuple[float, float]  # Least and largest time between the jobs of such a campaign [s]
    session: int  # Campaigns that a user starts within an hour
    even: bool
    """Whether campaign sizes are drawn one from each part of their distribution, so that logs of different
    seeds differ little in them, and every user has one; else independently."""
    steady: float  # Share of the campaigns that run about as long as others of the same script


BURSTS: Final = Arrivals(0.9, (0.0, 1.0), 6, even=True, steady=0.5)
"""Fitted to the number of jobs in the models of Galleguillos 2020, Table 5.3."""
CALM: Final = Arrivals(0.4, (1.0, 5.0), 3, even=False, steady=0.0)  # Jobs hardly ever wait


@dataclass(frozen=True, slots=True)
class Mix:
    """A machine's jobs."""

    title: str
    scenario: str  # The machine, as a scenario writes it
    jobs: int
    period: float  # Time in which they were submitted [s]
    users: int
    single: float  # Share of the users with one job only
    lengths: tuple[Length, ...]
    classes: tuple[JobClass, ...]
    """Division of the jobs by their requests; ``shares`` of all classes add up to 1."""
    resources: tuple[str, ...]  # Names of the resources of requests, memory first
    # Queues and their walltime limits [s], ascending: a job goes into the first that it keeps, or a later.
    queues: dict[str, float]
    walltime_error: float | None  # Mean absolute error of walltimes [s]; None where it is not published
    late: float  # Share of jobs that run a little longer than their walltime
    arrivals: Arrivals = BURSTS

    def calm(self) -> Mix:
        """Return the same jobs in campaigns that hardly ever queue."""
        lengths = tuple(replace(length, campaign=length.calm_campaign) for length in self.lengths)
        return replace(self, lengths=lengths, arrivals=CALM)


def read_mix(machine: str) -> Mix:
    """Read the published figures of one of the :data:`MACHINES`."""
    data = read_mapping(f"{machine}.yaml")
    lengths = data["lengths"]
    # The mean run time of a length: its share of the job-hours over its share of the jobs.
    means = [row["hours"] * data["job_hours"] * HOUR / (row["share"] * data["jobs"]) for row in lengths]
    shares = [row["share"] for row in lengths]
    same = ("title", "scenario", "jobs", "users", "single", "walltime_error", "late")
    mix = Mix(
        **{name: data[name] for name in same},
        period=data["days"] * DAY,
        lengths=tuple(
            Length(
                row["name"],
                max(row["above"] * HOUR, 1.0),
                row["below"] * HOUR,
                mean,
                *(float(row[key]) for key in ("sigma", "campaign", "calm")),
            )
            for row, mean in zip(lengths, means, strict=True)
        ),
        classes=tuple(
            JobClass(row["name"], _class_shares(row, data["jobs"], shares, means), _shapes_of(row["shapes"]))
            for row in data["classes"]
        ),
        resources=tuple(data["resources"]),
        queues={row["name"]: row["limit"] * HOUR for row in data["queues"]},
    )
    if abs(sum(sum(each.shares) for each in mix.classes) - 1.0) > 1e-3:
        raise InputError(f"data/{machine}.yaml: the shares of its classes do not add up to 1")
    for shape in (shape for each in mix.classes for shape in each.shapes):
        if shape.weight <= 0 or len(shape.others) != len(mix.resources) - 1:
            raise InputError(f"data/{machine}.yaml: {shape} has no weight, or not one number per resource")
    return mix


def _class_shares(
    row: Mapping[str, Any], jobs: int, shares: Sequence[float], means: Sequence[float]
) -> tuple[float, ...]:
    """Return a class's share of all jobs in each length; without a mean run time it divides as all do."""
    if "mean" not in row:
        return tuple(shares)
    _, medium, long = shares
    over_an_hour = (medium * means[1] + long * means[2]) / (medium + long)
    over = (row["mean"] - means[0]) / (over_an_hour - means[0])
    over_medium = over * medium / (medium + long)
    share = row["jobs"] / jobs
    return share * (1.0 - over), share * over_medium, share * (over - over_medium)


def _shapes_of(rows: Sequence[Mapping[str, Any]]) -> tuple[Shape, ...]:
    """Combine numbers of units with the requests of one unit."""
    return tuple(
        Shape(weight, units, cores, memory, tuple(others))
        for row in rows
        for (units, weight), (cores, memory), others in product(
            row["units"].items(), row["unit"], row.get("others", [()])
        )
    )


STEMS: Final = (
    *("namd", "gromacs", "lammps", "qe", "openfoam", "cp2k", "amber", "yambo"),
    *("train", "solver", "post"),
)
_ZIPF = 1.0
_OTHER_SHAPE = 0.3
_MORE_SCRIPTS = (4, 0.4)  # of a user in a class, beside the first: binomial


@dataclass(frozen=True, slots=True)
class Scripts:
    """One row per script, grouped by class, and by user inside a class."""

    user: Ints
    job_class: Ints  # Place in :attr:`Mix.classes`
    shape: Ints  # Usual request: place in the class's shapes
    stem: Ints  # Place in `STEMS`
    rank: Floats  # From 0 to 1, each value once: scripts below a share are that share of all

    def one_of(self, user: int, job_class: int, rng: np.random.Generator) -> int:
        """Choose a script of a user in a class."""
        first, end = np.searchsorted(self.job_class, [job_class, job_class + 1])
        low, high = first + np.searchsorted(self.user[first:end], [user, user + 1])
        return int(rng.integers(low, high))


@dataclass(frozen=True, slots=True)
class Series:
    """One row per campaign: its class, length, number of jobs, script and shape."""

    job_class: Ints
    length: Ints
    jobs: Ints
    script: Ints
    shape: Ints

    def __len__(self) -> int:
        return self.jobs.size


def make_scripts(mix: Mix, n_users: int, rng: np.random.Generator) -> Scripts:
    """Draw one to five scripts of every class for every user."""
    users, classes, shapes = [], [], []
    for k in range(len(mix.classes)):
        count = 1 + rng.binomial(*_MORE_SCRIPTS, n_users)
        users.append(np.repeat(np.arange(n_users), count))
        classes.append(np.full(count.sum(), k))
        shapes.append(_draw_shapes(mix, k, int(count.sum()), rng))
    n = sum(map(len, users))
    return Scripts(
        np.concatenate(users),
        np.concatenate(classes),
        np.concatenate(shapes),
        rng.integers(len(STEMS), size=n),
        rng.permutation(n) / n,
    )


def make_series(mix: Mix, n_jobs: int, n_users: int, scripts: Scripts, rng: np.random.Generator) -> Series:
    """Divide the jobs into campaigns, so that each class has its share of each length."""
    n_single = min(round(mix.single * n_users), n_users - 1, n_jobs // 10)
    shares = np.array([each.shares for each in mix.classes])
    quotas = _quotas(shares.ravel(), n_jobs)
    most = int(np.argmax(quotas))
    quotas[most] -= n_single
    lengths = [mix.lengths[cell % len(mix.lengths)].campaign for cell in range(quotas.size)]
    draw = _even_sizes if mix.arrivals.even else _sizes
    sizes = [draw(int(jobs), mean, rng) for jobs, mean in zip(quotas, lengths, strict=True)]
    cell = np.repeat([*range(quotas.size), most], [*map(len, sizes), n_single])
    job_class, length = np.divmod(cell, len(mix.lengths))
    owners = _users(n_users, n_single, cell.size, rng)
    if mix.arrivals.even:
        owners = _all_have_one(owners, rng)
    script = [scripts.one_of(user, each, rng) for user, each in zip(owners, job_class.tolist(), strict=True)]
    jobs = np.concatenate([*sizes, np.ones(n_single, np.int64)])
    own = scripts.shape[np.array(script, np.int64)]
    other = np.empty(cell.size, np.int64)
    for k in range(len(mix.classes)):
        rows = np.flatnonzero(job_class == k)
        other[rows] = _draw_shapes(mix, k, rows.size, rng)
    shape = np.where(rng.random(cell.size) < _OTHER_SHAPE, other, own)
    return Series(job_class, length, jobs, np.array(script, np.int64), shape)


def _draw_shapes(mix: Mix, job_class: int, n: int, rng: np.random.Generator) -> Ints:
    weights = np.array([shape.weight for shape in mix.classes[job_class].shapes])
    return rng.choice(len(weights), n, p=weights / weights.sum())


def _users(n_users: int, n_single: int, n_campaigns: int, rng: np.random.Generator) -> list[int]:
    """Choose a user for each campaign; the last ones are those of a single job."""
    many = n_users - n_single
    activity = 1.0 / np.arange(1, many + 1) ** _ZIPF
    chosen = rng.choice(many, n_campaigns - n_single, p=activity / activity.sum())
    return [*chosen.tolist(), *range(many, n_users)]


def _all_have_one(owners: list[int], rng: np.random.Generator) -> list[int]:
    """Assign to each user without a campaign, if there are enough, one of a user with several."""
    users = np.array(owners, np.int64)
    for user in np.setdiff1d(np.arange(users.max() + 1), users):
        several = np.flatnonzero(np.bincount(users)[users] > 1)
        if not several.size:
            break
        users[rng.choice(several)] = user
    return [int(user) for user in users]


def _quotas(shares: Floats, n: int) -> Ints:
    """Divide ``n`` by shares, the largest remainders rounded up."""
    exact = shares / shares.sum() * n
    whole: Ints = np.floor(exact).astype(np.int64)
    up = np.argsort(whole - exact, kind="stable")[: n - int(whole.sum())]
    whole[up] += 1
    return whole


def _sizes(jobs: int, mean: float, rng: np.random.Generator) -> Ints:
    """Divide jobs into campaigns of geometric sizes; the last one is cut."""
    if jobs <= 0:
        return np.empty(0, np.int64)
    sizes: Ints = rng.geometric(1.0 / mean, jobs).astype(np.int64)
    sizes = sizes[: int(np.searchsorted(np.cumsum(sizes), jobs)) + 1]
    sizes[-1] -= int(sizes.sum()) - jobs
    return sizes


def _even_sizes(jobs: int, mean: float, rng: np.random.Generator) -> Ints:
    """Divide jobs into campaigns of exponential sizes, one from each part of the distribution."""
    count = max(1, round(jobs / mean))
    parts = (rng.permutation(count) + rng.random(count)) / count
    share = np.cumsum(-np.log1p(-parts))
    ends: Ints = np.round(share / share[-1] * jobs).astype(np.int64)
    sizes: Ints = np.diff(ends, prepend=0)
    return sizes[sizes > 0]
