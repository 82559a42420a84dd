"""``technique="auto"`` in real runs: rank 0 chooses the technique of each loop of a chain.

The selectors are those of simulated loops (:mod:`mlsim.application.selection`). Loops are a chain by
``after``: each is a time step.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim.application import trial_by
from mlsim.application.choice import Choice
from mlsim.application.costs import CostSums
from mlsim.application.outcome import ChunkRows
from mlsim.application.selection.by_simulation import BySimulation, Simulate
from mlsim.application.selection.facts import ExecutedChunks, Progress, Rest, Selected, StepFacts
from mlsim.application.selection.making import make_selector
from mlsim.application.selection.overhead import Waits, charges_of_waits, waits_of
from mlsim.application.selection.plan import rows_of_step
from mlsim.application.selection.selector import Selector
from mlsim.application.timesteps import StepHistory
from mlsim.errors import InputError
from mlsim.mpi.loop.options import LoopOptions, parameters_of
from mlsim.scenario import (
    AUTO,
    ExecutionConfig,
    ExecutionModel,
    SelectionConfig,
    SelectionMethod,
    cannot_stop,
    learner_amid_loop,
)

__all__ = ["Selecting", "check_amid", "is_auto", "selection_of"]


def selection_of(given: Mapping[str, Any] | SelectionConfig | None) -> SelectionConfig:
    """Return how techniques are chosen.

    Raises
    ------
    InputError
        If an option cannot be used; the message names it.
    """
    if isinstance(given, SelectionConfig):
        return given
    from pydantic import ValidationError

    try:
        return SelectionConfig.model_validate(dict(given or {}))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(("selection", *map(str, first["loc"])))
        raise InputError(f"LoopScheduler: {place}: {first['msg']}") from error


def check_amid(
    config: SelectionConfig, options: LoopOptions, portfolio: Iterable[tuple[Choice, ...]]
) -> None:
    """Check that techniques can be chosen amid a loop, where they are to be.

    Raises
    ------
    InputError
        Under another model than cca: nobody else has all requests, and knows what was measured.
    """
    if not config.chooses_within:
        return
    if options.model != ExecutionModel.CCA:
        raise InputError(
            f"LoopScheduler: selection.every: {config.every} with model={options.model!r}: in a real run the "
            "master chooses amid a loop, who has all requests; allowed: model='cca', or no every, and "
            "choices between loops that are a chain by after"
        )
    for message in cannot_stop(options.model, options.lock, options.compat, options.request_ahead):
        raise InputError(f"LoopScheduler: selection.every: {message}")
    for choices in portfolio:
        if choices[0].is_object:
            raise InputError(f"LoopScheduler: selection.every: {learner_amid_loop(choices[0].name)}")


def is_auto(technique: object) -> bool:
    """Whether a technique is to be chosen."""
    return isinstance(technique, str) and technique.strip().casefold() == AUTO


class Selecting:
    """Chooses on rank 0, and is told there what became of it; on other ranks it only says what is needed.

    Parameters
    ----------
    config
        Method, portfolio and their options.
    options
        Of the loop, under any technique of the portfolio.
    node_of_pe
        int64[P]: the node of each PE.
    profile
        float64[N]: what iterations cost, in s up to a factor, if that is known.
    """

    def __init__(
        self, config: SelectionConfig, options: LoopOptions, node_of_pe: Ints, profile: Floats | None
    ) -> None:
        self.config = config
        self.n = options.n
        self.needs_chunks = config.method is SelectionMethod.SIMULATION
        self.selected: list[Selected] = []
        self._options, self._node_of_pe, self._profile = options, node_of_pe, profile
        self._waits = Waits(0.0, 0.0)
        self._trial: Simulate | None = None  # with the waits and the history of now
        self._history = StepHistory(len(node_of_pe))
        self._begin = time.perf_counter()
        self._made: list[Selected] = []  # in this loop, with times from its begin
        self._selector: Selector | None = None

    def choose(self, history: StepHistory) -> int:
        """Return the number in the portfolio of the technique of the next loop; on rank 0.

        ``history``: what PEs have executed in the loops before.
        """
        self._history, self._trial = history, None
        if self._selector is None:
            p = len(self._node_of_pe)
            self._selector = make_selector(
                *(self.config, self.n, p, self._options.seed, self._simulate),
                measured=True,
                profile=self._profile,
            )
            if isinstance(self._selector, BySimulation):
                self._selector.load()
        name = self._selector.choose()
        self._made = [Selected(name, 0.0, 0.0, 0.0, self._selector.spent)]
        return self.config.portfolio.index(name)

    def choose_within(self, progress: Progress, wait: float) -> int:
        """Return the number of the technique of the rest of the loop; ``wait``: what a request took [s]."""
        selector = self._selector
        assert isinstance(selector, BySimulation), "checked: method simulation"
        self._waits, self._trial = Waits(wait, 0.0), None
        name = selector.choose_within(progress)
        begin = progress.now + selector.spent
        self._made.append(Selected(name, begin, 0.0, 0.0, selector.spent, progress.position))
        return self.config.portfolio.index(name)

    @property
    def time_of_last(self) -> float:
        """What the choices of the last loop took, in s."""
        return sum(choice.spent for choice in self._made)

    def _simulate(
        self, name: str, costs: CostSums, speeds: Floats, until: float, rest: Rest | None
    ) -> tuple[float, float, int]:
        """Simulate a loop, or the rest of one, each request of which takes what requests have taken."""
        if self._trial is None:
            self._trial = self._make_trial()
        return self._trial(name, costs, speeds, until, rest)

    def _make_trial(self) -> Simulate:
        options, p = self._options, len(self._node_of_pe)
        execution = ExecutionConfig(
            model=options.model,
            master=options.master,
            global_p=options.global_p,
            first_chunk=options.first_chunk,
            pieces=options.pieces,
            injected_delay=options.injected_delay,
            request_ahead=options.request_ahead,
            **charges_of_waits(options.model, self._waits),
        )
        parameters = parameters_of(options)
        return trial_by(
            *(execution, parameters, options.min_chunk, options.seed, np.zeros(p), self._node_of_pe, 0.0),
            self._history,
        )

    def note(self, t_loop: float, imbalance: float, rows: ChunkRows | None) -> None:
        """Learn from the loop that has ended; on rank 0."""
        assert self._selector is not None, "a technique was chosen"
        chunks = None
        if rows is not None and len(rows.pe):
            chunks = ExecutedChunks(rows.pe.astype(np.int64), rows.first, rows.size, rows.end - rows.start)
            self._waits = waits_of(rows.pe.astype(np.int64), rows.requested, rows.start, rows.end)
        begin = time.perf_counter() - self._begin - t_loop
        self.selected += rows_of_step(self._made, begin, t_loop, imbalance)
        self._selector.note(StepFacts(self._made[-1].technique, t_loop, imbalance, chunks))
