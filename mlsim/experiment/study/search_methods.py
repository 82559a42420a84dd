"""Search methods (grid, random, CMA-ES, Parzen estimator), and the space that they search."""

from __future__ import annotations

import logging
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import product
from typing import Any, Protocol

import numpy as np

from mlsim.errors import InputError
from mlsim.experiment.study.axes import Point

Value = float | int | str
"""A number of a range, or the label of a choice."""
Values = tuple[Value, ...]
_DIGITS = 6


@dataclass(frozen=True)
class Parameter(ABC):
    """One parameter that a search varies."""

    name: str
    """Its name in tables."""

    @abstractmethod
    def at(self, share: float) -> Value:
        """Return the value at a share of the range, from 0 to 1."""

    @abstractmethod
    def spread(self, points: int) -> list[Value]:
        """Return this many equally spaced values, from the first to the last."""

    @abstractmethod
    def probes(self) -> list[Value]:
        """Return values with which scenarios are checked before the first run."""

    @abstractmethod
    def label(self, value: Value) -> str:
        """Return a value as tables show it; :meth:`value` reads it."""

    @abstractmethod
    def value(self, label: str) -> Value:
        """Return the value of a label."""

    @abstractmethod
    def overrides(self, value: Value) -> Mapping[str, object]:
        """Return the keys of the scenario that a value sets."""


@dataclass(frozen=True)
class Range(Parameter):
    """Numbers between two limits, inclusive.

    Numbers that are not whole are rounded to six digits, so that a resumed search asks for the same runs on
    another machine, whose arithmetic may differ in the last bits, and files are readable.
    """

    key: str
    """The scenario's key that it sets; empty: it is named in texts of ``set``."""
    low: float
    high: float
    log: bool
    integer: bool

    def at(self, share: float) -> Value:
        """Return the value at a share; each integer has an equal part of the range (of its logarithm)."""
        half = 0.5 if self.integer else 0.0
        low, high = self._scaled(self.low - half), self._scaled(self.high + half)
        found = low + share * (high - low)
        return self.nearest(math.exp(found) if self.log else found)

    def share(self, value: float) -> float:
        """Return the position of a value between the limits, from 0 to 1."""
        low, high = self._scaled(self.low), self._scaled(self.high)
        return (self._scaled(value) - low) / (high - low)

    def between(self, share: float) -> Value:
        """Return the value at a position between the limits; the inverse of :meth:`share`."""
        low, high = self._scaled(self.low), self._scaled(self.high)
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
        """Format a number without losing digits."""
        short = f"{value:.{_DIGITS}g}"
        return short if not self.integer and float(short) == value else repr(value)

    def value(self, label: str) -> Value:
        """Read a number."""
        return int(label) if self.integer else float(label)

    def overrides(self, value: Value) -> Mapping[str, object]:
        """Set its key."""
        return {self.key: value} if self.key else {}

    def _scaled(self, value: float) -> float:
        return math.log(value) if self.log else value


@dataclass(frozen=True)
class Choice(Parameter):
    """One of several labels, without order."""

    choices: Mapping[str, Mapping[str, object]]

    @property
    def labels(self) -> Sequence[str]:
        """All labels."""
        return list(self.choices)

    def at(self, share: float) -> Value:
        """Return a choice; each has an equal part."""
        return self.labels[min(int(share * len(self.choices)), len(self.choices) - 1)]

    def spread(self, _points: int, /) -> list[Value]:
        """Return all choices."""
        return list(self.choices)

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


AVERAGES = ("mean", "median")
METHOD_KEYS: Mapping[str, tuple[str, ...]] = {
    "grid": ("points", "evaluations"),
    "random": ("evaluations", "seed"),
    "cma-es": ("evaluations", "seed", "population", "sigma", "start"),
    "optuna": ("evaluations", "seed", "population"),
}
"""Methods, each with the keys of ``search:`` that it reads besides the common ones."""


@dataclass(frozen=True)
class Options:
    """Options of a search method."""

    evaluations: int
    seed: int
    points: Sequence[int]
    population: int
    """Candidates per generation."""
    sigma: float
    """First standard deviation of CMA-ES, in lengths of the ranges."""
    start: Mapping[str, Value]
    """First mean of CMA-ES, by parameter; others begin in the middle."""


@dataclass(frozen=True)
class Search:
    """A search as its study file declares it: metric, parameters, method, runs."""

    metric: str
    title: str
    """Its name in tables."""
    maximise: bool
    average: str
    relative: str
    """The baseline that divides the values, of the same repetition; empty: none."""
    parameters: Sequence[Parameter]
    method: str
    options: Options
    repetitions: Sequence[Point]
    """Every candidate is evaluated on these."""
    held_out: Sequence[Point]
    """Only the best candidate and the baselines are evaluated on these, at the end."""
    baselines: Mapping[str, Mapping[str, object]]
    """Keys of the scenario that the best candidate is compared with, by label."""
    common: Mapping[str, object]
    """Keys of every run; ``{name}`` in a text is a label of it."""
    kept_axes: Sequence[str]
    """Repetitions whose keys are put into ``best.yaml``, of the first of each: all but seeds and weeks."""

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
        """Receive the losses of the candidates asked for last, in their order.

        Smaller is better, all are finite.
        """


def check_installed(method: str, place: str) -> None:
    """Refuse a method whose package is not installed."""
    package, extra = PACKAGES.get(method, ("", ""))
    if package and find_spec(package) is None:
        raise InputError(
            f"{place}: {method}: needs the package {package}, which is not installed; "
            f"pip install 'mlsim[{extra}]', or use random"
        )


def method_of(search: Search) -> Method:
    """Return the method of a search in its initial state."""
    if search.method == "grid":
        return Listed(grid(search.parameters, search.options))
    if search.method == "random":
        return Listed(random(search.parameters, search.options))
    if search.method == "cma-es":
        return CmaEs(search.parameters, search.options)
    return TreeParzen(search.parameters, search.options)


class Listed:
    """Candidates that do not depend on each other: a grid, or random ones, in a single generation."""

    def __init__(self, candidates: list[Values]) -> None:
        self._left = [candidates]

    def ask(self) -> list[Values]:
        """Return all candidates, once."""
        return self._left.pop() if self._left else []

    def tell(self, losses: Sequence[float]) -> None:
        """Ignore losses."""


def grid(parameters: Sequence[Parameter], options: Options) -> list[Values]:
    """Return every combination of equally spaced values of each parameter, the last parameter fastest."""
    steps = zip(parameters, options.points, strict=True)
    return list(product(*(parameter.spread(points) for parameter, points in steps)))


def random(parameters: Sequence[Parameter], options: Options) -> list[Values]:
    """Return candidates drawn independently and uniformly (on a log scale: of the logarithm)."""
    shares = np.random.default_rng(options.seed).random((options.evaluations, len(parameters)))
    return [
        tuple(parameter.at(share) for parameter, share in zip(parameters, row, strict=True))
        for row in shares.tolist()
    ]


class CmaEs:
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
        """Draw a generation."""
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
        """Move the distribution."""
        self._own.tell(list(zip(self._told, losses, strict=True)))

    def _begun(self, mean: Any) -> Any:
        """Return the distribution in its initial state."""
        from cmaes import CMA, CMAwM

        options: dict[str, Any] = {
            "mean": mean,
            "sigma": self._options.sigma,
            "bounds": np.array([[0.0, 1.0]] * len(self._ranges)),
            "seed": int(np.random.SeedSequence([self._options.seed, self._restarts]).generate_state(1)[0]),
            "population_size": self._options.population * 2**self._restarts,
        }
        steps = np.array([_step(one) for one in self._ranges])
        return CMAwM(steps=steps, **options) if steps.any() else CMA(**options)


def _step(one: Range) -> float:
    """Return the distance of integers on the unit range; 0: not integers, or not equally spaced."""
    return 1.0 / (one.high - one.low) if one.integer and not one.log else 0.0


class TreeParzen:
    """Optuna's TPE sampler, for all parameters together; candidates without a loss yet count as bad."""

    def __init__(self, parameters: Sequence[Parameter], options: Options) -> None:
        import optuna

        logging.getLogger("optuna").setLevel(logging.WARNING)
        self._parameters, self._options = parameters, options
        self._distributions = {parameter.name: _distribution(parameter) for parameter in parameters}
        with _quiet():
            sampler = optuna.samplers.TPESampler(seed=options.seed, multivariate=True, constant_liar=True)
        self._own = optuna.create_study(sampler=sampler)
        self._asked: list[Any] = []

    def ask(self) -> list[Values]:
        """Draw a generation."""
        with _quiet():
            self._asked = [self._own.ask(self._distributions) for _ in range(self._options.population)]
        return [
            tuple(
                one.nearest(trial.params[one.name]) if isinstance(one, Range) else trial.params[one.name]
                for one in self._parameters
            )
            for trial in self._asked
        ]

    def tell(self, losses: Sequence[float]) -> None:
        """Pass on the losses."""
        for trial, loss in zip(self._asked, losses, strict=True):
            self._own.tell(trial, loss)


def _distribution(parameter: Parameter) -> Any:
    from optuna import distributions

    if isinstance(parameter, Choice):
        return distributions.CategoricalDistribution(list(parameter.labels))
    assert isinstance(parameter, Range), "there are no others"
    if parameter.integer:
        return distributions.IntDistribution(int(parameter.low), int(parameter.high), log=parameter.log)
    return distributions.FloatDistribution(parameter.low, parameter.high, log=parameter.log)


def _quiet() -> Any:
    """Suppress Optuna's warnings that options are experimental: they are chosen on purpose."""
    return warnings.catch_warnings(action="ignore")
