"""The base of all methods, and the two simplest ones: by chance, and by trying all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from mlsim.application.selection.facts import StepFacts
from mlsim.scenario import SelectionGoal

__all__ = ["ByTrial", "RandomSelector", "Selector"]

_STREAM = 0x5E1


class Selector(ABC):
    """Chooses the technique of each time step.

    Parameters
    ----------
    portfolio
        Techniques to choose from, two or more.
    goal
        What is to be least.

    Attributes
    ----------
    needs_chunks
        Whether it is to be told of the chunks of each time step.
    spent
        Seconds that the last choice took; 0 where that is next to nothing.
    """

    needs_chunks = False
    spent = 0.0

    def __init__(self, portfolio: Sequence[str], goal: SelectionGoal) -> None:
        self.portfolio = tuple(portfolio)
        self._by_imbalance = goal is SelectionGoal.IMBALANCE

    def value(self, t_loop: float, imbalance: float) -> float:
        """Return what is to be least: seconds or percent."""
        return imbalance if self._by_imbalance else t_loop

    @abstractmethod
    def choose(self) -> str:
        """Return the technique of the next time step; called once before each."""

    @abstractmethod
    def note(self, step: StepFacts) -> None:
        """Learn from the time step that was chosen for last, and has ended."""


def generator(seed: int) -> np.random.Generator:
    """Return a loop's random numbers for choices: the same ones for the same seed."""
    return np.random.default_rng([_STREAM, seed])


class RandomSelector(Selector):
    """Any technique of the portfolio, each as likely as the others: the baseline."""

    def __init__(self, portfolio: Sequence[str], goal: SelectionGoal, seed: int) -> None:
        super().__init__(portfolio, goal)
        self._random = generator(seed)

    def choose(self) -> str:
        """Draw one."""
        return self.portfolio[int(self._random.integers(len(self.portfolio)))]

    def note(self, step: StepFacts) -> None:
        """Learn nothing."""


class ByTrial(Selector):
    """Each technique in one time step, then the best until the imbalance changes (Auto4OMP's ExhaustiveSel).

    Parameters
    ----------
    portfolio, goal
        As of every selector; techniques are tried in this order, and the first of equal ones is kept.
    threshold
        Change of the percent imbalance, in points, since the best one was tried, after which all are tried
        again.
    """

    def __init__(self, portfolio: Sequence[str], goal: SelectionGoal, threshold: float) -> None:
        super().__init__(portfolio, goal)
        self._threshold = threshold
        self._tried: list[StepFacts] = []
        self._best: StepFacts | None = None

    def choose(self) -> str:
        """Return the next one to try, or the best."""
        return self.portfolio[len(self._tried)] if self._best is None else self._best.technique

    def note(self, step: StepFacts) -> None:
        """Keep what was tried, or see whether the imbalance has changed."""
        if self._best is not None:
            if abs(step.imbalance - self._best.imbalance) > self._threshold:
                self._tried, self._best = [], None
            return
        self._tried.append(step)
        if len(self._tried) == len(self.portfolio):
            self._best = min(self._tried, key=lambda tried: self.value(tried.t_loop, tried.imbalance))
