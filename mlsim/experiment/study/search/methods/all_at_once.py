"""Methods that know all candidates in advance: a grid, and chance."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from mlsim.experiment.study.search.model import Options
from mlsim.experiment.study.search.space import Parameter, Values

__all__ = ["Grid", "Random"]


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
