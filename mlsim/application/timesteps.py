"""Loops that are executed several times, one time step after the other, with a barrier between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim._progress import followed, stage
from mlsim.application.choice import Choice, is_adaptive_over_steps, scaled
from mlsim.application.outcome import ChunkRows, LoopOutcome
from mlsim.application.selection.plan import Plan

if TYPE_CHECKING:
    from mlsim.record import LoopChunks

__all__ = ["StepHistory", "in_time_steps"]

OneLoop = Callable[[tuple[Choice, ...], float, bool], LoopOutcome]
"""Simulates one time step: techniques, when it begins (s), whether to keep chunk rows."""


class StepHistory:
    """What the PEs have executed in the time steps so far, which gives the weights that AWF begins with.

    Parameters
    ----------
    p
        PEs.
    selected
        Whether each time step has another technique.

    Attributes
    ----------
    seconds, iterations
        float64[P]: Σ s·t_s and Σ s·n_s of every PE over the time steps s = 1, 2, …
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
        """Add a time step, in which each PE executed so many iterations in so many seconds.

        ``forgets``: none before it counts, as LB4MPI has it.
        """
        self._steps += 1
        kept = 0.0 if forgets else 1.0
        self.seconds = kept * self.seconds + self._steps * seconds
        self.iterations = kept * self.iterations + self._steps * iterations

    def weigh(self, choice: Choice) -> Choice:
        """Return a technique with the weights that it takes over; unchanged if it takes none."""
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

    A time step begins when all PEs have been notified that nothing is left of the one before. Between two,
    AWF sets its weights by all steps so far: w_q = P·r_q / Σ r with the rate r_q = Σ s·n_s / Σ s·t_s, where
    PE q executed n_s iterations in t_s seconds in step s, from 1 (Banicescu, Velusamy and Devaprasad 2003).
    PEs without a rate keep their weight, and the others share the rest. Other techniques begin anew, but for
    AWF's variants where techniques are chosen.

    Parameters
    ----------
    plan
        Which techniques each time step has; what choosing them takes passes before it begins.
    time_steps
        How many, 1 or more.
    one_loop
        Simulates one of them; gives times from its own start, ``until`` already taken into account.
    record
        Whether to keep chunk rows.
    until
        When everything ends whatever remains, in s.
    history
        What was measured in time steps before; these are added.
    chunks
        Is told of each time step before ``one_loop`` hands its chunks over; None: nobody takes them.

    Returns
    -------
    LoopOutcome
        Of all together: iterations and scheduling steps go on from one time step to the next, and the
        last chunk of each PE is one of the last time step, iterations counted within it.
    """
    plan.prepare(history.weigh)
    if time_steps == 1:
        choices, _ = plan.choose()
        _begin_step(chunks, 0.0, [])
        outcome = one_loop(choices, 0.0, record or plan.needs_rows)
        plan.note(0.0, outcome)
        return replace(outcome, rows=outcome.rows if record else None, selected=plan.selected)
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
            plan.note(now, outcome)
            done.append(outcome if record else replace(outcome, rows=None))
            begins.append(now)
            now += float(outcome.notified_at.max())
            if now >= until:
                break
            if plan.learns:
                history.add(_iterations_of_pes(outcome), outcome.busy, choices[0].of_lb4mpi)
    return replace(_joined(done, begins, waited, record), selected=plan.selected)


def _begin_step(chunks: LoopChunks | None, begin: float, done: Sequence[LoopOutcome]) -> None:
    """Tell who takes chunks that a time step begins, after those that are done."""
    if chunks is not None:
        steps, iterations = sum(of.steps for of in done), sum(of.iterations for of in done)
        chunks.begin_step(begin, steps, iterations)


def _iterations_of_pes(outcome: LoopOutcome) -> Floats:
    """Count the iterations that each PE executed."""
    rows = outcome.rows
    assert rows is not None, "AWF needs the chunks of a time step"
    counts: Floats = np.bincount(rows.pe, weights=rows.size, minlength=len(outcome.busy)).astype(np.float64)
    return counts


def _learned_weights(first: Floats, seconds: Floats, iterations: Floats) -> Floats:
    """Return AWF's weights after some time steps.

    Parameters
    ----------
    first
        float64[P], of sum P: weights it began with.
    seconds, iterations
        float64[P]: Σ s·t_s and Σ s·n_s of every PE over the time steps s = 1, 2, …
    """
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
    for outcome, begin in zip(done, begins, strict=True):
        had = outcome.chunks > 0
        finish[had], start[had] = begin + outcome.finish[had], begin + outcome.last_start[had]
        first[had], size[had] = outcome.last_first[had], outcome.last_size[had]
    at_barriers = [outcome.notified_at.max() - outcome.notified_at for outcome in done[:-1]]
    return replace(
        last,
        iterations=sum(outcome.iterations for outcome in done),
        steps=sum(outcome.steps for outcome in done),
        t_loop=float(finish.max()),
        finish=finish,
        notified_at=begins[-1] + last.notified_at,
        busy=np.sum([outcome.busy for outcome in done], axis=0),
        overhead=np.sum([outcome.overhead for outcome in done], axis=0),
        idle=np.sum([*(outcome.idle for outcome in done), *at_barriers], axis=0) + waited,
        last_start=start,
        chunks=np.sum([outcome.chunks for outcome in done], axis=0),
        last_first=first,
        last_size=size,
        rows=_joined_rows(done, begins) if record else None,
        last_begin=begins[-1],
    )


def _joined_rows(done: Sequence[LoopOutcome], begins: Sequence[float]) -> ChunkRows:
    blocks: list[ChunkRows] = []
    steps = iterations = 0
    for outcome, begin in zip(done, begins, strict=True):
        rows = outcome.rows
        assert rows is not None, "all time steps keep chunks, or none"
        blocks.append(
            replace(
                rows,
                step=rows.step + steps,
                first=rows.first + iterations,
                requested=rows.requested + begin,
                start=rows.start + begin,
                end=rows.end + begin,
            )
        )
        steps += outcome.steps
        iterations += outcome.iterations
    columns = (column.name for column in fields(ChunkRows))
    return ChunkRows(*(np.concatenate([getattr(block, name) for block in blocks]) for name in columns))
