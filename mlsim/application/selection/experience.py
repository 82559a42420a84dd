"""Results of ended executions of one code, which selections of its later executions begin with."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import numpy as np

from mlsim._runtime.arrays import Floats
from mlsim.application.selection import measured_costs
from mlsim.application.selection.measured_costs import Estimate
from mlsim.application.selection.selector import Selector, StepFacts
from mlsim.application.selection.simulation_selector import BySimulation, make_selector
from mlsim.scenario.costs_section import SelectionConfig
from mlsim.scenario.words import SelectionMethod

_KEPT = 3  # time steps whose chunks costs are estimated from, as within a loop


class KnownCosts(NamedTuple):
    """Costs along the loop of an ended execution, in s at the reference speed."""

    costs: Estimate
    iterations: int

    def of(self, n: int, speed: Floats) -> Estimate:
        """Return the costs of a loop of ``n`` iterations by relative position, on PEs of these speeds."""
        return self.costs._replace(bounds=self.costs.bounds * (n / self.iterations), speed=speed)


class Experience:
    """State of a method of selection after some executions; each new one begins with a copy.

    Times of time steps are relative to that of a perfectly balanced one, as executions differ in size.
    """

    def __init__(self, config: SelectionConfig) -> None:
        self._selector: Selector | None = None
        if config.method is not SelectionMethod.SIMULATION:
            self._selector = make_selector(config, 1, 1, 0, lambda *_: (0.0, 0.0, 0))
        self._known: KnownCosts | None = None

    def copy(self) -> Experience:
        """Return the present state, which later executions do not change."""
        other = copy.copy(self)
        other._selector = None if self._selector is None else self._selector.fork(0)
        return other

    def learn(self, shown: Sequence[StepFacts], iterations: int, speed: Floats) -> None:
        """Learn from the time steps of an ended execution on PEs of these relative speeds."""
        if self._selector is not None:
            for step in shown:
                self._selector.learn(step)
            return
        chunks = [step.chunks for step in shown if step.chunks is not None][-_KEPT:]
        # At the reference speed, as of a single PE: later executions have other PEs.
        known = [
            one._replace(pe=np.zeros_like(one.pe), seconds=one.seconds * speed[one.pe]) for one in chunks
        ]
        if known:
            self._known = KnownCosts(measured_costs.estimate(known, iterations, 1), iterations)

    def begin(self, selector: Selector, n: int, speed: Floats, seed: int) -> Selector:
        """Return the selector of a new execution: ``selector``, with what is known."""
        if self._selector is not None:
            return self._selector.fork(seed)
        if self._known is not None and isinstance(selector, BySimulation):
            selector.begin_with(self._known.of(n, speed))
        return selector


class Experiences:
    """Experience over the executions of a run: a job knows those that had ended when it started."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Experience] = {}
        self._ended: dict[Hashable, list[tuple[float, int, Callable[[Experience], None]]]] = {}

    def at_start(self, at: float, key: Hashable, config: SelectionConfig) -> Experience:
        """Return what the ended executions of a key have shown at a start, at ``at`` [s]."""
        known = self._known.setdefault(key, Experience(config))
        ended = self._ended.setdefault(key, [])
        ended.sort(key=lambda one: one[:2])
        while ended and ended[0][0] <= at:
            ended.pop(0)[2](known)
        return known.copy()

    def end(self, at: float, number: int, key: Hashable, show: Callable[[Experience], None]) -> None:
        """Note the end of an execution of a key, of the job of a number; ``show`` adds its time steps."""
        self._ended.setdefault(key, []).append((at, number, show))
