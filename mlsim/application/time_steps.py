"""Loops executed over several time steps, and their techniques: the same in all, or selected for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial

import numpy as np

from mlsim._runtime.arrays import Floats, Ints
from mlsim._runtime.work_progress import followed, stage
from mlsim.application.loop_outcome import ChunkRows, LoopOutcome
from mlsim.application.selection.selector import Progress, Selected, Selector, StepFacts, percent_imbalance
from mlsim.application.selection.simulation_selector import BySimulation
from mlsim.application.techniques import Choice, is_adaptive_over_steps, scaled
from mlsim.record import LoopChunks

_KEPT = 3  # time steps whose chunks are kept for later executions, of methods that need them
Choices = tuple[Choice, ...]
ChooseWithin = Callable[[Progress], tuple[Choice, float]]
"""Selects a technique for the rest of a loop; returns it and the duration of the selection [s]."""


class Plan:
    """Techniques of the time steps of a loop: the one of ``portfolio``, or those that a selector selects.

    ``within`` is the selector again if it also selects within a time step. ``unit``: seconds in which the
    selector sees times of time steps; ``shows``: complete ones are kept for later executions.
    """

    def __init__(
        self,
        portfolio: Mapping[str, Choices],
        history: StepHistory,
        selector: Selector | None = None,
        within: BySimulation | None = None,
        unit: float = 1.0,
        shows: bool = False,
    ) -> None:
        self._portfolio, self._history = portfolio, history
        self._selector, self._within = selector, within
        self._made: list[Selected] = []  # in this time step, with times from its begin
        self._unit, self._shows = unit, shows
        self.selected: tuple[Selected, ...] = ()
        self.shown: tuple[StepFacts, ...] = ()
        self.needs_rows = selector is not None and selector.needs_chunks
        every = (one for choices in portfolio.values() for one in choices)
        self.learns = any(is_adaptive_over_steps(one, selector is not None) for one in every)

    def choose(self) -> tuple[Choices, float]:
        """Return the techniques of the next time step, and the duration of the selection [s]."""
        name, spent = next(iter(self._portfolio)), 0.0
        if self._selector is not None:
            name, spent = self._selector.choose(), self._selector.spent
        self._made = [Selected(name, 0.0, 0.0, 0.0, spent)]
        return tuple(map(self._history.weigh, self._portfolio[name])), spent

    def chooses_within(self) -> ChooseWithin | None:
        """Return the function that selects within the time step; None: there are no such selections."""
        return None if self._within is None else partial(self._choose_within, self._within)

    def _choose_within(self, selector: BySimulation, progress: Progress) -> tuple[Choice, float]:
        name, spent = selector.choose_within(progress), selector.spent
        self._made.append(Selected(name, progress.now + spent, 0.0, 0.0, spent, progress.position))
        return self._history.weigh(self._portfolio[name][0]), spent

    def note(self, begin: float, outcome: LoopOutcome, complete: bool) -> None:
        """Record the selections of a time step that has ended, and let the selector learn from it."""
        if self._selector is None:
            return
        imbalance, chunks, rows = percent_imbalance(outcome.finish), None, outcome.rows
        if self.needs_rows:
            assert rows is not None, "the selector needs the chunks of a time step"
            chunks = rows.executed
        self.selected += tuple(rows_of_step(self._made, begin, outcome.t_loop, imbalance))
        step = StepFacts(self._made[-1].technique, outcome.t_loop / self._unit, imbalance, chunks)
        self._selector.note(step)
        if self._shows and complete:
            self.shown = (*self.shown, step)[-_KEPT if self.needs_rows else 0 :]


def rows_of_step(made: Sequence[Selected], begin: float, t_loop: float, imbalance: float) -> list[Selected]:
    """Return the selections ``made`` in a time step, in order, with times from the start of the loop."""
    ends = [*(choice.begin - choice.spent for choice in made[1:]), t_loop]
    return [
        choice._replace(begin=begin + choice.begin, t_loop=max(end - choice.begin, 0.0), imbalance=imbalance)
        for choice, end in zip(made, ends, strict=True)
    ]


OneLoop = Callable[[tuple[Choice, ...], float, bool], LoopOutcome]
"""Simulates one time step: techniques, begin (s), whether to keep chunk rows."""


class StepHistory:
    """Measurements of the time steps s = 1, 2, … on ``p`` PEs, which give the initial weights of AWF.

    ``seconds``, ``iterations``: Σ s·t_s and Σ s·n_s of each PE. ``selected``: each step has its own
    technique.
    """

    def __init__(self, p: int, selected: bool = False) -> None:
        self.selected = selected
        self._steps = 0
        self.seconds, self.iterations = np.zeros(p), np.zeros(p)

    def in_order(self, order: Ints) -> StepHistory:
        """Return a copy with the PEs in another order."""
        other = StepHistory(len(order), self.selected)
        other._steps = self._steps
        other.seconds, other.iterations = self.seconds[order], self.iterations[order]
        return other

    def add(self, iterations: Floats | Ints, seconds: Floats, forgets: bool) -> None:
        """Add a time step of each PE; ``forgets``: discard all earlier ones, as LB4MPI does."""
        self._steps += 1
        kept = 0.0 if forgets else 1.0
        self.seconds = kept * self.seconds + self._steps * seconds
        self.iterations = kept * self.iterations + self._steps * iterations

    def weigh(self, choice: Choice) -> Choice:
        """Return a technique with the learned weights; unchanged if it does not keep weights."""
        if not is_adaptive_over_steps(choice, self.selected):
            return choice
        return choice._replace(weights=_learned_weights(choice.weights, self.seconds, self.iterations))


def in_time_steps(
    plan: Plan,
    time_steps: int,
    one_loop: OneLoop,
    record: bool,
    until: float,
    history: StepHistory,
    chunks: LoopChunks | None = None,
) -> LoopOutcome:
    """Simulate a loop that is executed several times.

    A time step begins when all PEs have been notified that nothing is left of the one before. In between,
    AWF sets its weights from all steps so far: w_q = P·r_q / Σ r with the rate r_q = Σ s·n_s / Σ s·t_s, where
    PE q executed n_s iterations in t_s seconds in step s, from 1 (Banicescu, Velusamy and Devaprasad 2003).
    PEs without a rate keep their weight, and the others share the rest. Other techniques start afresh, except
    AWF's variants where techniques are chosen. The time of a choice passes before its step begins.

    The outcome is of all together: iterations and scheduling steps count on over the time steps; the last
    chunk of each PE is one of the last time step, its iterations counted within that. ``history`` is
    extended; ``chunks`` receives the begin of each time step before ``one_loop`` stores its chunks.
    """
    if time_steps == 1:
        choices, _ = plan.choose()
        _begin_step(chunks, 0.0, [])
        outcome = one_loop(choices, 0.0, record or plan.needs_rows)
        plan.note(0.0, outcome, complete=float(outcome.notified_at.max()) < until)
        rows = outcome.rows if record else None
        return replace(outcome, rows=rows, selected=plan.selected, shown=plan.shown)
    done: list[LoopOutcome] = []
    begins: list[float] = []
    now = waited = 0.0
    with stage("time steps", time_steps) as work:
        for _ in followed(range(time_steps), work):
            choices, spent = plan.choose()
            if now + spent >= until and done:
                break
            now, waited = now + spent, waited + spent
            _begin_step(chunks, now, done)
            outcome = one_loop(choices, now, record or plan.learns or plan.needs_rows)
            plan.note(now, outcome, complete=now + float(outcome.notified_at.max()) < until)
            done.append(outcome if record else replace(outcome, rows=None))
            begins.append(now)
            now += float(outcome.notified_at.max())
            if now >= until:
                break
            if plan.learns:
                history.add(_iterations_of_pes(outcome), outcome.busy, choices[0].of_lb4mpi)
    return replace(_joined(done, begins, waited, record), selected=plan.selected, shown=plan.shown)


def _begin_step(chunks: LoopChunks | None, begin: float, done: Sequence[LoopOutcome]) -> None:
    """Announce a time step, after those that are done, to the receiver of its chunks."""
    if chunks is not None:
        steps, iterations = sum(of.steps for of in done), sum(of.iterations for of in done)
        chunks.begin_step(begin, steps, iterations)


def _iterations_of_pes(outcome: LoopOutcome) -> Floats:
    """Count the iterations that each PE executed."""
    rows = outcome.rows
    assert rows is not None, "AWF needs the chunks of a time step"
    return np.bincount(rows.pe, weights=rows.size, minlength=len(outcome.busy)).astype(np.float64)


def _learned_weights(first: Floats, seconds: Floats, iterations: Floats) -> Floats:
    """Return AWF's weights from the sums of :class:`StepHistory`; ``first``: initial ones, of sum P."""
    known = (seconds > 0.0) & (iterations > 0.0)
    if not known.any():
        return first
    rate = iterations[known] / seconds[known]
    weights = first.copy()
    weights[known] = weights[known].sum() * (rate / rate.sum())
    return scaled(weights)


def _joined(done: Sequence[LoopOutcome], begins: Sequence[float], waited: float, record: bool) -> LoopOutcome:
    """Join time steps, each moved to its begin; waiting at a barrier or for a choice is idle time."""
    last = done[-1]
    finish, start = np.zeros_like(last.finish), np.zeros_like(last.finish)
    first, size = np.zeros_like(last.last_first), np.zeros_like(last.last_size)
    for outcome, began in zip(done, begins, strict=True):
        had = outcome.chunks > 0
        finish[had], start[had] = began + outcome.finish[had], began + outcome.last_start[had]
        first[had], size[had] = outcome.last_first[had], outcome.last_size[had]
    at_barriers = [outcome.notified_at.max() - outcome.notified_at for outcome in done[:-1]]
    columns = ("busy", "overhead", "chunks")
    sums = {name: np.sum([getattr(outcome, name) for outcome in done], axis=0) for name in columns}
    return replace(
        last,
        iterations=sum(outcome.iterations for outcome in done),
        steps=sum(outcome.steps for outcome in done),
        t_loop=float(finish.max()),
        finish=finish,
        notified_at=begins[-1] + last.notified_at,
        **sums,
        idle=np.sum([*(outcome.idle for outcome in done), *at_barriers], axis=0) + waited,
        last_start=start,
        last_first=first,
        last_size=size,
        rows=_joined_rows(done, begins) if record else None,
        last_begin=begins[-1],
    )


def _joined_rows(done: Sequence[LoopOutcome], begins: Sequence[float]) -> ChunkRows:
    blocks: list[ChunkRows] = []
    steps = iterations = 0
    for outcome, began in zip(done, begins, strict=True):
        rows = outcome.rows
        assert rows is not None, "all time steps keep chunks, or none"
        times = (column + began for column in (rows.requested, rows.start, rows.end))
        blocks.append(ChunkRows(rows.pe, rows.step + steps, rows.first + iterations, rows.size, *times))
        steps += outcome.steps
        iterations += outcome.iterations
    columns = (column.name for column in fields(ChunkRows))
    return ChunkRows(*(np.concatenate([getattr(block, name) for block in blocks]) for name in columns))
