"""Search methods: grid, random, CMA-ES, Parzen estimator."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import product
from typing import Any, Protocol

import numpy as np

from mlsim.errors import InputError
from mlsim.experiment.study.search.search_model import Choice, Options, Parameter, Range, Search, Values

PACKAGES = {"cma-es": ("cmaes", "search"), "optuna": ("optuna", "optuna")}
"""Package and extra of the methods that need one."""


class Method(Protocol):
    """Asks for candidates. What it asks for depends on its options and on what it is told alone."""

    def ask(self) -> list[Values]:
        """Return the next generation; none if there are no more."""

    def tell(self, losses: Sequence[float]) -> None:
        """Note how good the candidates asked for last are, in their order; less is better, all are finite."""


def check_installed(method: str, place: str) -> None:
    """Refuse a method whose package is not there.

    Raises
    ------
    InputError
        If it is not; the message begins with ``place`` and says what to install.
    """
    package, extra = PACKAGES.get(method, ("", ""))
    if package and find_spec(package) is None:
        raise InputError(
            f"{place}: {method}: needs the package {package}, which is not installed; "
            f"pip install 'mlsim[{extra}]', or use random"
        )


def method_of(search: Search) -> Method:
    """Return the method of a search, at its beginning."""
    if search.method == "grid":
        return Grid(search.parameters, search.options)
    if search.method == "random":
        return Random(search.parameters, search.options)
    if search.method == "cma-es":
        return CmaEs(search.parameters, search.options)
    return TreeParzen(search.parameters, search.options)


class Grid:
    """Every combination of some values of each parameter, the last parameter fastest."""

    def __init__(self, parameters: Sequence[Parameter], options: Options) -> None:
        steps = zip(parameters, options.points, strict=True)
        self._left = [list(product(*(parameter.spread(points) for parameter, points in steps)))]

    def ask(self) -> list[Values]:
        """Return all of them, once."""
        return self._left.pop() if self._left else []

    def tell(self, losses: Sequence[float]) -> None:
        """Learn nothing."""


class Random:
    """Candidates drawn independently of each other, uniformly (where the scale is log: of the logarithm)."""

    def __init__(self, parameters: Sequence[Parameter], options: Options) -> None:
        shares = np.random.default_rng(options.seed).random((options.evaluations, len(parameters)))
        self._left = [
            [
                tuple(parameter.at(share) for parameter, share in zip(parameters, row, strict=True))
                for row in shares.tolist()
            ]
        ]

    def ask(self) -> list[Values]:
        """Return all of them, once."""
        return self._left.pop() if self._left else []

    def tell(self, losses: Sequence[float]) -> None:
        """Learn nothing."""


class CmaEs:
    """Evolution of a normal distribution, between 0 and 1 along each range (of its logarithm).

    Whole numbers on a linear scale are those of CMA-ES with margin (Hamano et al. 2022), which keeps their
    variance from vanishing; on a log scale they are rounded. When the distribution has converged, the search
    begins once more elsewhere with twice the population (IPOP; Auger and Hansen 2005).
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
            random = np.random.default_rng([self._options.seed, self._restarts])
            self._own = self._begun(random.random(len(self._ranges)))
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
        """Return the distribution at its beginning."""
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
    """Return how far whole numbers are from each other; 0: values are not whole, or not equally far."""
    return 1.0 / (one.high - one.low) if one.integer and not one.log else 0.0


class TreeParzen:
    """Optuna's sampler of this name, for all parameters together; those not yet told count as bad."""

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
        """Note how good they are."""
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
    """Leave out warnings that parts of Optuna are experimental: what is told to be used is on purpose."""
    return warnings.catch_warnings(action="ignore")
