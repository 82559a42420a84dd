"""Techniques of the time steps of a simulated loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

import numpy as np

from mlsim._runtime.arrays import Floats
from mlsim.application.loop_outcome import LoopOutcome
from mlsim.application.selection.rule_selectors import Expert, Learner
from mlsim.application.selection.selector import (
    ByTrial,
    ExecutedChunks,
    Progress,
    RandomSelector,
    Selected,
    Selector,
    StepFacts,
    percent_imbalance,
)
from mlsim.application.selection.simulation_selector import BySimulation, Simulate
from mlsim.application.techniques import Choice, is_adaptive_over_steps
from mlsim.scenario import KnownCosts, SelectionConfig, SelectionMethod

Choices = tuple[Choice, ...]
ChooseWithin = Callable[[Progress], tuple[Choice, float]]
"""Selects a technique for the rest of a loop; returns it and the duration of the selection [s]."""


class Plan(Protocol):
    """Techniques of the time steps of a loop."""

    @property
    def learns(self) -> bool:
        """Whether a technique learns from one time step to the next."""

    @property
    def needs_rows(self) -> bool:
        """Whether the selection needs the chunks of each time step."""

    @property
    def selected(self) -> tuple[Selected, ...]:
        """The selections so far; empty if techniques are fixed."""

    def choose(self) -> tuple[Choices, float]:
        """Return the techniques of the next time step, and the duration of the selection [s]."""

    def chooses_within(self) -> ChooseWithin | None:
        """Return the function that selects within the time step; None: there are no such selections."""

    def prepare(self, prepared: Callable[[Choice], Choice]) -> None:
        """Apply a function to the techniques from the next time step on, e.g. to set learned weights."""

    def note(self, begin: float, outcome: LoopOutcome) -> None:
        """Learn from a time step that has ended."""


def _unchanged(choice: Choice) -> Choice:
    return choice


class FixedPlan:
    """The same techniques in all time steps."""

    needs_rows = False
    selected: tuple[Selected, ...] = ()

    def __init__(self, choices: Choices) -> None:
        self._choices = choices
        self._prepared: Callable[[Choice], Choice] = _unchanged

    @property
    def learns(self) -> bool:
        """Whether a technique learns from one time step to the next."""
        return any(map(is_adaptive_over_steps, self._choices))

    def choose(self) -> tuple[Choices, float]:
        """Return the techniques; the selection takes no time."""
        return tuple(map(self._prepared, self._choices)), 0.0

    def chooses_within(self) -> None:
        """Return None: there are no selections within a time step."""

    def prepare(self, prepared: Callable[[Choice], Choice]) -> None:
        """Apply a function to the techniques from the next time step on."""
        self._prepared = prepared

    def note(self, begin: float, outcome: LoopOutcome) -> None:
        """Learn nothing."""


class SelectedPlan:
    """Techniques that a selector selects per time step.

    ``portfolio`` maps the selector's names to techniques. ``within`` is the selector again if it also selects
    within a time step.
    """

    def __init__(
        self, selector: Selector, portfolio: Mapping[str, Choices], within: BySimulation | None = None
    ) -> None:
        self._selector, self._portfolio, self._within = selector, portfolio, within
        self._selected: list[Selected] = []
        self._made: list[Selected] = []  # in this time step, with times from its begin
        self._prepared: Callable[[Choice], Choice] = _unchanged

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
        """The selections so far."""
        return tuple(self._selected)

    def choose(self) -> tuple[Choices, float]:
        """Select the techniques of the next time step."""
        name, spent = self._selector.choose(), self._selector.spent
        self._made = [Selected(name, 0.0, 0.0, 0.0, spent)]
        return tuple(map(self._prepared, self._portfolio[name])), spent

    def chooses_within(self) -> ChooseWithin | None:
        """Return the function that selects within the time step, if any."""
        selector = self._within
        return None if selector is None else partial(self._choose_within, selector)

    def _choose_within(self, selector: BySimulation, progress: Progress) -> tuple[Choice, float]:
        name, spent = selector.choose_within(progress), selector.spent
        self._made.append(Selected(name, progress.now + spent, 0.0, 0.0, spent, progress.position))
        return self._prepared(self._portfolio[name][0]), spent

    def prepare(self, prepared: Callable[[Choice], Choice]) -> None:
        """Apply a function to the techniques from the next time step on."""
        self._prepared = prepared

    def note(self, begin: float, outcome: LoopOutcome) -> None:
        """Record the selections of a time step, and let the selector learn from it."""
        imbalance = percent_imbalance(outcome.finish)
        chunks = _executed(outcome) if self.needs_rows else None
        self._selected += rows_of_step(self._made, begin, outcome.t_loop, imbalance)
        self._selector.note(StepFacts(self._made[-1].technique, outcome.t_loop, imbalance, chunks))


def rows_of_step(made: Sequence[Selected], begin: float, t_loop: float, imbalance: float) -> list[Selected]:
    """Return the selections ``made`` in a time step, in order, with times from the start of the loop.

    ``begin``, ``t_loop`` and ``imbalance`` are those of the time step.
    """
    ends = [*(choice.begin - choice.spent for choice in made[1:]), t_loop]
    return [
        choice._replace(begin=begin + choice.begin, t_loop=max(end - choice.begin, 0.0), imbalance=imbalance)
        for choice, end in zip(made, ends, strict=True)
    ]


def _executed(outcome: LoopOutcome) -> ExecutedChunks:
    rows = outcome.rows
    assert rows is not None, "the selector needs the chunks of a time step"
    return ExecutedChunks(rows.pe.astype(np.int64), rows.first, rows.size, rows.end - rows.start)


def make_selector(
    config: SelectionConfig,
    n: int,
    p: int,
    seed: int,
    simulate: Simulate,
    measured: bool = False,
    profile: Floats | None = None,
    speed: Floats | None = None,
) -> Selector:
    """Create the selector of a loop with n iterations on p PEs.

    ``measured``: the duration of simulations is measured, not computed from ``chunk_time``. With
    ``costs: profile``, ``profile`` float64[N] has the iteration costs in s at speed 1, and ``speed``
    float64[P] the speeds of the PEs before any is measured.
    """
    portfolio, goal, options = config.portfolio, config.goal, config.parameters
    match config.method:
        case SelectionMethod.EXPERT:
            return Expert(portfolio, goal)
        case SelectionMethod.EXHAUSTIVE:
            return ByTrial(portfolio, goal, options.threshold)
        case SelectionMethod.RANDOM:
            return RandomSelector(portfolio, goal, seed)
        case SelectionMethod.RL:
            rates = options.learning_rate, options.discount, options.exploration
            return Learner(portfolio, goal, seed, options.learner, *rates)
    chunk_time = None if measured else options.chunk_time
    known = profile if options.costs is KnownCosts.PROFILE else None
    return BySimulation(
        portfolio, goal, n, p, simulate, seed, options.samples, options.share, chunk_time, known, speed
    )
