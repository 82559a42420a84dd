"""Walltimes as users ask for them: the model of Tsafrir, Etsion and Feitelson (2005).

Few values are asked for by most users: twenty by 89 % of the jobs, the largest allowed one by most, and the
others round. Which value is how popular, and which rare ones there are besides, is drawn; then the walltimes
are dealt out to the jobs so that none is below its run time.

The reading is that of the authors' program for the model (est_model, Parallel Workloads Archive) with the
defaults of its parameters, without values that the user supplies: the number of different values depends
piecewise linearly on that of the jobs; the sizes of the twenty follow 14.0491 e^(-0.177531 x) + 0.462513
(% of the jobs, x = 2 ... 20), the first has what is left of 89 %; those of the others follow x^-2.267; their
times follow (a - 1) x / (a - x) of the largest, a = 1 + 12.1039 K^-0.6026.

Where this departs from the program: random numbers are numpy's; percentages become numbers of jobs by
largest remainders; a job that runs longer than the largest value is an error, and is not shortened. Dealing
out is the same, a uniform choice among all ways in which no walltime is below a run time, but it goes by
counts of jobs between two values, so that it takes memory for these and not for the jobs.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from mlsim._runtime.arrays import Floats, Ints
from mlsim.errors import InputError
from mlsim.workload.models.model_base import read_rows
from mlsim.workload.workload_jobs import JobBlock

_MINUTE, _HOUR = 60, 3600
_HEAD = 20
_HEAD_PERCENT = 89.0
_HEAD_SIZES = (14.0491, -0.177531, 0.462513)
_TAIL_EXPONENT = -2.267
_TIMES = (12.1039, -0.6026)
_JOINT = tuple(
    [minutes * _MINUTE for minutes in (5, 10, 15, 20, 30)]
    + [hours * _HOUR for hours in (1, 2, 3, 4, 5, 6, 8, 10, 12, 18)]
)
"""Among the twenty most popular values of all four logs [s]."""
_ROUND = tuple([hours * _HOUR for hours in (200, 100, 50, 10, 5, 2, 1)] + [m * _MINUTE for m in (20, 10, 5)])
"""Multiples of these make up twenty, from the largest down [s]."""
_VALUES = ((0, 0), (20, 10), (200, 20), (1_000, 35), (10_000, 90), (70_000, 340), (250_000, 565))
"""Numbers of jobs, and of different values; linear between them."""
_RANKS = tuple(tuple(map(int, row.values())) for row in read_rows("tsafrir.csv"))
"""Popularity of the largest value, and of the others by time, in four logs (``data/tsafrir.csv``)."""
_SHIFTS = (0, 30, -30, 20, -20, 10, -10)  # Shift of a rare value that already exists [s]
FEWEST_JOBS: Final = 500  # With fewer the model has too few values; its authors name this number as the least
LEAST_LARGEST: Final = 2.0 * _HOUR  # Below this largest value there are no twenty round ones [s]


def distribution(jobs: int, largest: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Return the different walltimes, ascending [s], and the number of jobs of each."""
    head = _head_times(largest)
    a, b, c = _HEAD_SIZES  # percentages of the twenty, the most popular first
    sizes = [a * math.exp(b * rank) + c for rank in range(2, _HEAD + 1)]
    sizes = [_HEAD_PERCENT - sum(sizes), *sizes]
    percent = {time: sizes[rank - 1] for time, rank in zip(head, _head_ranks(rng), strict=True)}
    numbers, values = zip(*_VALUES, strict=True)
    n_values = math.floor(float(np.interp(jobs, numbers, values)) + 0.5)
    tail = _tail_times(largest, n_values, set(head))
    weights = np.arange(_HEAD + 1, _HEAD + 1 + len(tail), dtype=float) ** _TAIL_EXPONENT
    weights *= (100.0 - _HEAD_PERCENT) / weights.sum()
    percent |= dict(zip(tail, rng.permutation(weights).tolist(), strict=True))
    times = sorted(percent)
    return np.array(times, np.int64), _shared(jobs, [percent[time] for time in times])


def _head_times(largest: int) -> list[int]:
    """Return the twenty popular values: the largest, then the others by time."""
    found = [time for time in _JOINT if time < largest]
    for step in _ROUND:
        for time in range(largest // step * step, 0, -step):
            if len(found) < _HEAD - 1 and time < largest and time not in found:
                found.append(time)
    return [largest, *sorted(found)]


def _head_ranks(rng: np.random.Generator) -> list[int]:
    """Draw the popularity of the twenty values: 1 for the largest, for the others near what it is in logs.

    The better of two draws from the ranks up to a value; a rank that no log has later must be taken.
    """
    last = {rank: place for place, row in enumerate(_RANKS) for rank in row}
    ranks: list[int] = []
    pool: list[int] = []
    for place, row in enumerate(_RANKS):
        pool += [rank for rank in row if rank not in ranks]
        due = [rank for rank in sorted(last) if last[rank] <= place and rank not in ranks]
        if place == 0:
            chosen = 1
        elif due:
            chosen = due[0]
        else:
            chosen = min(pool[k] for k in rng.integers(len(pool), size=2))
        ranks.append(chosen)
        pool = [rank for rank in pool if rank != chosen]
    return ranks


def _tail_times(largest: int, n_values: int, head: set[int]) -> list[int]:
    """Return the rare values: whole minutes, or next to them where the minute is taken."""
    count = n_values - _HEAD
    a = 1.0 + _TIMES[0] * n_values ** _TIMES[1]
    found: set[int] = set()
    for k in range(1, count + 1):
        x = k / count
        minutes = math.floor((a - 1.0) * x / (a - x) * largest / _MINUTE + 0.5)
        for shift in _SHIFTS:
            time = minutes * _MINUTE + shift
            if 0 < time < largest and time not in found and time not in head:
                found.add(time)
                break
    return sorted(found)


def _shared(jobs: int, percent: Sequence[float]) -> Ints:
    """Return numbers of jobs by percentages, together all jobs, by largest remainders."""
    exact = np.array(percent) * (jobs / 100.0)
    counts = np.floor(exact).astype(np.int64)
    order = np.argsort(counts - exact, kind="stable")
    counts[order[: jobs - int(counts.sum())]] += 1
    return counts


class Walltimes:
    """Deals out walltimes to the jobs of a workload; an InputError if too few walltimes are long enough.

    ``run_times``: ascending run times, in whole seconds, and the number of jobs of each. ``largest``: limit
    of walltimes [s]; None: the longest run time, rounded up to whole hours.
    """

    def __init__(self, run_times: tuple[Ints, Ints], largest: float | None, seed: int) -> None:
        times, counts = run_times
        jobs, longest = int(counts.sum()), int(times[-1]) if times.size else 0
        if jobs < FEWEST_JOBS:
            raise InputError(f"estimates: tsafrir: {jobs} jobs; allowed: {FEWEST_JOBS} or more")
        if largest is None:
            largest = max(LEAST_LARGEST, math.ceil(longest / _HOUR) * _HOUR)
        if largest < LEAST_LARGEST or largest != int(largest) or largest > 2**53:
            raise InputError(
                f"max-estimate: {largest:g} s; allowed: whole seconds, {LEAST_LARGEST / _HOUR:g} h or more"
            )
        if longest > largest:
            raise InputError(
                f"max-estimate: {largest:g} s; allowed: the longest run time, {longest} s, or more"
            )
        self.largest = int(largest)
        rng = np.random.default_rng((seed, 5))
        self._times, pool = distribution(jobs, self.largest, rng)
        self._left = self._dealt(times, counts, pool, rng)
        self._rng = rng

    def _dealt(self, times: Ints, counts: Ints, pool: Ints, rng: np.random.Generator) -> Ints:
        """Return how many jobs of each class of run times get each walltime; long ones choose first."""
        of_class = np.zeros(pool.size, np.int64)
        np.add.at(of_class, np.searchsorted(self._times, times), counts)
        left, free = np.zeros((pool.size, pool.size), np.int64), np.zeros_like(pool)
        for k in range(pool.size - 1, -1, -1):
            free[k] = pool[k]
            if of_class[k] > free.sum():
                longer = int(of_class[k:].sum())
                raise InputError(
                    f"estimates: tsafrir: {longer} jobs run longer than {self._times[k - 1] if k else 0} s, "
                    f"and of the walltimes of the model only {int(pool[k:].sum())} are longer; allowed: "
                    "a larger max-estimate, or another seed"
                )
            if of_class[k]:
                left[k] = rng.multivariate_hypergeometric(free, int(of_class[k]))
                free -= left[k]
        return left

    def given(self, block: JobBlock) -> JobBlock:
        """Return the next jobs with their walltimes."""
        of_job = np.searchsorted(self._times, np.ceil(block.run_time))
        walltime: Floats = np.empty(len(block))
        order = np.argsort(of_job, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(of_job[order])) + 1):
            left = self._left[of_job[rows[0]]]
            here = np.flatnonzero(left)
            taken = self._rng.multivariate_hypergeometric(left[here], rows.size)
            left[here] -= taken
            walltime[rows] = self._rng.permutation(np.repeat(self._times[here], taken))
        return replace(block, walltime=walltime)

    def over(self, blocks: Iterator[JobBlock]) -> Iterator[JobBlock]:
        """Yield the jobs with their walltimes."""
        return (self.given(block) if len(block) else block for block in blocks)
