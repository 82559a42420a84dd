"""Published properties of a machine's jobs: mix, scripts of users, run times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Floats, Ints

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


STEMS: Final = (
    *("namd", "gromacs", "lammps", "qe", "openfoam", "cp2k", "amber", "yambo"),
    *("train", "solver", "post"),
)
_ZIPF = 1.0
_OTHER_SHAPE = 0.3
_MORE_SCRIPTS = (4, 0.4)  # of a user in a class, beside the first: binomial


@dataclass(frozen=True, slots=True)
class Scripts:
    """One row a script, grouped by class, and by user inside a class.

    Attributes
    ----------
    user, job_class
        Whose it is, and its place in :attr:`Mix.classes`.
    shape
        What its jobs ask for as a rule: its place in the class's shapes.
    stem
        Its place in :data:`STEMS`.
    rank
        From 0 to 1, each value once: scripts below a share are that share of all.
    """

    user: Ints
    job_class: Ints
    shape: Ints
    stem: Ints
    rank: Floats

    def one_of(self, user: int, job_class: int, rng: np.random.Generator) -> int:
        """Choose a script of a user in a class."""
        first, end = np.searchsorted(self.job_class, [job_class, job_class + 1])
        low, high = first + np.searchsorted(self.user[first:end], [user, user + 1])
        return int(rng.integers(low, high))


@dataclass(frozen=True, slots=True)
class Series:
    """One row a campaign: its class, length, script and shape, and how many jobs it has."""

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
        shapes.append(_shapes(mix, k, int(count.sum()), rng))
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
        other[rows] = _shapes(mix, k, rows.size, rng)
    shape = np.where(rng.random(cell.size) < _OTHER_SHAPE, other, own)
    return Series(job_class, length, jobs, np.array(script, np.int64), shape)


def _shapes(mix: Mix, job_class: int, n: int, rng: np.random.Generator) -> Ints:
    """Draw shapes of a class by their weights."""
    weights = np.array([shape.weight for shape in mix.classes[job_class].shapes])
    drawn: Ints = rng.choice(len(weights), n, p=weights / weights.sum())
    return drawn


def _users(n_users: int, n_single: int, n_campaigns: int, rng: np.random.Generator) -> list[int]:
    """Choose a user for each campaign; the last ones are those of a single job."""
    many = n_users - n_single
    activity = 1.0 / np.arange(1, many + 1) ** _ZIPF
    chosen = rng.choice(many, n_campaigns - n_single, p=activity / activity.sum())
    return [*chosen.tolist(), *range(many, n_users)]


def _all_have_one(owners: list[int], rng: np.random.Generator) -> list[int]:
    """Give each user without a campaign, as far as there are enough, one of a user who has several."""
    users = np.array(owners, np.int64)
    for user in np.setdiff1d(np.arange(users.max() + 1), users):
        several = np.flatnonzero(np.bincount(users)[users] > 1)
        if not several.size:
            break
        users[rng.choice(several)] = user
    given: list[int] = users.tolist()
    return given


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


_SAME_RUN_TIME = 0.3
_SPREAD = 0.08
_SLACK = (1.2, 3.0)
_WALLTIME_STEP = 600.0
_LONGER_QUEUE = 0.75
_MINUTE = 60.0
_LATE_BY = 30
_LIMIT_SHARE = 0.5  # of scripts that ask for the limit, where nothing is published

Times = tuple[Floats, Floats, Ints]
"""Run time and walltime [s] and queue of each job."""


def campaign_levels(mix: Mix, series: Series, rng: np.random.Generator) -> Floats:
    """Draw the level of run time of each campaign [s]: one from each part of its length's distribution."""
    levels = np.empty(len(series))
    for k, length in enumerate(mix.lengths):
        median = _median(length)
        for rows in _apart(mix, series, k):
            parts = (_places(mix, series, rows, rng) + rng.random(rows.size)) / max(rows.size, 1)
            levels[rows] = _quantiles(length, median, parts)
    return levels


def _apart(mix: Mix, series: Series, length: int) -> list[Ints]:
    """Return the campaigns of a length; of each class alone where scripts have levels of their own."""
    rows = np.flatnonzero(series.length == length)
    if not mix.arrivals.steady:
        return [rows]
    return [rows[series.job_class[rows] == k] for k in range(len(mix.classes))]


def _places(mix: Mix, series: Series, rows: Ints, rng: np.random.Generator) -> Ints:
    """Place campaigns in the order of their levels: those of one script beside each other, or at random."""
    if not mix.arrivals.steady:
        return rng.permutation(rows.size)
    _, script = np.unique(series.script[rows], return_inverse=True)
    of_script = rng.random(rows.size)[script]
    key = np.where(rng.random(rows.size) < mix.arrivals.steady, of_script, rng.random(rows.size))
    places: Ints = np.empty(rows.size, np.int64)
    places[np.lexsort((rng.random(rows.size), key))] = np.arange(rows.size)
    return places


def _quantiles(length: Length, median: float, parts: Floats) -> Floats:
    """Return quantiles of the lognormal distribution truncated to the length's limits [s]."""
    normal = NormalDist(float(np.log(median)), length.sigma)
    low, high = normal.cdf(float(np.log(length.low))), normal.cdf(float(np.log(length.high)))
    inside = np.clip(low + parts * (high - low), 1e-15, 1.0 - 1e-15)
    logs = np.array([normal.inv_cdf(part) for part in inside.tolist()])
    cut: Floats = np.clip(np.exp(logs), length.low, length.high)
    return cut


def _median(length: Length) -> float:
    """Find the median with which the mean is the length's."""
    parts = (np.arange(500) + 0.5) / 500

    def too_low(log_median: float) -> bool:
        return bool(_quantiles(length, float(np.exp(log_median)), parts).mean() < length.mean)

    return float(np.exp(_edge(too_low, float(np.log(length.low)) - 2.0, float(np.log(length.high)) + 2.0)))


def _edge(is_low: Callable[[float], bool], low: float, high: float) -> float:
    """Find where a condition that holds for small values ends."""
    for _ in range(40):
        middle = (low + high) / 2.0
        low, high = (middle, high) if is_low(middle) else (low, middle)
    return low


def job_times(
    mix: Mix, series: Series, scripts: Scripts, levels: Floats, row: Ints, rng: np.random.Generator
) -> Times:
    """Draw run time, walltime and queue of each job.

    Parameters
    ----------
    mix, series, scripts
        The campaigns.
    levels
        Of each campaign.
    row
        The campaign of each job.
    rng
        Where randomness comes from.
    """
    run_time = _run_times(mix, series, levels, row, rng)
    longest = np.zeros(len(series))
    np.maximum.at(longest, row, run_time)
    limits = np.array([queue.limit for queue in mix.queues])
    queue = np.maximum(np.searchsorted(limits, longest), rng.random(len(series)) < _LONGER_QUEUE)
    limit = limits[queue]
    slack = rng.uniform(*_SLACK, len(series))
    needed = np.minimum(np.ceil(longest * slack / _WALLTIME_STEP) * _WALLTIME_STEP, limit)
    late = _late(mix, series, levels, rng)
    minutes = np.floor(levels / _MINUTE) * _MINUTE
    run_time = np.where(late[row], minutes[row] + rng.integers(1, _LATE_BY, row.size), run_time)

    # The script at the edge of the share asks for the limit in some of its campaigns.
    rank = scripts.rank[series.script] + rng.random(len(series)) / len(scripts.rank)

    def asked(share: float) -> Floats:
        walltime = np.where(rank < share, limit, needed)
        return np.where(late, minutes, walltime)[row]

    def too_right(share: float) -> bool:
        return bool(np.abs(asked(share) - run_time).mean() < (mix.walltime_error or 0.0))

    share = _LIMIT_SHARE if mix.walltime_error is None else _edge(too_right, 0.0, 1.0)
    return run_time, asked(share), queue[row]


def _run_times(mix: Mix, series: Series, levels: Floats, row: Ints, rng: np.random.Generator) -> Floats:
    """Draw run times around each campaign's level: whole seconds inside the length's limits."""
    spread = np.where(rng.random(len(series)) < _SAME_RUN_TIME, 0.0, _SPREAD)
    times = levels[row] * np.exp(spread[row] * rng.standard_normal(row.size))
    low = np.array([length.low for length in mix.lengths])[series.length[row]]
    high = np.array([length.high for length in mix.lengths])[series.length[row]]
    rounded: Floats = np.clip(np.round(times), np.ceil(low), np.ceil(high) - 1.0)
    return rounded


def _late(mix: Mix, series: Series, levels: Floats, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Choose campaigns of a minute or more whose jobs run longer than their walltimes."""
    rows = rng.permutation(np.flatnonzero(levels >= _MINUTE))
    late = np.zeros(len(series), np.bool_)
    late[rows[np.cumsum(series.jobs[rows]) <= mix.late * series.jobs.sum()]] = True
    return late
