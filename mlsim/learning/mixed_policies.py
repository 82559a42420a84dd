"""Mixed policies of the weeks of a log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mlsim._runtime.arrays import Floats, Ints, Mask
from mlsim.batch.clock.replay_many import replay_many
from mlsim.errors import InputError
from mlsim.experiment.study.study_tables import Spread, spread_of
from mlsim.experiment.weekly_runs import LogWeeks
from mlsim.learning.weight_search import (
    check_grid,
    check_method,
    minimise,
    normalised,
    places_of,
    simplex_grid,
    tried_by,
    widened,
)
from mlsim.scenario import BatchConfig, Policy, WeightsConfig
from mlsim.workload.workload_jobs import JobBlock

PURE = ("SAF", "SPF", "LEXP", "SQF", "SEXP", "LRF", "SRF", "FCFS", "LPF", "LQF", "LAF")
"""Policies of the catalogue that results stand beside."""

_TYPICAL_WAIT = 1800.0
"""At which the spread of expansion factors is taken [s]."""


@dataclass(frozen=True)
class Searching:
    """Options of the search for weight vectors."""

    features: tuple[str, ...] = ("q", "p", "wait")
    """Names of :data:`mlsim.learning.weight_search.FEATURES`."""
    method: str = "grid"
    """``grid``, ``xnes`` or ``cma-es``."""
    points: int = 200
    """Grid: values per dimension."""
    evaluations: int = 2000
    """xnes and cma-es: vectors tried for each week, and for all training weeks."""
    factor: float = 1.0
    """xnes and cma-es: λ of the penalty."""
    seed: int = 0
    """xnes and cma-es."""
    scaled: bool = False
    """Whether each feature is divided by its deviation in the training weeks (:func:`feature_scales`)."""
    scale: Floats | None = None
    """Divisors of features; computed by the learning function where they are scaled."""

    def check(self) -> None:
        """Check options before a search.

        Raises InputError if features or method are unknown, a grid of them is too large, or the package of
        the method is not installed.
        """
        if self.method == "grid":
            check_grid(self.points, self.features)
            return
        places_of(self.features)
        check_method(self.method)

    def over(self, blocks: Sequence[JobBlock]) -> Searching:
        """Return the same with the scale of some weeks, if features are scaled."""
        return replace(self, scale=feature_scales(blocks)) if self.scaled else self

    def unscaled(self, vectors: Floats) -> Floats:
        """Return weights of unscaled features for weights of scaled ones."""
        return vectors if self.scale is None else vectors / self.scale

    def grid(self) -> Floats:
        """Return all vectors of a grid."""
        return self.unscaled(simplex_grid(self.points, self.features))


@dataclass(frozen=True)
class Wanted:
    """Weeks of a log to be searched together."""

    log: LogWeeks
    weeks: tuple[int, ...]
    searching: Searching


Searches = Callable[[Sequence[Wanted]], Iterable[Floats]]
"""Has vectors searched (:func:`searched`), and gives what is found in the same order."""


@dataclass(frozen=True)
class Mixed:
    """Mixed and pure policies in every week."""

    weeks: Ints
    """Numbers of the weeks with jobs."""
    train: Mask
    """Marks those for learning."""
    test: Mask
    """Marks those for testing."""
    means: Mapping[str, Floats]
    """Mean bounded slowdown in each week by policy: ``w*``, ``w*_train``, ``w_greedy`` and :data:`PURE`."""
    best: Floats
    """The best vector of each week."""
    learned: Floats
    """The vector of w*_train."""
    vectors: int
    """Vectors simulated in each week."""

    def sums(self) -> dict[str, tuple[float, float]]:
        """Return each policy's sums of weekly means over the training weeks and over the test weeks."""
        return {
            name: (float(values[self.train].sum()), float(values[self.test].sum()))
            for name, values in self.means.items()
        }

    def against(self, reference: str) -> dict[str, Spread]:
        """Return each policy's mean over the test weeks, and the paired difference to a policy."""
        weeks, other = self.weeks[self.test], self.means[reference][self.test]
        return {name: paired(weeks, values[self.test], other) for name, values in self.means.items()}


def paired(weeks: Ints, values: Floats, others: Floats) -> Spread:
    """Return a policy's mean over weeks, and the paired difference to another policy.

    Of a single week there is a difference, but its interval and test are NaN.
    """
    one, other = (dict(zip(map(str, weeks.tolist()), of.tolist(), strict=True)) for of in (values, others))
    found = spread_of(one, other)
    return replace(found, difference=float(values[0] - others[0])) if len(weeks) == 1 else found


def weekly_means(blocks: Sequence[JobBlock], config: BatchConfig, units: int, vectors: Floats) -> Floats:
    """Return the mean bounded slowdown of each week under each vector, shape (weeks, vectors)."""
    linear = config.model_copy(update={"policy": Policy.LINEAR, "weights": WeightsConfig(p=1.0)})
    found = replay_many(blocks, linear, units, vectors)
    means: Floats = found.bounded_slowdown / found.ran
    return means


def pure_means(blocks: Sequence[JobBlock], config: BatchConfig, units: int) -> dict[str, Floats]:
    """Return the mean bounded slowdown of each week under each of :data:`PURE`."""
    found = {}
    for name in PURE:
        replays = replay_many(blocks, config.model_copy(update={"policy": Policy(name)}), units)
        found[name] = replays.bounded_slowdown[:, 0] / replays.n_jobs
    return found


def feature_scales(blocks: Sequence[JobBlock]) -> Floats:
    """Return the standard deviation of each feature over the jobs of some weeks, in the order of FEATURES.

    1 where a feature is the same for all jobs. Wait is scaled as p is, as both are times, the expansion
    factor by its value after half an hour. Use training weeks only: others would be a look ahead.
    """
    p = np.maximum(np.concatenate([block.walltime for block in blocks]), 1.0)
    q = np.concatenate([block.processors for block in blocks]).astype(np.float64)
    slowdown = (_TYPICAL_WAIT + p) / p
    spread = np.array([np.std(values) for values in (q, p, p, p / q, slowdown, p * q)])
    found: Floats = np.where(spread > 0, spread, 1.0)
    return found


def searched(wanted: Wanted) -> Floats:
    """Return, of a grid, each vector's sum of weekly means; else the vector that was found, and its sum."""
    blocks = [wanted.log.blocks[number] for number in wanted.weeks]
    config, units, searching = wanted.log.scenario.batch, wanted.log.units, wanted.searching
    if searching.method != "grid":
        vector, loss = _evolved(blocks, config, units, searching)
        return np.append(vector, loss)
    vectors = searching.grid()
    total = np.zeros(len(vectors))
    for block in blocks:  # one by one: all starts of all weeks would take much memory
        total += weekly_means([block], config, units, vectors)[0]
    return total


def searched_here(wanted: Sequence[Wanted]) -> Iterator[Floats]:
    """Search in this process, one after the other, and keep nothing."""
    return map(searched, wanted)


def parts_of(log: LogWeeks, weeks: Sequence[int], searching: Searching) -> list[Wanted]:
    """Return the parts of the search for the vector of the least sum over weeks: by grid, week by week."""
    groups = [(week,) for week in weeks] if searching.method == "grid" else [tuple(weeks)]
    return [Wanted(log, group, searching) for group in groups]


def learned_of(found: Iterable[Floats], searching: Searching) -> Floats:
    """Return the vector of the least sum of weekly means, over all six features, from results of parts."""
    if searching.method != "grid":
        (one,) = found
        return one[:-1]
    vectors = searching.grid()
    total = np.zeros(len(vectors))
    for means in found:
        total += means
    learned: Floats = normalised(vectors[[int(np.argmin(total))]])[0]
    return learned


def _evolved(
    blocks: Sequence[JobBlock], config: BatchConfig, units: int, searching: Searching
) -> tuple[Floats, float]:
    """Return the vector that evolution found for some weeks, and its sum of weekly means."""

    def wide(tried: Floats) -> Floats:
        return searching.unscaled(widened(tried, searching.features))

    vector, loss = minimise(
        lambda tried: weekly_means(blocks, config, units, wide(tried)).sum(axis=0),
        len(places_of(searching.features)),
        method=searching.method,
        evaluations=searching.evaluations,
        factor=searching.factor,
        seed=searching.seed,
    )
    return normalised(wide(vector[np.newaxis]))[0], loss


def learn_mixed(
    weeks: LogWeeks,
    train: tuple[int, int],
    test: tuple[int, int],
    searching: Searching,
    searches: Searches = searched_here,
) -> Mixed:
    """Search mixed policies on the weeks of a log, and test them.

    Parameters
    ----------
    weeks
        From :func:`mlsim.experiment.weekly_runs.weeks_of`; that before the first training week is used by
        w_greedy if it is there.
    train, test
        First and last week.
    searching
        How vectors are searched.
    searches
        Who does the searches.

    Raises
    ------
    InputError
        If there are no weeks to learn or test, they overlap, or options do not fit.
    """
    fit = [number for number, block in weeks.blocks.items() if (block.processors <= weeks.units).any()]
    numbers = np.array(sorted(fit), np.int64)
    numbers = numbers[(numbers >= min(train[0], test[0]) - 1) & (numbers <= max(train[1], test[1]))]
    parts = [(numbers >= first) & (numbers <= last) for first, last in (train, test)]
    for name, part in zip(("train", "test"), parts, strict=True):
        if not part.any():
            raise InputError(f"{name}: no week of the log has a job there")
    if (parts[0] & parts[1]).any():
        raise InputError("train, test: overlap; what was fitted is no evidence")
    blocks = [weeks.blocks[number] for number in numbers.tolist()]
    searching = searching.over([block for block, taken in zip(blocks, parts[0], strict=True) if taken])
    config, units = weeks.scenario.batch, weeks.units
    find = _by_grid if searching.method == "grid" else _by_evolution
    best, least, greedy, learned, count = find(weeks, numbers, parts[0], searching, searches)
    fitted = weekly_means(blocks, config, units, learned[np.newaxis])[:, 0]
    before = np.diff(numbers, prepend=numbers[0] - 2) == 1
    fcfs = pure_means(blocks, config, units)
    means = {
        "w*": least,
        "w*_train": fitted,
        "w_greedy": np.where(before, greedy, fcfs["FCFS"]),  # nothing was learned in a week before
        **fcfs,
    }
    return Mixed(numbers, parts[0], parts[1], means, normalised(best), learned, count)


_Found = tuple[Floats, Floats, Floats, Floats, int]


def _by_grid(log: LogWeeks, numbers: Ints, train: Mask, searching: Searching, searches: Searches) -> _Found:
    """Try every vector in every week."""
    vectors = searching.grid()
    total = np.zeros(len(vectors))
    best, least, greedy = [], [], []
    last: Ints | None = None
    found = searches(parts_of(log, numbers.tolist(), searching))
    for taken, means in zip(train.tolist(), found, strict=True):
        greedy.append(np.nan if last is None else float(means[last].mean()))
        last = np.flatnonzero(means == means.min())
        best.append(vectors[last[0]])
        least.append(float(means.min()))
        if taken:
            total += means
    learned = normalised(vectors[[int(np.argmin(total))]])[0]
    return np.array(best), np.array(least), np.array(greedy), learned, len(vectors)


def _by_evolution(
    log: LogWeeks, numbers: Ints, train: Mask, searching: Searching, searches: Searches
) -> _Found:
    """Search each week, and the training weeks together."""
    wanted = [Wanted(log, (number,), searching) for number in numbers.tolist()]
    *each, together = searches([*wanted, *parts_of(log, numbers[train].tolist(), searching)])
    best, least = np.array([found[:-1] for found in each]), np.array([found[-1] for found in each])
    config, units = log.scenario.batch, log.units
    greedy = [np.nan] + [
        float(weekly_means([log.blocks[number]], config, units, vector[np.newaxis])[0, 0])
        for number, vector in zip(numbers.tolist()[1:], best[:-1], strict=True)
    ]
    count = tried_by(searching.method, len(places_of(searching.features)), searching.evaluations)
    return best, least, np.array(greedy), learned_of([together], searching), count
