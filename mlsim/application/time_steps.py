"""Loops executed over several time steps, and loops that stop for choices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mlsim._runtime.arrays import Floats, Ints
from mlsim._runtime.work_progress import followed, stage
from mlsim.application.loop_outcome import ChunkRows, LoopOutcome
from mlsim.application.models.cca import BAD_SIZE, CHOOSE
from mlsim.application.models.chunk_execution import begin, end, switch
from mlsim.application.models.loop_state import Inputs, State, open_state
from mlsim.application.selection.selector import ExecutedChunks, Progress
from mlsim.application.selection.technique_plan import ChooseWithin, Plan
from mlsim.application.techniques import Choice, is_adaptive_over_steps, scaled
from mlsim.techniques.technique_entry import RuleSettings

if TYPE_CHECKING:
    from mlsim.record import LoopChunks


OneLoop = Callable[[tuple[Choice, ...], float, bool], LoopOutcome]
"""Simulates one time step: techniques, begin (s), whether to keep chunk rows."""


class StepHistory:
    """Measurements of the time steps so far, which give the initial weights of AWF.

    Parameters
    ----------
    p
        PEs.
    selected
        Whether the technique is chosen anew for each time step.

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
        """Add a time step: the iterations and seconds of each PE.

        ``forgets``: discard all earlier time steps, as LB4MPI does.
        """
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
    AWF's variants where techniques are chosen.

    Parameters
    ----------
    plan
        Techniques of each time step; the time of a choice passes before the step begins.
    one_loop
        Simulates one time step, with times from its own start, ``until`` already taken into account.
    until
        When everything is killed, in s.
    history
        Measurements of earlier time steps, which this call extends.
    chunks
        Receives the begin of each time step before ``one_loop`` stores its chunks.

    Returns
    -------
    LoopOutcome
        Of all together: iterations and scheduling steps count on over the time steps; the last chunk of each
        PE is one of the last time step, its iterations counted within that.
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
    """Announce a time step, after those that are done, to the receiver of its chunks."""
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
    for outcome, began in zip(done, begins, strict=True):
        rows = outcome.rows
        assert rows is not None, "all time steps keep chunks, or none"
        blocks.append(
            replace(
                rows,
                step=rows.step + steps,
                first=rows.first + iterations,
                requested=rows.requested + began,
                start=rows.start + began,
                end=rows.end + began,
            )
        )
        steps += outcome.steps
        iterations += outcome.iterations
    columns = (column.name for column in fields(ChunkRows))
    return ChunkRows(*(np.concatenate([getattr(block, name) for block in blocks]) for name in columns))


def simulate_with_stops(
    inputs: Inputs,
    model: ModuleType,
    by_master: bool,
    choice: Choice,
    asks: Floats,
    choose_within: ChooseWithin | None,
) -> tuple[int, Choice, RuleSettings]:
    """Simulate a loop that stops for choices, by the kernel ``resume`` of a model's module.

    ``by_master``: a master chooses, otherwise the PE whose request makes a choice due. ``asks``: first
    request of each PE, in s; empty: at 0. Returns the number of chunks (-1: wrong size) and the last
    technique.
    """
    state: State = open_state(inputs)
    begin(state, asks)
    settings = inputs.outer
    while True:
        status = model.resume(state)
        if status != CHOOSE:
            break
        assert choose_within is not None, "event loops stop only for choices"
        stop = _Stop(state, by_master)
        another, spent = choose_within(stop.progress())
        stop.spend(spent)
        if another.name != choice.name:
            choice = another
            settings = choice.settings(choice.weights[stop.masters :])
            state = switch(state, settings)
    if status == BAD_SIZE:
        return -1, choice, settings
    return end(state, inputs.stats), choice, settings


class _Stop:
    """A loop at a stop, with the knowledge of the PE or master that chooses."""

    def __init__(self, state: State, by_master: bool) -> None:
        self._state, self._by_master = state, by_master
        self._pes: NDArray[Any] = np.asarray(state.pes)
        self._queue: NDArray[Any] = np.asarray(state.queues)[:1]
        self.masters = int(self._queue["masters"][0])
        self._requester, self._now = 0, float(self._queue["clock"][0])
        if not by_master:
            match = np.asarray(state.matches)[int(self._queue["tree"][0]) + 1]
            self._requester = int(match["rank"])
            served = max(float(match["time"]), float(self._queue["free"][0])) + state.costs.atomic
            self._now = served + float(self._pes["latency"][self._requester])

    def spend(self, spent: float) -> None:
        """Charge the time of a choice to the master, or to the PE that holds the window until it is written.

        The next choice is due after ``choose_after`` more executed iterations.
        """
        queue, costs = self._queue, self._state.costs
        queue["choose_at"] = queue["executed"] + costs.choose_after
        if not self._by_master:
            queue["free"] = self._now + spent + float(self._pes["latency"][self._requester]) + costs.atomic
            return
        if self.masters > 0 or queue["own_begun"][0] != 0:
            until = max(self._state.until, self._now)
            self._pes["overhead"][0] += min(self._now + spent, until) - self._now
        queue["clock"] = self._now + spent

    def progress(self) -> Progress:
        """Return the progress as known to the PE that chooses.

        A chunk is known to have ended once the request that follows it has arrived. A master also knows of
        its own chunks; the PE that chooses under a distributed model knows of requests to the window.
        """
        rows, now = self._state.rows, self._now
        n_rows = int(self._state.written[1])
        pe = rows.pe[:n_rows].astype(np.int64)
        (_, first, size), (_, start, ends) = rows.numbers[:, :n_rows], rows.times[:, :n_rows]
        known = ends + self._pes["latency"][pe] <= now
        executed = ExecutedChunks(pe[known], first[known], size[known], (ends - start)[known])
        return Progress(now, int(self._queue["position"][0]), executed, self._running())

    def _running(self) -> ExecutedChunks:
        pes = self._pes
        running = (pes["chunks"] > 0) & (pes["finish"] + pes["latency"] > self._now)
        if self._queue["own_begun"][0] != 0:
            running[0] = True
        pe = np.flatnonzero(running)
        since = np.maximum(self._now - pes["last_start"][pe], 0.0)
        return ExecutedChunks(pe, pes["last_first"][pe].copy(), pes["last_size"][pe].copy(), since)
