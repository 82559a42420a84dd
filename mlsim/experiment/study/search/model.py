"""A search as it was read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlsim.experiment.study.points import Point
from mlsim.experiment.study.search.space import Parameter, Value

__all__ = ["AVERAGES", "METHOD_KEYS", "Options", "Search"]

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
