"""The tree-structured Parzen estimator (Bergstra et al. 2011), by the package optuna."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from typing import Any

from mlsim.experiment.study.search.model import Options
from mlsim.experiment.study.search.space import Choice, Parameter, Range, Values

__all__ = ["TreeParzen"]


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
