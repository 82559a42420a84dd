"""Techniques of the time steps of a simulated loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

import numpy as np

from mlsim._arrays import Floats
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
"""Chooses a technique for the rest of a loop; returns it and how long that takes, in s."""


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

    def chooses_within(self) -> ChooseWithin | None:
        """Return what chooses for the rest of the time step amid it; None: nobody does."""

    def prepare(self, prepared: Callable[[Choice], Choice]) -> None:
        """Have techniques changed in this way from the next time step on, such as by what they learned."""

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
        """Whether one of them learns from one time step to the next."""
        return any(map(is_adaptive_over_steps, self._choices))

    def choose(self) -> tuple[Choices, float]:
        """Return them; it takes no time."""
        return tuple(map(self._prepared, self._choices)), 0.0

    def chooses_within(self) -> None:
        """Choose nothing amid a time step."""

    def prepare(self, prepared: Callable[[Choice], Choice]) -> None:
        """Keep how techniques are changed."""
        self._prepared = prepared

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
    within
        The selector again, where it chooses amid a time step, too.
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
        """What was chosen."""
        return tuple(self._selected)

    def choose(self) -> tuple[Choices, float]:
        """Choose the next one."""
        name, spent = self._selector.choose(), self._selector.spent
        self._made = [Selected(name, 0.0, 0.0, 0.0, spent)]
        return tuple(map(self._prepared, self._portfolio[name])), spent

    def chooses_within(self) -> ChooseWithin | None:
        """Return what chooses amid the time step."""
        selector = self._within
        return None if selector is None else partial(self._choose_within, selector)

    def _choose_within(self, selector: BySimulation, progress: Progress) -> tuple[Choice, float]:
        name, spent = selector.choose_within(progress), selector.spent
        self._made.append(Selected(name, progress.now + spent, 0.0, 0.0, spent, progress.position))
        return self._prepared(self._portfolio[name][0]), spent

    def prepare(self, prepared: Callable[[Choice], Choice]) -> None:
        """Keep how techniques are changed."""
        self._prepared = prepared

    def note(self, begin: float, outcome: LoopOutcome) -> None:
        """Tell the selector what became of it."""
        imbalance = percent_imbalance(outcome.finish)
        chunks = _executed(outcome) if self.needs_rows else None
        self._selected += rows_of_step(self._made, begin, outcome.t_loop, imbalance)
        self._selector.note(StepFacts(self._made[-1].technique, outcome.t_loop, imbalance, chunks))


def rows_of_step(made: Sequence[Selected], begin: float, t_loop: float, imbalance: float) -> list[Selected]:
    """Return the choices made in a time step, once it has ended.

    Parameters
    ----------
    made
        With times from its begin, in order.
    begin, t_loop, imbalance
        Of the time step.
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
    """Make it.

    Parameters
    ----------
    config
        Method, portfolio and their options.
    n, p
        Iterations and PEs of the loop.
    seed
        Of random numbers.
    simulate
        For method simulation.
    measured
        Whether simulating takes as long as it is measured to, not as long as the section says.
    profile
        float64[N]: costs of the iterations, in s at speed 1, for ``costs: profile``.
    speed
        float64[P]: speeds of the PEs before any is measured, for ``costs: profile``.
    """
    portfolio, goal, told = config.portfolio, config.goal, config.parameters
    match config.method:
        case SelectionMethod.EXPERT:
            return Expert(portfolio, goal)
        case SelectionMethod.EXHAUSTIVE:
            return ByTrial(portfolio, goal, told.threshold)
        case SelectionMethod.RANDOM:
            return RandomSelector(portfolio, goal, seed)
        case SelectionMethod.RL:
            rates = told.learning_rate, told.discount, told.exploration
            return Learner(portfolio, goal, seed, told.learner, *rates)
    chunk_time = None if measured else told.chunk_time
    known = profile if told.costs is KnownCosts.PROFILE else None
    return BySimulation(
        portfolio, goal, n, p, simulate, seed, told.samples, told.share, chunk_time, known, speed
    )
