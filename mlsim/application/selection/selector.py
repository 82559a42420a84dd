"""The base class of selectors, their inputs, and the two simplest selectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mlsim._runtime.arrays import Floats, Ints
from mlsim.scenario import SelectionGoal


class ExecutedChunks(NamedTuple):
    """The chunks of a time step; iterations count from its first one."""

    pe: Ints
    first: Ints
    size: Ints
    seconds: Floats
    """Execution time of each chunk."""


class Progress(NamedTuple):
    """Progress of a loop at a selection within a time step, as known where its chunks are assigned.

    Times are in s from the begin of the time step.
    """

    now: float
    position: int
    """Iterations that have been assigned: the rest begins there."""
    executed: ExecutedChunks
    """Chunks known to have ended."""
    running: ExecutedChunks
    """The last chunk of each PE that is not known to have ended; ``seconds`` since its start."""

    def with_pes(self, pe_of: Ints) -> Progress:
        """Return the progress with the PEs renumbered: PE p becomes ``pe_of[p]``."""
        executed = self.executed._replace(pe=pe_of[self.executed.pe])
        return self._replace(executed=executed, running=self.running._replace(pe=pe_of[self.running.pe]))


class Rest(NamedTuple):
    """The remaining iterations of a loop as a loop; times in s from now."""

    free: Floats
    """float64[P]: when each PE is free, 0 or more."""
    elapsed: float
    """Time since the begin of the loop."""


class StepFacts(NamedTuple):
    """A time step that has ended."""

    technique: str
    t_loop: float
    """Parallel loop time, in s."""
    imbalance: float
    """Percent imbalance of the PEs' finish times."""
    chunks: ExecutedChunks | None = None
    """None if the selector does not need them."""


class Selected(NamedTuple):
    """The technique of a time step, or of the rest of one."""

    technique: str
    begin: float
    """Start of its use, in s from the loop's start."""
    t_loop: float
    """Time until the next selection within the time step, or its end, in s."""
    imbalance: float
    """Percent imbalance of the whole time step."""
    spent: float
    """Duration of the selection before ``begin``, in s."""
    iterations: int = 0
    """Iterations of the time step assigned before; 0: selected for the whole time step."""


def percent_imbalance(finish: Floats) -> float:
    """Return (1 - mean / max) · 100 of finish times, 0 if all are 0 (Eleliemy 2021, Eq. 2.16)."""
    last = float(finish.max(initial=0.0))
    return (1.0 - float(np.mean(finish)) / last) * 100.0 if last > 0.0 else 0.0


_STREAM = 0x5E1


class Selector(ABC):
    """Selects the technique of each time step from a ``portfolio`` of two or more, to minimize ``goal``."""

    needs_chunks = False
    """Whether :meth:`note` needs the chunks of each time step."""
    spent = 0.0
    """Duration of the last selection [s]; 0 if negligible."""

    def __init__(self, portfolio: Sequence[str], goal: SelectionGoal) -> None:
        self.portfolio = tuple(portfolio)
        self._by_imbalance = goal is SelectionGoal.IMBALANCE

    def value(self, t_loop: float, imbalance: float) -> float:
        """Return the value to minimize: seconds or percent."""
        return imbalance if self._by_imbalance else t_loop

    @abstractmethod
    def choose(self) -> str:
        """Return the technique of the next time step; called once before each."""

    @abstractmethod
    def note(self, step: StepFacts) -> None:
        """Learn from the time step of the last selection, which has ended."""


def generator(seed: int) -> np.random.Generator:
    """Return the generator of a loop's selections; it depends on the seed alone."""
    return np.random.default_rng([_STREAM, seed])


class RandomSelector(Selector):
    """Uniformly random techniques: the baseline."""

    def __init__(self, portfolio: Sequence[str], goal: SelectionGoal, seed: int) -> None:
        super().__init__(portfolio, goal)
        self._random = generator(seed)

    def choose(self) -> str:
        """Draw a technique."""
        return self.portfolio[int(self._random.integers(len(self.portfolio)))]

    def note(self, step: StepFacts) -> None:
        """Learn nothing."""


class ByTrial(Selector):
    """Tries each technique in one time step, then keeps the best one (Auto4OMP's ExhaustiveSel).

    Techniques are tried in the order of the portfolio; of equal ones the first is best. All are tried again
    once the percent imbalance differs from that of the best one's trial by more than ``threshold`` points.
    """

    def __init__(self, portfolio: Sequence[str], goal: SelectionGoal, threshold: float) -> None:
        super().__init__(portfolio, goal)
        self._threshold = threshold
        self._tried: list[StepFacts] = []
        self._best: StepFacts | None = None

    def choose(self) -> str:
        """Return the next technique to try, or the best one."""
        return self.portfolio[len(self._tried)] if self._best is None else self._best.technique

    def note(self, step: StepFacts) -> None:
        """Store the result of a trial, or restart the trials if the imbalance has changed."""
        if self._best is not None:
            if abs(step.imbalance - self._best.imbalance) > self._threshold:
                self._tried, self._best = [], None
            return
        self._tried.append(step)
        if len(self._tried) == len(self.portfolio):
            self._best = min(self._tried, key=lambda tried: self.value(tried.t_loop, tried.imbalance))
