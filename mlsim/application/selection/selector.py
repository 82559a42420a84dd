"""The base of all selectors, the facts that they see, and the two simplest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim.scenario import SelectionGoal


class ExecutedChunks(NamedTuple):
    """The chunks of a time step; iterations count from its first one."""

    pe: Ints
    """Who executed each."""
    first: Ints
    size: Ints
    seconds: Floats
    """How long its execution took, in s."""


class Progress(NamedTuple):
    """A loop amid which a technique is to be chosen for the rest, as whoever assigns its chunks knows it.

    Times are in s from the begin of the time step.
    """

    now: float
    position: int
    """Iterations that have been assigned: the rest begins there."""
    executed: ExecutedChunks
    """Chunks that are known to have ended."""
    running: ExecutedChunks
    """The last chunk of each PE that is not known to have ended; ``seconds`` are those since its begin."""

    def with_pes(self, pe_of: Ints) -> Progress:
        """Return the same with other numbers of the PEs: each one's place in ``pe_of`` has its new one."""
        executed = self.executed._replace(pe=pe_of[self.executed.pe])
        return self._replace(executed=executed, running=self.running._replace(pe=pe_of[self.running.pe]))


class Rest(NamedTuple):
    """What is left of a loop, as a loop of its own; times in s from now."""

    free: Floats
    """float64[P]: when each PE comes free, 0 or more."""
    elapsed: float
    """How long the loop has run."""


class StepFacts(NamedTuple):
    """A time step that has ended."""

    technique: str
    t_loop: float
    """Its parallel loop time, in s."""
    imbalance: float
    """Percent imbalance of its PEs' finish times."""
    chunks: ExecutedChunks | None = None
    """None where the selector does not need them."""


class Selected(NamedTuple):
    """The technique of a time step, or of the rest of one."""

    technique: str
    begin: float
    """When it began to be used, in s from the loop's start."""
    t_loop: float
    """Until the next choice amid the time step, or its end, in s."""
    imbalance: float
    """Percent imbalance of the whole time step."""
    spent: float
    """Time that choosing took before it began, in s."""
    iterations: int = 0
    """Iterations of the time step assigned before; 0: it was chosen for all of it."""


def percent_imbalance(finish: Floats) -> float:
    """Return (1 - mean / max) · 100 of finish times, 0 where all are 0 (Eleliemy 2021, Eq. 2.16)."""
    last = float(finish.max(initial=0.0))
    return (1.0 - float(np.mean(finish)) / last) * 100.0 if last > 0.0 else 0.0


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
