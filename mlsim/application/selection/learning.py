"""Reinforcement learning over the portfolio: Q-learning (Watkins 1989) and SARSA (Rummery and Niranjan 1994).

The state is the technique of the last time step, the action that of the next one. The reward of a time step
is 1 - value / mean of the values so far, so that it is above 0 where it was shorter than usual, in loops of
any length. First each technique is tried once; then the best one of the state's row is taken, or, with the
probability of exploration, any.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mlsim.application.selection.facts import StepFacts
from mlsim.application.selection.selector import Selector, generator
from mlsim.scenario import SelectionGoal, TemporalDifference

__all__ = ["Learner"]


class Learner(Selector):
    """Learns what each technique is worth after each other.

    Parameters
    ----------
    portfolio, goal
        As of every selector.
    seed
        Of its random numbers.
    rule
        How values are updated: with the best action of the next state (Q-learning), or with the one that is
        taken there (SARSA).
    rate, discount, exploration
        As in a scenario.
    """

    def __init__(
        self,
        portfolio: Sequence[str],
        goal: SelectionGoal,
        seed: int,
        rule: TemporalDifference,
        rate: float,
        discount: float,
        exploration: float,
    ) -> None:
        super().__init__(portfolio, goal)
        self._random = generator(seed)
        self._on_policy = rule is TemporalDifference.SARSA
        self._rate, self._discount, self._exploration = rate, discount, exploration
        count = len(self.portfolio)
        self.values = np.zeros((count, count))
        self._state = self._action = 0
        self._reward: float | None = None  # of the last action, until the values have learned from it
        self._sum, self._steps = 0.0, 0

    def choose(self) -> str:
        """Take an action in the state that the last one led to."""
        state = self._action
        count = len(self.portfolio)
        if self._steps < count:
            action = self._steps
        elif self._random.random() < self._exploration:
            action = int(self._random.integers(count))
        else:
            action = int(np.argmax(self.values[state]))
        if self._reward is not None:
            self._learn(action)
        self._state, self._action = state, action
        return self.portfolio[action]

    def _learn(self, following: int) -> None:
        """Update the value of the last action, after which ``following`` is taken."""
        ahead = self.values[self._action]
        worth = ahead[following] if self._on_policy else ahead.max()
        target = self._reward + self._discount * worth
        place = self._state, self._action
        self.values[place] += self._rate * (target - self.values[place])
        self._reward = None

    def note(self, step: StepFacts) -> None:
        """Compute the reward."""
        value = self.value(step.t_loop, step.imbalance)
        self._sum += value
        self._steps += 1
        mean = self._sum / self._steps
        self._reward = 1.0 - value / mean if mean > 0.0 else 0.0
