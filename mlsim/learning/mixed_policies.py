"""Mixed policies of the weeks of a log: weight vectors, their searches, and their value."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import numpy as np

from mlsim._runtime.arrays import Floats, Ints, Mask
from mlsim.batch.clock.replay_many import replay_many
from mlsim.errors import InputError
from mlsim.experiment.study.study_tables import Spread, spread_of
from mlsim.experiment.weekly_runs import LogWeeks
from mlsim.learning.learning_parts import Part, Parts, shared_weeks
from mlsim.scenario import BatchConfig, Policy, Scenario, batch_section
from mlsim.workload import JobBlock

FEATURES: Final = ("q", "p", "wait", "ratio", "exp", "area")  # in the order of `batch.weights`
PURE = ("SAF", "SPF", "LEXP", "SQF", "SEXP", "LRF", "SRF", "FCFS", "LPF", "LQF", "LAF")  # for comparison
METHODS = ("xnes", "cma-es")
_MOST: Final = 10_000_000  # combinations of values that a grid is made of: some GB of memory
_TYPICAL_WAIT = 1800.0  # at which the spread of expansion factors is taken [s]


def places_of(features: Sequence[str]) -> list[int]:
    """Return the places of features among the weights; there must be two, known, each once."""
    for name in features:
        if name not in FEATURES:
            raise InputError(f"features: {name!r} is not known; allowed: {', '.join(FEATURES)}")
    if len(features) < 2 or len(set(features)) < len(features):
        raise InputError(f"features: {', '.join(features)}; allowed: at least two, each once")
    return [FEATURES.index(name) for name in features]


def check_grid(points: int, features: Sequence[str]) -> None:
    """Refuse a grid over some features that has too few points or features, or too many."""
    dimensions = len(places_of(features)) - 1
    if points < 2:
        raise InputError(f"points: {points}; allowed: 2 or more")
    if points**dimensions > _MOST:
        most = int(_MOST ** (1 / dimensions))
        raise InputError(
            f"points: {points} values of each of {dimensions} features are {points**dimensions:,} vectors to "
            f"make a grid of; allowed: {_MOST:,}, thus up to {most} points. Or search by xnes or cma-es"
        )


def normalised(vectors: Floats) -> Floats:
    """Return vectors divided by the sums of their absolute values, as policy linear reads them."""
    found: Floats = vectors / np.abs(vectors).sum(axis=1, keepdims=True)
    return found


def widened(vectors: Floats, features: Sequence[str]) -> Floats:
    """Return vectors over all six features, 0 for those that are not among ``features``."""
    wide = np.zeros((len(vectors), len(FEATURES)))
    wide[:, places_of(features)] = vectors
    return wide


def simplex_grid(points: int, features: Sequence[str]) -> Floats:
    """Return a uniform grid of all mixed policies over some features, shape (vectors, 6).

    Only the direction of a vector matters, so that the vectors with a sum of absolute values of 1 are all
    policies (Zrigui 2021, §5.4). All features but the first have ``points`` values from -1 to 1; the first
    has the remainder to 1, with both signs. 200 points and three features are 39,600 vectors.
    """
    check_grid(points, features)
    axes = [np.linspace(-1.0, 1.0, points)] * (len(features) - 1)
    others = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    rest = 1.0 - np.abs(others).sum(axis=1)
    inside, edge = others[rest > 1e-12], others[np.abs(rest) <= 1e-12]
    left = rest[rest > 1e-12, np.newaxis]
    parts = [
        np.hstack([left, inside]),
        np.hstack([-left, inside]),
        np.hstack([np.zeros((len(edge), 1)), edge]),
    ]
    return widened(np.vstack(parts), features)


def penalty(vectors: Floats, factor: float) -> Floats:
    """Return factor x (‖w‖₁ + 1 / ‖w‖₁), which is least where ‖w‖₁ = 1 (Zrigui 2021, Eq. 5.4)."""
    norms = np.abs(vectors).sum(axis=1)
    found: Floats = factor * (norms + 1.0 / norms)
    return found


def minimise(
    loss: Callable[[Floats], Floats],
    dimensions: int,
    *,
    method: str,
    evaluations: int,
    factor: float,
    seed: int,
) -> tuple[Floats, float]:
    """Return the best vector found for loss plus penalty, and its loss without the penalty.

    ``method`` is ``xnes`` (Glasmachers et al. 2010) or ``cma-es`` (Hansen and Ostermeier 2001, by the package
    cmaes). Up to ``evaluations`` vectors are tried, in whole generations; ``factor`` is λ of the penalty.
    """
    search = _search_of(method, dimensions, seed)
    best, least, tried = np.ones(dimensions), math.inf, 0
    while tried == 0 or tried + search.population <= evaluations:
        vectors = search.ask()
        found = loss(vectors)
        place = int(np.argmin(found))
        if found[place] < least:
            best, least = vectors[place].copy(), float(found[place])
        search.tell(vectors, found + penalty(vectors, factor))
        tried += len(vectors)
    return best, least


def tried_by(method: str, dimensions: int, evaluations: int) -> int:
    """Return the number of vectors that a search tries: whole generations, at least one."""
    population = _search_of(method, dimensions, 0).population
    return max(evaluations // population, 1) * population


class _Xnes:
    """Exponential natural evolution strategies with the authors' default rates (Glasmachers et al. 2010)."""

    def __init__(self, dimensions: int, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self.population = 4 + int(3 * math.log(dimensions))
        self._mean = np.zeros(dimensions)
        self._sigma, self._shape = 0.5, np.eye(dimensions)
        self._rate = 0.6 * (3 + math.log(dimensions)) / (dimensions * math.sqrt(dimensions))
        ranks = np.arange(1, self.population + 1)
        raw = np.maximum(0.0, math.log(self.population / 2 + 1) - np.log(ranks))
        self._utilities = raw / raw.sum() - 1.0 / self.population
        self._drawn = np.empty(0)

    def ask(self) -> Floats:
        self._drawn = self._random.standard_normal((self.population, len(self._mean)))
        return self._mean + self._sigma * self._drawn @ self._shape

    def tell(self, _vectors: Floats, losses: Floats) -> None:
        """Follow the natural gradient."""
        drawn = self._drawn[np.argsort(losses, kind="stable")]
        n = len(self._mean)
        mean = self._utilities @ drawn
        shape = (drawn.T * self._utilities) @ drawn - self._utilities.sum() * np.eye(n)
        sigma = np.trace(shape) / n
        self._mean = self._mean + self._sigma * mean @ self._shape
        self._sigma *= math.exp(self._rate / 2 * sigma)
        values, vectors = np.linalg.eigh(self._rate / 2 * (shape - sigma * np.eye(n)))
        self._shape = self._shape @ (
            (vectors * np.exp(values)) @ vectors.T
        )  # exponential, as it is symmetric


class _CmaEs:
    """CMA-ES of the package cmaes, which draws by a generator of its own."""

    def __init__(self, dimensions: int, seed: int) -> None:
        try:
            from cmaes import CMA
        except ImportError as error:
            raise InputError(
                "method: cma-es: needs the package cmaes, which is not installed; "
                "pip install 'mlsim[search]', or use xnes"
            ) from error
        self._own: Any = CMA(mean=np.zeros(dimensions), sigma=0.5, seed=seed)
        self.population = int(self._own.population_size)

    def ask(self) -> Floats:
        return np.array([self._own.ask() for _ in range(self.population)])

    def tell(self, vectors: Floats, losses: Floats) -> None:
        self._own.tell([(vector, float(loss)) for vector, loss in zip(vectors, losses, strict=True)])


def _search_of(method: str, dimensions: int, seed: int) -> _Xnes | _CmaEs:
    """Return a search in its first generation; raise InputError if its method or package is missing."""
    if method == "xnes":
        return _Xnes(dimensions, seed)
    if method == "cma-es":
        return _CmaEs(dimensions, seed)
    raise InputError(f"method: {method!r} is not known; allowed: grid, {', '.join(METHODS)}")


@dataclass(frozen=True)
class Searching:
    """Options of the search for weight vectors; those below ``points`` are of xnes and cma-es."""

    features: tuple[str, ...] = ("q", "p", "wait")  # names of FEATURES
    method: str = "grid"  # `grid`, `xnes` or `cma-es`
    points: int = 200  # of a grid: values per dimension
    evaluations: int = 2000  # vectors tried for each week, and for all training weeks
    factor: float = 1.0  # λ of the penalty
    seed: int = 0
    scaled: bool = False  # whether features are divided by their deviation in the training weeks
    scale: Floats | None = None  # divisors of features, which learning sets if they are scaled

    def check(self) -> None:
        """Check options before a search; raise InputError."""
        if self.method == "grid":
            check_grid(self.points, self.features)
        else:
            places_of(self.features)
            _search_of(self.method, 2, 0)

    def over(self, blocks: Sequence[JobBlock]) -> Self:
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


@dataclass(frozen=True)
class Mixed:
    """Mixed and pure policies in every week."""

    weeks: Ints  # numbers of the weeks with jobs
    train: Mask
    test: Mask
    means: Mapping[str, Floats]  # policy (w*, w*_train, w_greedy, PURE) to its mean bounded slowdown per week
    best: Floats  # the best vector of each week
    learned: Floats  # the vector of w*_train
    vectors: int  # simulated in each week
    searching: Searching  # as it was done

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
    """Return a policy's mean over weeks, and the paired difference to another; one week has no test."""
    one, other = (dict(zip(map(str, weeks.tolist()), of.tolist(), strict=True)) for of in (values, others))
    found = spread_of(one, other)
    return replace(found, difference=float(values[0] - others[0])) if len(weeks) == 1 else found


def weekly_means(blocks: Sequence[JobBlock], config: BatchConfig, units: int, vectors: Floats) -> Floats:
    """Return the mean bounded slowdown of each week under each vector, shape (weeks, vectors)."""
    weights = batch_section.WeightsConfig(p=1.0)
    linear = config.model_copy(update={"policy": Policy.LINEAR, "weights": weights})
    found = replay_many(blocks, linear, units, vectors)
    return found.bounded_slowdown / found.ran


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
    return np.where(spread > 0, spread, 1.0)


def searched(wanted: Wanted) -> Floats:
    """Return, of a grid, each vector's sum of weekly means; else the vector that was found, and its sum."""
    blocks = [wanted.log.blocks[number] for number in wanted.weeks]
    config, units, searching = wanted.log.scenario.batch, wanted.log.units, wanted.searching
    if searching.method != "grid":

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
        return np.append(normalised(wide(vector[np.newaxis]))[0], loss)
    vectors = searching.grid()
    total = np.zeros(len(vectors))
    for block in blocks:  # one by one: all starts of all weeks would take much memory
        total += weekly_means([block], config, units, vectors)[0]
    return total


def searches(wanted: Sequence[Wanted], parts: Parts | None) -> Iterator[Floats]:
    """Search in order, as parts, or in this process, which keeps nothing."""
    if parts is None:
        return map(searched, wanted)
    made = []
    for one in wanted:
        first, last, scenario = one.weeks[0], one.weeks[-1], one.log.scenario
        labels = {"log": scenario.name, "weeks": f"{first}" if first == last else f"{first}-{last}"}
        made.append(Part(labels, scenario, _searched, (one.weeks, one.searching)))
    return parts.results(made)


def _searched(scenario: Scenario, weeks: tuple[int, ...], searching: Searching) -> Floats:
    return searched(Wanted(shared_weeks(scenario), weeks, searching))


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


def learn_mixed(
    weeks: LogWeeks,
    train: tuple[int, int],
    test: tuple[int, int],
    searching: Searching,
    parts: Parts | None = None,
    later: int = 0,
) -> Mixed:
    """Search mixed policies on the weeks ``train`` (first and last) of a log, and test them on ``test``.

    w_greedy uses the week before the first one, if any. ``parts`` run the searches; None: this process.
    ``later``: how many parts the caller will run afterwards, for their progress.
    """
    fit = [number for number, block in weeks.blocks.items() if (block.processors <= weeks.units).any()]
    numbers = np.array(sorted(fit), np.int64)
    numbers = numbers[(numbers >= min(train[0], test[0]) - 1) & (numbers <= max(train[1], test[1]))]
    trained, tested = ((numbers >= first) & (numbers <= last) for first, last in (train, test))
    for name, part in (("train", trained), ("test", tested)):
        if not part.any():
            raise InputError(f"{name}: no week of the log has a job there")
    if (trained & tested).any():
        raise InputError("train, test: overlap; what was fitted is no evidence")
    blocks = [weeks.blocks[number] for number in numbers.tolist()]
    searching = searching.over([block for block, taken in zip(blocks, trained, strict=True) if taken])
    config, units = weeks.scenario.batch, weeks.units
    find = _by_grid if searching.method == "grid" else _by_evolution
    if parts is not None:
        parts.plan(len(numbers) + (searching.method != "grid") + later)
    best, least, greedy, learned, count = find(weeks, numbers, trained, searching, parts)
    fitted = weekly_means(blocks, config, units, learned[np.newaxis])[:, 0]
    before = np.diff(numbers, prepend=numbers[0] - 2) == 1
    pure = pure_means(blocks, config, units)
    means = {
        "w*": least,
        "w*_train": fitted,
        "w_greedy": np.where(before, greedy, pure["FCFS"]),  # nothing was learned in a week before
        **pure,
    }
    return Mixed(numbers, trained, tested, means, normalised(best), learned, count, searching)


_Found = tuple[Floats, Floats, Floats, Floats, int]


def _by_grid(log: LogWeeks, numbers: Ints, train: Mask, searching: Searching, parts: Parts | None) -> _Found:
    vectors = searching.grid()
    total = np.zeros(len(vectors))
    best, least, greedy = [], [], []
    last: Ints | None = None
    found = searches(parts_of(log, numbers.tolist(), searching), parts)
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
    log: LogWeeks, numbers: Ints, train: Mask, searching: Searching, parts: Parts | None
) -> _Found:
    wanted = [Wanted(log, (number,), searching) for number in numbers.tolist()]
    *each, together = searches([*wanted, *parts_of(log, numbers[train].tolist(), searching)], parts)
    best, least = np.array([found[:-1] for found in each]), np.array([found[-1] for found in each])
    config, units = log.scenario.batch, log.units
    greedy = [np.nan] + [
        float(weekly_means([log.blocks[number]], config, units, vector[np.newaxis])[0, 0])
        for number, vector in zip(numbers.tolist()[1:], best[:-1], strict=True)
    ]
    count = tried_by(searching.method, len(places_of(searching.features)), searching.evaluations)
    return best, least, np.array(greedy), learned_of([together], searching), count
