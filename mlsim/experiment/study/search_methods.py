"""Search methods (grid, random, CMA-ES, Parzen estimator), and the space that they search."""

import logging
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Protocol

import numpy as np

from mlsim.experiment.study.axes import Point

Value = float | int | str  # a number of a range, or the label of a choice
Values = tuple[Value, ...]
_DIGITS = 6


@dataclass(frozen=True)
class Range:
    """A parameter with numbers between two limits, inclusive.

    Numbers that are not whole are rounded to six digits, so that a resumed search asks for the same runs on
    another machine, whose arithmetic may differ in the last bits, and files are readable.
    """

    name: str  # in tables
    key: str  # of the scenario; empty: it is named in texts of `set`
    low: float
    high: float
    log: bool
    integer: bool

    def at(self, share: float) -> Value:
        """Return the value at a share; each integer has an equal part of the range (of its logarithm)."""
        return self._between(share, 0.5 if self.integer else 0.0)

    def share(self, value: float) -> float:
        """Return the position of a value between the limits, from 0 to 1."""
        low, high = self._scaled(self.low), self._scaled(self.high)
        return (self._scaled(value) - low) / (high - low)

    def between(self, share: float) -> Value:
        """Return the value at a position between the limits; the inverse of :meth:`share`."""
        return self._between(share, 0.0)

    def _between(self, share: float, margin: float) -> Value:
        low, high = self._scaled(self.low - margin), self._scaled(self.high + margin)
        found = low + share * (high - low)
        return self.nearest(math.exp(found) if self.log else found)

    def nearest(self, number: float) -> Value:
        """Return the allowed value for a number: an integer, or of six digits, within the limits."""
        if self.integer:
            return int(min(max(math.floor(number + 0.5), self.low), self.high))
        return min(max(float(f"{number:.{_DIGITS}g}"), self.low), self.high)

    def spread(self, points: int) -> list[Value]:
        """Return equally spaced values from limit to limit, each integer only once."""
        if points == 1:
            return [self.between(0.5)]
        return list(dict.fromkeys(self.between(place / (points - 1)) for place in range(points)))

    def probes(self) -> list[Value]:
        """Return one value inside (not the middle, where weights are often 0), and the limits."""
        return [self.between(0.6), self.nearest(self.low), self.nearest(self.high)]

    def label(self, value: Value) -> str:
        """Format a number for tables without losing digits; :meth:`value` reads it."""
        short = f"{value:.{_DIGITS}g}"
        return short if not self.integer and float(short) == value else repr(value)

    def value(self, label: str) -> Value:
        """Read a number."""
        return int(label) if self.integer else float(label)

    def overrides(self, value: Value) -> Mapping[str, object]:
        """Return the keys of the scenario that a value sets."""
        return {self.key: value} if self.key else {}

    def _scaled(self, value: float) -> float:
        return math.log(value) if self.log else value


@dataclass(frozen=True)
class Choice:
    """A parameter with one of several labels, without order; all are probes."""

    name: str
    choices: Mapping[str, Mapping[str, object]]

    def at(self, share: float) -> Value:
        """Return a choice; each has an equal part."""
        return list(self.choices)[min(int(share * len(self.choices)), len(self.choices) - 1)]

    def spread(self, _points: int, /) -> list[Value]:
        """Return all choices."""
        return self.probes()

    def probes(self) -> list[Value]:
        """Return all choices."""
        return list(self.choices)

    def label(self, value: Value) -> str:
        """Return the choice."""
        return str(value)

    def value(self, label: str) -> Value:
        """Return the choice."""
        return label

    def overrides(self, value: Value) -> Mapping[str, object]:
        """Return the keys that a choice sets."""
        return self.choices[str(value)]


Parameter = Range | Choice


@dataclass(frozen=True)
class Options:
    """Options of a search method."""

    evaluations: int
    seed: int
    points: Sequence[int]  # of a grid: values of each parameter
    population: int  # candidates per generation
    sigma: float  # first standard deviation of CMA-ES, in lengths of the ranges
    start: Mapping[str, Value]  # first mean of CMA-ES, by parameter; others begin in the middle


@dataclass(frozen=True)
class Search:
    """A search as its study file declares it: metric, parameters, method, runs."""

    metric: str
    title: str  # of the metric in tables
    maximise: bool
    average: str
    relative: str  # the baseline that divides the values, of the same repetition; empty: none
    parameters: Sequence[Parameter]
    method: str
    options: Options
    repetitions: Sequence[Point]  # every candidate is evaluated on these
    held_out: Sequence[Point]  # only the best candidate and the baselines are evaluated on these, at the end
    baselines: Mapping[str, Mapping[str, object]]  # label to keys of the scenario
    common: Mapping[str, object]  # keys of every run; `{name}` in a text is a label of it
    kept_axes: Sequence[str]  # repetitions whose first keys `best.yaml` has: all but seeds and weeks

    @property
    def names(self) -> list[str]:
        """Names of the parameters."""
        return [parameter.name for parameter in self.parameters]

    @property
    def objective(self) -> str:
        """The quantity that is minimised or maximised, in words."""
        words = self.title if len(self.repetitions) == 1 else f"{self.average} {self.title}"
        return f"{words} / {self.relative}" if self.relative else words

    @property
    def most_runs(self) -> int:
        """Largest number of runs."""
        tried = (self.options.evaluations + len(self.baselines)) * len(self.repetitions)
        return tried + (1 + len(self.baselines)) * len(self.held_out)

    def loss(self, objective: float) -> float:
        """Return the value to minimise."""
        return -objective if self.maximise else objective


PACKAGES = {"cma-es": ("cmaes", "search"), "optuna": ("optuna", "optuna")}


class Method(Protocol):
    """Proposes candidates, which depend only on its options and on the losses it has received."""

    def ask(self) -> list[Values]:
        """Return the next generation; empty if there are no more."""

    def tell(self, losses: Sequence[float]) -> None:
        """Receive the losses of the candidates asked for last, in their order: smaller is better, finite."""


def method_of(search: Search) -> Method:
    """Return the method of a search in its initial state."""
    parameters, options = search.parameters, search.options
    if search.method == "grid":  # every combination of equally spaced values, the last parameter fastest
        steps = zip(parameters, options.points, strict=True)
        return _Listed(list(product(*(parameter.spread(points) for parameter, points in steps))))
    if search.method == "random":  # drawn uniformly (on a log scale: of the logarithm)
        shares = np.random.default_rng(options.seed).random((options.evaluations, len(parameters)))
        rows = (zip(parameters, row, strict=True) for row in shares.tolist())
        return _Listed([tuple(parameter.at(share) for parameter, share in row) for row in rows])
    return (_CmaEs if search.method == "cma-es" else _TreeParzen)(parameters, options)


class _Listed(Method):
    """Candidates that do not depend on each other, in a single generation."""

    def __init__(self, candidates: list[Values]) -> None:
        self._left = [candidates]

    def ask(self) -> list[Values]:
        return self._left.pop() if self._left else []

    def tell(self, _losses: Sequence[float], /) -> None:
        """Ignore them."""


class _CmaEs(Method):
    """CMA-ES, of the package cmaes, between 0 and 1 along each range (of its logarithm).

    Integers on a linear scale are those of CMA-ES with margin (Hamano et al. 2022), which keeps their
    variance from vanishing; on a log scale they are rounded. After convergence, the search restarts elsewhere
    with twice the population (IPOP; Auger and Hansen 2005).
    """

    def __init__(self, parameters: Sequence[Parameter], options: Options) -> None:
        self._ranges = [parameter for parameter in parameters if isinstance(parameter, Range)]
        self._options = options
        self._restarts = 0
        self._told: list[Any] = []
        middle = [one.share(float(options.start.get(one.name, one.between(0.5)))) for one in self._ranges]
        self._own = self._begun(np.array(middle))

    def ask(self) -> list[Values]:
        if self._own.should_stop():
            self._restarts += 1
            generator = np.random.default_rng([self._options.seed, self._restarts])
            self._own = self._begun(generator.random(len(self._ranges)))
        asked: list[Values] = []
        self._told = []
        for _ in range(self._own.population_size):
            drawn = self._own.ask()
            tried, told = drawn if isinstance(drawn, tuple) else (drawn, drawn)
            asked.append(tuple(one.between(share) for one, share in zip(self._ranges, tried, strict=True)))
            self._told.append(told)
        return asked

    def tell(self, losses: Sequence[float]) -> None:
        self._own.tell(list(zip(self._told, losses, strict=True)))

    def _begun(self, mean: Any) -> Any:
        from cmaes import CMA, CMAwM

        options: dict[str, Any] = {
            "mean": mean,
            "sigma": self._options.sigma,
            "bounds": np.array([[0.0, 1.0]] * len(self._ranges)),
            "seed": int(np.random.SeedSequence([self._options.seed, self._restarts]).generate_state(1)[0]),
            "population_size": self._options.population * 2**self._restarts,
        }
        # Distances of integers on the unit range; 0: not integers, or not equally spaced.
        steps = np.array(
            [1.0 / (one.high - one.low) if one.integer and not one.log else 0.0 for one in self._ranges]
        )
        return CMAwM(steps=steps, **options) if steps.any() else CMA(**options)


class _TreeParzen(Method):
    """Optuna's TPE sampler, for all parameters together; candidates without a loss yet count as bad."""

    def __init__(self, parameters: Sequence[Parameter], options: Options) -> None:
        import optuna

        logging.getLogger("optuna").setLevel(logging.WARNING)
        self._parameters, self._options = parameters, options
        self._distributions = {parameter.name: _distribution(parameter) for parameter in parameters}
        with warnings.catch_warnings(action="ignore"):  # that options are experimental: they are on purpose
            sampler = optuna.samplers.TPESampler(seed=options.seed, multivariate=True, constant_liar=True)
        self._own = optuna.create_study(sampler=sampler)
        self._asked: list[Any] = []

    def ask(self) -> list[Values]:
        with warnings.catch_warnings(action="ignore"):
            self._asked = [self._own.ask(self._distributions) for _ in range(self._options.population)]
        return [
            tuple(
                one.nearest(trial.params[one.name]) if isinstance(one, Range) else trial.params[one.name]
                for one in self._parameters
            )
            for trial in self._asked
        ]

    def tell(self, losses: Sequence[float]) -> None:
        for trial, loss in zip(self._asked, losses, strict=True):
            self._own.tell(trial, loss)


def _distribution(parameter: Parameter) -> Any:
    from optuna import distributions

    if isinstance(parameter, Choice):
        return distributions.CategoricalDistribution(list(parameter.choices))
    if parameter.integer:
        return distributions.IntDistribution(int(parameter.low), int(parameter.high), log=parameter.log)
    return distributions.FloatDistribution(parameter.low, parameter.high, log=parameter.log)
