"""Scripts of users, and the campaigns in which they run them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim.workload.mix import Mix

__all__ = ["STEMS", "Scripts", "Series", "make_scripts", "make_series"]


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
