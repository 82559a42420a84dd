"""CMA-ES (Hansen and Ostermeier 2001), by the package cmaes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlsim.experiment.study.search.model import Options
from mlsim.experiment.study.search.space import Parameter, Range, Values

__all__ = ["CmaEs"]


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
