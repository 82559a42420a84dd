"""Selectors of techniques: their base class, and selection by chance, trial, rules and learning."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mlsim._runtime.arrays import Floats, Ints
from mlsim.scenario.costs_section import SelectionParameters
from mlsim.scenario.words import SelectionGoal, TemporalDifference


class ExecutedChunks(NamedTuple):
    """The chunks of a time step; iterations count from its first one."""

    pe: Ints
    first: Ints
    size: Ints
    seconds: Floats  # execution time of each chunk


class Progress(NamedTuple):
    """Progress of a loop within a time step, in s from its begin, as known where its chunks are assigned."""

    now: float
    position: int  # iterations that have been assigned: the rest begins there
    executed: ExecutedChunks  # chunks known to have ended
    running: ExecutedChunks
    """The last chunk of each PE that is not known to have ended; ``seconds`` since its start."""

    def with_pes(self, pe_of: Ints) -> Progress:
        """Return the progress with the PEs renumbered: PE p becomes ``pe_of[p]``."""
        executed = self.executed._replace(pe=pe_of[self.executed.pe])
        return self._replace(executed=executed, running=self.running._replace(pe=pe_of[self.running.pe]))


class Rest(NamedTuple):
    """The remaining iterations of a loop as a loop; times in s from now."""

    free: Floats  # float64[P]: when each PE is free, 0 or more
    elapsed: float  # time since the begin of the loop


class StepFacts(NamedTuple):
    """A time step that has ended."""

    technique: str
    t_loop: float  # parallel loop time, in s
    imbalance: float  # percent imbalance of the PEs' finish times
    chunks: ExecutedChunks | None = None  # None if the selector does not need them


class Selected(NamedTuple):
    """The technique of a time step, or of the rest of one."""

    technique: str
    begin: float  # start of its use, in s from the loop's start
    t_loop: float  # time until the next selection within the time step, or its end, in s
    imbalance: float  # percent imbalance of the whole time step
    spent: float  # duration of the selection before ``begin``, in s
    iterations: int = 0  # iterations of the time step assigned before; 0: selected for the whole time step


def percent_imbalance(finish: Floats) -> float:
    """Return (1 - mean / max) · 100 of finish times, 0 if all are 0 (Eleliemy 2021, Eq. 2.16)."""
    last = float(finish.max(initial=0.0))
    return (1.0 - float(np.mean(finish)) / last) * 100.0 if last > 0.0 else 0.0


_STREAM = 0x5E1


class Selector(ABC):
    """Selects the technique of each time step from a ``portfolio`` of two or more, to minimize ``goal``."""

    needs_chunks = False  # whether :meth:`note` needs the chunks of each time step
    spent = 0.0  # duration of the last selection [s]; 0 if negligible

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

    def learn(self, step: StepFacts) -> None:
        """Learn from a time step of another execution of the loop."""
        self.note(step)

    def fork(self, seed: int) -> Selector:
        """Return a copy that learns on its own; its random numbers depend on the seed alone."""
        other = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, dict | set | np.ndarray):
                setattr(other, name, value.copy())
            elif isinstance(value, np.random.Generator):
                setattr(other, name, generator(seed))
        return other


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
    """Tries each technique in one time step, then keeps the best, or first, one (Auto4OMP's ExhaustiveSel).

    All are tried again once the percent imbalance differs from that of its trial by over ``threshold``
    points.
    """

    def __init__(self, portfolio: Sequence[str], goal: SelectionGoal, threshold: float) -> None:
        super().__init__(portfolio, goal)
        self._threshold = threshold
        self._tried: dict[str, StepFacts] = {}
        self._best: StepFacts | None = None

    def choose(self) -> str:
        """Return the next technique to try, or the best one."""
        if self._best is not None:
            return self._best.technique
        return next(name for name in self.portfolio if name not in self._tried)

    def note(self, step: StepFacts) -> None:
        """Store the result of a trial, or restart the trials if the imbalance has changed."""
        if self._best is not None:
            changed = abs(step.imbalance - self._best.imbalance) > self._threshold
            if changed and step.technique == self._best.technique:
                self._tried, self._best = {}, None
            return
        self._tried[step.technique] = step
        if len(self._tried) == len(self.portfolio):
            tried = [self._tried[name] for name in self.portfolio]
            self._best = min(tried, key=lambda one: self.value(one.t_loop, one.imbalance))


# Intervals over which fuzzy memberships change from 0 to 1 (or 1 to 0): of the imbalance in percent, of its
# change in percentage points, of the relative change of the loop time.
_LOW, _HIGH = (2.0, 5.0), (10.0, 20.0)
_POINTS = (1.0, 5.0)
_SHARE = (0.01, 0.05)
_WORSE = 0.01


def _rising(value: float, span: tuple[float, float]) -> float:
    """Return 0 below a span, 1 above it, and linear values between."""
    return min(max((value - span[0]) / (span[1] - span[0]), 0.0), 1.0)


def rungs(imbalance: float, points: float, share: float) -> float:
    """Return the number of rungs to move towards smaller chunks; below 0: towards larger ones.

    Percent imbalance of the last time step, its change in points, and the relative change of the loop time.
    """
    low, high = 1.0 - _rising(imbalance, _LOW), _rising(imbalance, _HIGH)
    medium = 1.0 - low - high
    falls = _rising(-points, _POINTS)
    slower = _rising(share, _SHARE)
    rules = (
        (min(low, 1.0 - slower), 0.0),
        (min(low, slower), -1.0),
        (min(medium, falls), 0.0),
        (min(medium, 1.0 - falls), 1.0),
        (min(high, falls), 1.0),
        (min(high, 1.0 - falls), 2.0),
    )
    return sum(weight * move for weight, move in rules) / sum(weight for weight, _ in rules)


class Expert(Selector):
    """Moves along the portfolio by fuzzy rules, but not to techniques that have been worse.

    Results are dropped once the imbalance differs from that of the technique's first time step by over 5
    points.
    """

    def __init__(self, portfolio: Sequence[str], goal: SelectionGoal) -> None:
        super().__init__(portfolio, goal)
        self._place = 0
        self._before: StepFacts | None = None
        self._seen: dict[int, StepFacts] = {}

    def choose(self) -> str:
        """Return the technique of the current rung."""
        return self.portfolio[self._place]

    def note(self, step: StepFacts) -> None:
        """Move to the next rung."""
        before, place = self._before or step, self._place
        first = self._seen.setdefault(place, step)
        if abs(step.imbalance - first.imbalance) > _POINTS[1]:
            self._seen = {}
        self._seen[place] = step if not self._seen else self._seen.get(place, step)
        share = step.t_loop / before.t_loop - 1.0 if before.t_loop > 0.0 else 0.0
        wanted = rungs(step.imbalance, step.imbalance - before.imbalance, share)
        aim = place + round(wanted)
        self._before = step
        self._place = self._allowed(place, min(max(aim, 0), len(self.portfolio) - 1))

    def learn(self, step: StepFacts) -> None:
        """Move from the rung of the other execution's technique."""
        self._place = self.portfolio.index(step.technique)
        self.note(step)

    def _allowed(self, place: int, aim: int) -> int:
        """Return the next rung: ``aim``, or the best known one if results show that ``aim`` is no better."""
        values = {at: self.value(step.t_loop, step.imbalance) for at, step in self._seen.items()}
        best = min(values, key=lambda at: (values[at], abs(at - place)))
        if values[place] > values[best] * (1.0 + _WORSE):
            return best if aim in values or aim == place else aim
        if aim in values and values[aim] > values[place] * (1.0 + _WORSE):
            return place
        return aim


class Learner(Selector):
    """Learns the value of each technique after each other one, by Q-learning or SARSA."""

    def __init__(
        self, portfolio: Sequence[str], goal: SelectionGoal, seed: int, options: SelectionParameters
    ) -> None:
        super().__init__(portfolio, goal)
        self._random, self._options = generator(seed), options
        count = len(self.portfolio)
        self.values = np.zeros((count, count))
        self._state = self._action = 0
        self._reward: float | None = None  # of the last action, until the values are updated with it
        self._sum, self._steps = 0.0, 0
        self._seen: set[int] = set()  # actions

    def choose(self) -> str:
        """Select a technique; the state is the previous one."""
        state = self._action
        count = len(self.portfolio)
        if len(self._seen) < count:
            action = next(place for place in range(count) if place not in self._seen)
        elif self._random.random() < self._options.exploration:
            action = int(self._random.integers(count))
        else:
            action = int(np.argmax(self.values[state]))
        self._take(action)
        return self.portfolio[action]

    def learn(self, step: StepFacts) -> None:
        """Learn from the action of the other execution."""
        self._take(self.portfolio.index(step.technique))
        self.note(step)

    def _take(self, action: int) -> None:
        """Enter the next state, and learn the value of the last action if that is due."""
        if self._reward is not None:
            self._learn(action)
        self._state, self._action = self._action, action

    def _learn(self, following: int) -> None:
        """Update the value of the last action, where ``following`` is the next one."""
        ahead = self.values[self._action]
        on_policy = self._options.learner is TemporalDifference.SARSA
        worth = ahead[following] if on_policy else ahead.max()
        target = self._reward + self._options.discount * worth
        place = self._state, self._action
        self.values[place] += self._options.learning_rate * (target - self.values[place])
        self._reward = None

    def note(self, step: StepFacts) -> None:
        """Compute the reward: the relative distance below the mean value so far."""
        value = self.value(step.t_loop, step.imbalance)
        self._sum += value
        self._steps += 1
        self._seen.add(self._action)
        mean = self._sum / self._steps
        self._reward = 1.0 - value / mean if mean > 0.0 else 0.0
