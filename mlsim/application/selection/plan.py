"""Which techniques the time steps of a simulated loop have: the same in all, or one chosen for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from mlsim.application.choice import Choice, is_adaptive_over_steps
from mlsim.application.outcome import LoopOutcome
from mlsim.application.selection.facts import ExecutedChunks, Selected, StepFacts, percent_imbalance
from mlsim.application.selection.selector import Selector

__all__ = ["FixedPlan", "Plan", "SelectedPlan"]

Choices = tuple[Choice, ...]


class Plan(Protocol):
    """Techniques of time steps."""

    @property
    def learns(self) -> bool:
        """Whether a technique learns from one time step to the next."""

    @property
    def needs_rows(self) -> bool:
        """Whether the choice needs the chunks of each time step."""

    @property
    def selected(self) -> tuple[Selected, ...]:
        """What was chosen; empty where nothing is."""

    def choose(self) -> tuple[Choices, float]:
        """Return the techniques of the next time step, and how long choosing takes, in s."""

    def note(self, begin: float, outcome: LoopOutcome) -> None:
        """Learn from a time step that has ended."""


class FixedPlan:
    """The same techniques in all time steps."""

    needs_rows = False
    selected: tuple[Selected, ...] = ()

    def __init__(self, choices: Choices) -> None:
        self._choices = choices

    @property
    def learns(self) -> bool:
        """Whether one of them learns from one time step to the next."""
        return any(map(is_adaptive_over_steps, self._choices))

    def choose(self) -> tuple[Choices, float]:
        """Return them; it takes no time."""
        return self._choices, 0.0

    def note(self, begin: float, outcome: LoopOutcome) -> None:
        """Learn nothing."""


class SelectedPlan:
    """A technique chosen for each time step.

    Parameters
    ----------
    selector
        Chooses.
    portfolio
        The choices that each of its names stands for.
    """

    def __init__(self, selector: Selector, portfolio: Mapping[str, Choices]) -> None:
        self._selector, self._portfolio = selector, portfolio
        self._selected: list[Selected] = []
        self._name = ""

    @property
    def learns(self) -> bool:
        """Whether one of the portfolio learns from one time step to the next."""
        every = (one for choices in self._portfolio.values() for one in choices)
        return any(is_adaptive_over_steps(one, selected=True) for one in every)

    @property
    def needs_rows(self) -> bool:
        """Whether the selector needs the chunks of each time step."""
        return self._selector.needs_chunks

    @property
    def selected(self) -> tuple[Selected, ...]:
        """What was chosen."""
        return tuple(self._selected)

    def choose(self) -> tuple[Choices, float]:
        """Choose the next one."""
        self._name = self._selector.choose()
        return self._portfolio[self._name], self._selector.spent

    def note(self, begin: float, outcome: LoopOutcome) -> None:
        """Tell the selector what became of it."""
        imbalance = percent_imbalance(outcome.finish)
        chunks = _executed(outcome) if self.needs_rows else None
        self._selected.append(Selected(self._name, begin, outcome.t_loop, imbalance, self._selector.spent))
        self._selector.note(StepFacts(self._name, outcome.t_loop, imbalance, chunks))


def _executed(outcome: LoopOutcome) -> ExecutedChunks:
    rows = outcome.rows
    assert rows is not None, "the selector needs the chunks of a time step"
    return ExecutedChunks(rows.pe.astype(np.int64), rows.first, rows.size, rows.end - rows.start)
