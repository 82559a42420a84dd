"""A search as read, and the space that it varies."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlsim.experiment.study.axes import Point

Value = float | int | str
"""Of one parameter: a number of a range, or the label of a choice."""
Values = tuple[Value, ...]
"""One of each parameter, in their order."""
_DIGITS = 6


@dataclass(frozen=True)
class Parameter(ABC):
    """One thing that a search varies."""

    name: str
    """What it is called in tables."""

    @abstractmethod
    def at(self, share: float) -> Value:
        """Return the value at a share of the way from the first to the last, from 0 to 1."""

    @abstractmethod
    def spread(self, points: int) -> list[Value]:
        """Return so many values from the first to the last, equally far from each other."""

    @abstractmethod
    def probes(self) -> list[Value]:
        """Return values with which a scenario is made before the first run, to find what is wrong."""

    @abstractmethod
    def label(self, value: Value) -> str:
        """Return how tables write a value; :meth:`value` reads it."""

    @abstractmethod
    def value(self, label: str) -> Value:
        """Return the value of a label."""

    @abstractmethod
    def overrides(self, value: Value) -> Mapping[str, object]:
        """Return the keys of the scenario that a value sets."""


@dataclass(frozen=True)
class Range(Parameter):
    """Numbers between two limits, both of which belong to it.

    Numbers that are not whole are rounded to six digits: so that a search which is taken up again asks for
    the same runs where another machine's arithmetic differs in the last bits, and files can be read.
    """

    key: str
    """The scenario's key that it sets; empty: it is named in texts of ``set``."""
    low: float
    high: float
    log: bool
    integer: bool

    def at(self, share: float) -> Value:
        """Return the value at a share of the way; whole numbers have equal parts of it (of its logarithm)."""
        half = 0.5 if self.integer else 0.0
        low, high = self._scaled(self.low - half), self._scaled(self.high + half)
        found = low + share * (high - low)
        return self.nearest(math.exp(found) if self.log else found)

    def share(self, value: float) -> float:
        """Return how far a value is from the lower to the upper limit, from 0 to 1."""
        low, high = self._scaled(self.low), self._scaled(self.high)
        return (self._scaled(value) - low) / (high - low)

    def between(self, share: float) -> Value:
        """Return the value at a share between the limits, of which :meth:`share` is the reverse."""
        low, high = self._scaled(self.low), self._scaled(self.high)
        found = low + share * (high - low)
        return self.nearest(math.exp(found) if self.log else found)

    def nearest(self, number: float) -> Value:
        """Return the value that stands for a number: whole, or of six digits, and within the limits."""
        if self.integer:
            return int(min(max(math.floor(number + 0.5), self.low), self.high))
        return min(max(float(f"{number:.{_DIGITS}g}"), self.low), self.high)

    def spread(self, points: int) -> list[Value]:
        """Return values from limit to limit; the same whole number only once."""
        if points == 1:
            return [self.between(0.5)]
        return list(dict.fromkeys(self.between(place / (points - 1)) for place in range(points)))

    def probes(self) -> list[Value]:
        """Return one inside (not the middle, where weights are often 0), and the limits."""
        return [self.between(0.6), self.nearest(self.low), self.nearest(self.high)]

    def label(self, value: Value) -> str:
        """Write a number, no digit lost."""
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
    """One of several, in no order."""

    choices: Mapping[str, Mapping[str, object]]
    """Label to the keys that it sets."""

    @property
    def labels(self) -> Sequence[str]:
        """All of them."""
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
"""Methods, each with the keys of ``search:`` that it reads beside those of all."""


@dataclass(frozen=True)
class Options:
    """How a method searches."""

    evaluations: int
    """Candidates that are tried at most."""
    seed: int
    points: Sequence[int]
    """Of a grid, for each parameter."""
    population: int
    """Candidates that are asked for at a time."""
    sigma: float
    """First standard deviation of CMA-ES, in lengths of the ranges."""
    start: Mapping[str, Value]
    """First mean of CMA-ES, by parameter; others begin in the middle."""


@dataclass(frozen=True)
class Search:
    """What is searched for, over what, and how."""

    metric: str
    """Key of the summary."""
    title: str
    """What tables call it."""
    maximise: bool
    average: str
    """Over repetitions: mean or median."""
    relative: str
    """The baseline whose value each value is divided by, of the same repetition; empty: none."""
    parameters: Sequence[Parameter]
    method: str
    options: Options
    repetitions: Sequence[Point]
    """What every candidate is evaluated on."""
    held_out: Sequence[Point]
    """What only the best one and the baselines are evaluated on, in the end."""
    baselines: Mapping[str, Mapping[str, object]]
    """What the best one is compared with: keys of the scenario, by label."""
    common: Mapping[str, object]
    """Keys of every run; ``{name}`` in a text is a label of it."""
    kept_axes: Sequence[str]
    """Repetitions whose keys are put into ``best.yaml``, of the first of each: all but seeds and weeks."""

    @property
    def objective(self) -> str:
        """What is made small or large, in words."""
        words = self.title if len(self.repetitions) == 1 else f"{self.average} {self.title}"
        return f"{words} / {self.relative}" if self.relative else words

    @property
    def most_runs(self) -> int:
        """How many runs there are at most."""
        tried = (self.options.evaluations + len(self.baselines)) * len(self.repetitions)
        return tried + (1 + len(self.baselines)) * len(self.held_out)

    def loss(self, objective: float) -> float:
        """Return what is made small."""
        return -objective if self.maximise else objective
