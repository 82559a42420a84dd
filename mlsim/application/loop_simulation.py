"""Simulation of one loop: check the arguments, run the kernel, return the outcome."""

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from mlsim._runtime.arrays import Floats, Ints
from mlsim._runtime.work_progress import stage
from mlsim.application.iteration_costs import CostSums, LoopCosts, cost_sums
from mlsim.application.loop_binding import Bound, Problem, bind
from mlsim.application.loop_outcome import ChunkRows, LoopOutcome, RowBlocks, in_order, new_rows
from mlsim.application.selection.experience import Experience
from mlsim.application.selection.selector import Rest, percent_imbalance
from mlsim.application.selection.simulation_selector import BySimulation, Simulate, make_selector
from mlsim.application.techniques import MOST_PES, Choice, choose, read_only
from mlsim.application.time_steps import ChooseWithin, Plan, StepHistory, in_time_steps
from mlsim.application.user_code import check_levels
from mlsim.errors import InputError
from mlsim.execution_models.loop_state import COUNTS, TIMES, Perturbation, PEStats, Rows, Unavailability
from mlsim.record import LoopChunks
from mlsim.scenario.application_section import ExecutionConfig
from mlsim.scenario.costs_section import SelectionConfig, cannot_stop, learner_amid_loop
from mlsim.scenario.simulation_demand import Share, check_memory
from mlsim.scenario.technique_section import AUTO, ParametersConfig
from mlsim.scenario.words import ExecutionModel, SelectionMethod

_LAZY_ROWS = 4_000_000
_LONG = 1_000_000  # iterations from which on a loop may take seconds, and reports its progress
_ROW = 104  # bytes per chunk row, including the sorted copy
_SLACK = 1.02
"""A trial may exceed the time to beat by this factor: PEs are notified after the last chunk has ended."""


def simulate(
    prefix: LoopCosts,
    pe_speed: Floats,
    pe_latency: Floats,
    technique: str,
    execution: ExecutionConfig,
    min_chunk: int = 1,
    record: bool = False,
    until: float = math.inf,
    parameters: ParametersConfig | None = None,
    seed: int = 0,
    time_steps: int = 1,
    node_of_pe: Ints | None = None,
    intra_latency: float = 0.0,
    perturbation: Perturbation | None = None,
    rows_since: float = -math.inf,
    pe_unavailability: Unavailability | None = None,
    chunks: LoopChunks | None = None,
    selection: SelectionConfig | None = None,
    asks: Floats | None = None,
    history: StepHistory | None = None,
    experience: Experience | None = None,
) -> LoopOutcome:
    """Simulate a self-scheduled loop from time 0, when all its PEs request their first chunk.

    A pure function: the same arguments give the same bytes. Raises InputError if arguments do not fit
    together; the message names the argument and the value.

    Parameters
    ----------
    prefix
        float64[N+1], prefix sums of the iteration costs: starts at 0, never falls, in s on a PE of
        speed 1. ``CostProfiles`` makes them. Or :class:`CostSums` that are linear in the index.
    pe_speed, pe_latency
        float64[P]: relative speeds, > 0; one-way time of a message between each PE and PE 0, the master (CCA)
        or coordinator (DCA), in s, 0 for PE 0.
    technique, execution, min_chunk, parameters, selection
        As in a scenario; ``technique`` may be ``auto``.
    record, rows_since, chunks
        Whether to keep a row per chunk that ends after ``rows_since`` [s]; more than 4 million iterations are
        then simulated twice, first to count the rows. ``chunks`` receives the chunks in blocks, of which
        memory holds one (all: techniques that learn over time steps, user-defined models).
    until
        When the loop is killed, in s: a chunk in execution, or the wait for one, ends then; all other PEs are
        notified then.
    seed
        For RND, and for locks that are polled.
    time_steps, history
        Number of consecutive executions, see ``in_time_steps``; measurements of earlier ones, for the weights
        of AWF, which this call extends.
    experience
        Of ended executions, which selections begin with; the outcome has the time steps to learn from.
    node_of_pe, intra_latency
        int64[P], from 0, rising by at most 1: the node of each PE, for models of two levels; None: all on
        one. One-way time of a message between two PEs of one node, in s.
    perturbation, pe_unavailability
        Slow-downs of the PEs, and times when they request no chunks, in s from the loop's start. Absences are
        those of a whole node under models of two levels. PE 0, which holds the queue, cannot leave; under
        ``steal`` none can.
    asks
        float64[P], 0 or more, in s: when each PE requests its first chunk, under models cca and dca in one
        time step. None: at 0.
    """
    costs, speed, latency = cost_sums(prefix), read_only(pe_speed), read_only(pe_latency)
    _check_costs(costs, len(speed))
    _check_pes(speed, latency)
    _check_numbers(until, min_chunk, time_steps)
    nodes = _check_nodes(node_of_pe, len(speed), intra_latency)
    problem = Problem(
        *(read_only(costs.sums), speed, latency, nodes, intra_latency, execution),
        *(parameters or ParametersConfig(), min_chunk, seed, perturbation, pe_unavailability),
        block=costs.block,
        iterations=costs.n,
    )
    selects = (selection or SelectionConfig()) if technique.casefold() == AUTO else None
    before = history or StepHistory(len(speed), selects is not None)
    loop = _Loop(problem, technique, selects, before, until, asks, chunks, experience)
    return loop.simulate(time_steps, record, rows_since)


class _Loop:
    """A checked loop, simulated time step by time step."""

    def __init__(
        self,
        problem: Problem,
        technique: str,
        selects: SelectionConfig | None,
        history: StepHistory,
        until: float,
        asks: Floats | None,
        chunks: LoopChunks | None,
        experience: Experience | None = None,
    ) -> None:
        self._problem, self._history = problem, history
        self._until, self._asks, self._chunks = until, asks, chunks
        # Iterations executed between two choices within the loop; 0: no choices.
        every = selects.parameters.every if selects is not None and selects.chooses_within else None
        self._choose_after = math.ceil((every or 0.0) * problem.n)
        self._stops = self._choose_after > 0 or asks is not None
        if self._stops:
            _check_stops(problem)
        if not problem.block:
            _check_linear(problem, selects, self._stops)
        self._plan = _plan(technique, selects, problem, history, experience)

    def simulate(self, time_steps: int, record: bool, rows_since: float) -> LoopOutcome:
        """Simulate all time steps."""
        plan = self._plan
        learns = plan.needs_rows or (time_steps > 1 and plan.learns)  # over time steps, from all rows
        one_loop = partial(self._one_step, -math.inf if learns else rows_since)
        outcome = in_time_steps(plan, time_steps, one_loop, record, self._until, self._history, self._chunks)
        if learns and outcome.rows is not None:
            outcome = replace(outcome, rows=outcome.rows.ending_after(rows_since))
        return outcome

    def _one_step(self, since: float, choices: tuple[Choice, ...], begin: float, keep: bool) -> LoopOutcome:
        """Simulate the time step that begins at ``begin`` [s], and store its chunks."""
        bound = bind(self._problem, choices, begin, self._choose_after)
        until, chunks = self._until - begin, self._chunks
        # User-defined models have room for all rows.
        in_blocks = isinstance(self._problem.execution.model, ExecutionModel)
        if self._stops:
            outcome = _simulate_with_stops(bound, keep, until, self._asks, self._plan.chooses_within())
        elif chunks is None:
            return _simulate_once(bound, keep, until, since - begin)
        elif in_blocks and not keep:
            blocks = RowBlocks(chunks, bound.n)
            steps, stats = _run(bound, until, blocks.rows)
            blocks.finish(steps)
            return _outcome(bound, stats, None)
        else:
            outcome = _simulate_once(bound, True, until, -math.inf)
        rows = outcome.rows
        if chunks is not None:
            assert rows is not None, "loops whose chunks are stored keep rows"
            chunks.take(rows.pe, rows.step, rows.first, rows.size, rows.requested, rows.start, rows.end)
        return outcome if keep else replace(outcome, rows=None)


def _plan(
    technique: str,
    selection: SelectionConfig | None,
    problem: Problem,
    history: StepHistory,
    experience: Experience | None = None,
) -> Plan:
    """Return the plan of techniques for the time steps; ``selection`` is None for a given technique."""
    if selection is None:
        return Plan({technique: _chosen(technique, problem)}, history)
    costs = np.diff(problem.prefix) if problem.block else None
    trial = trial_by(problem, history)
    selector = make_selector(
        selection, problem.n, len(problem.speed), problem.seed, trial, profile=costs, speed=problem.speed
    )
    unit = 1.0
    if experience is not None:
        selector = experience.begin(selector, problem.n, problem.speed, problem.seed)
        balanced = CostSums(problem.n, problem.block, problem.prefix).total / float(problem.speed.sum())
        unit = balanced if balanced > 0.0 and not isinstance(selector, BySimulation) else 1.0
    within = selector if selection.chooses_within and isinstance(selector, BySimulation) else None
    portfolio = {name: _chosen(name, problem) for name in selection.portfolio}
    for name, choices in portfolio.items():
        if within is not None and choices[0].is_object:
            raise InputError(f"application.selection.parameters.every: {learner_amid_loop(name)}")
    return Plan(portfolio, history, selector, within, unit, shows=experience is not None)


def _chosen(technique: str, problem: Problem) -> tuple[Choice, ...]:
    """Look up the technique of a loop, or the two of ``X+Y``, and check that the model can run them."""
    found = choose(
        technique,
        problem.speed,
        problem.prefix,
        problem.parameters,
        problem.min_chunk,
        problem.seed,
        problem.iterations,
    )
    names, learners = [choice.name for choice in found], [choice.name for choice in found if choice.is_object]
    check_levels("+".join(names), problem.execution, problem.parameters, tuple(learners))
    return found


def _started(execution: ExecutionConfig) -> ExecutionConfig:
    """Return the execution of PEs that have started."""
    parameters = execution.parameters.model_copy(update={"start_up": 0.0, "start_up_std": 0.0})
    return execution.model_copy(update={"parameters": parameters})


def trial_by(problem: Problem, history: StepHistory) -> Simulate:
    """Return a simulation of a time step for a selector, with the weights that AWF has learned so far."""
    problem = problem._replace(
        latency=read_only(problem.latency),
        perturbation=None,
        pe_unavailability=None,
        execution=_started(problem.execution),
    )

    def trial(
        name: str, costs: CostSums, speeds: Floats, until: float, rest: Rest | None
    ) -> tuple[float, float, int]:
        until *= _SLACK
        tried = problem._replace(
            prefix=read_only(costs.sums), speed=read_only(speeds), block=costs.block, iterations=costs.n
        )
        # Not by simulate(): its checks and time steps would take longer than the event loop.
        bound = bind(tried, tuple(map(history.weigh, _chosen(name, tried))), 0.0)
        if rest is None:
            found = _simulate_once(bound, False, until, -math.inf)
            finish, elapsed = found.finish, 0.0
        else:
            found = _simulate_with_stops(bound, False, until, rest.free, None)
            finish, elapsed = np.maximum(found.finish, rest.free), rest.elapsed
        t_loop = until if found.notified_at.max() >= until else float(finish.max())
        return t_loop, percent_imbalance(finish + elapsed), found.steps

    return trial


def _simulate_once(bound: Bound, record: bool, until: float, rows_since: float) -> LoopOutcome:
    """Simulate one time step, from 0, and keep its rows in memory."""
    # There are at most as many chunks as iterations; memory that is not written to costs nothing.
    room = bound.n if record and bound.n <= _LAZY_ROWS else 0
    filled = new_rows(room, rows_since)
    n_rows, stats = _run(bound, until, filled)
    if record and room < n_rows:
        check_memory("chunks of a loop", [Share("chunks", f"{n_rows:,} chunks", n_rows * _ROW)])
        filled = new_rows(n_rows, rows_since)
        _run(bound, until, filled)
    return _outcome(bound, stats, in_order(filled, n_rows) if record else None)


def _run(bound: Bound, until: float, rows: Rows) -> tuple[int, PEStats]:
    """Run a loop; a long one reports its progress."""
    if bound.n < _LONG:
        return bound.run(until, rows)
    with stage("loop", share=lambda: float(rows.written[2]) / bound.n):
        return bound.run(until, rows)


def _simulate_with_stops(
    bound: Bound, record: bool, until: float, asks: Floats | None, choose_within: ChooseWithin | None
) -> LoopOutcome:
    """Simulate one time step that stops for choices, or whose PEs start late; choices need all rows."""
    filled = new_rows(bound.n if record else 0, -math.inf)
    first_requests = np.empty(0) if asks is None else np.ascontiguousarray(asks, np.float64)
    n_rows, stats = bound.run_with_stops(until, filled, first_requests, choose_within)
    return _outcome(bound, stats, in_order(filled, n_rows) if record else None)


def _outcome(bound: Bound, stats: PEStats, rows: ChunkRows | None) -> LoopOutcome:
    columns: dict[str, Any] = dict(zip((*TIMES, *COUNTS), (*stats.times, *stats.counts), strict=True))
    return LoopOutcome(
        iterations=bound.n,
        steps=int(columns["chunks"].sum()),
        t_loop=float(columns["finish"].max()),
        **columns,
        rows=rows,
    )


def _check_numbers(until: float, min_chunk: int, time_steps: int) -> None:
    if not until >= 0.0:
        raise InputError(f"until: {until!r} s; allowed: 0 or more")
    if min_chunk < 1:
        raise InputError(f"min_chunk: {min_chunk}; allowed: 1 or more")
    if time_steps < 1:
        raise InputError(f"time_steps: {time_steps}; allowed: 1 or more")


def _check_stops(problem: Problem) -> None:
    execution = problem.execution
    for message in cannot_stop(
        execution.model, execution.lock, problem.parameters.compat, execution.request_ahead
    ):
        raise InputError(f"application.selection.parameters.every: {message}")


def _check_nodes(node_of_pe: Ints | None, p: int, intra_latency: float) -> Ints:
    """Return the node of every PE, checked; None: all are on one node."""
    nodes = np.zeros(p, np.int64) if node_of_pe is None else np.asarray(node_of_pe, dtype=np.int64)
    if nodes.shape != (p,):
        raise InputError(f"a loop on {p} PEs needs as many nodes of PEs as speeds; found {nodes.shape}")
    rises = np.diff(nodes)
    if p and (nodes[0] != 0 or rises.min(initial=0) < 0 or rises.max(initial=0) > 1):
        raise InputError(
            f"nodes of {p} PEs: must be 0, rise, and leave out none; found {nodes.tolist()[:20]}"
        )
    if not 0.0 <= intra_latency < math.inf:
        raise InputError(f"intra_latency: {intra_latency!r} s; allowed: 0 or more, finite")
    return nodes


def _check_linear(problem: Problem, selection: SelectionConfig | None, stops: bool) -> None:
    """Refuse linear costs where the cost of each iteration is needed."""
    by_simulation = selection is not None and selection.method is SelectionMethod.SIMULATION
    if stops or by_simulation or not isinstance(problem.execution.model, ExecutionModel):
        raise InputError(
            f"loop of {problem.n} iterations: choices by simulation, PEs that start late and user-defined "
            "models need a list of the costs; allowed: prefix sums"
        )


def _check_costs(costs: CostSums, p: int) -> None:
    if not costs.block:
        first, growth = costs.sums[1], costs.sums[2]
        if not (0 <= costs.n <= 1 << 62 and math.isfinite(costs.total) and first >= 0.0):
            raise InputError(
                f"loop of {costs.n} iterations on {p} PEs: linear costs of {first!r} s and {growth!r} s more "
                "for each; allowed: costs of 0 s or more with a finite sum"
            )
        return
    prefix = costs.sums
    n = len(prefix) - 1
    if prefix.ndim != 1 or n < 0 or prefix[0] != 0.0:
        raise InputError(
            f"loop on {p} PEs: prefix sums must be one column that begins with 0; {n + 1} values"
        )
    if not np.isfinite(prefix[-1]) or prefix[-1] < 0.0:
        raise InputError(
            f"loop of {n} iterations on {p} PEs: the costs sum up to {prefix[-1]!r} s; "
            "allowed: costs of 0 s or more with a finite sum"
        )


def _check_pes(speed: Floats, latency: Floats) -> None:
    p = len(speed)
    if speed.ndim != 1 or latency.shape != speed.shape:
        raise InputError(f"a loop on {p} PEs needs as many latencies as speeds; found {latency.shape}")
    if not 1 <= p <= MOST_PES:
        raise InputError(f"a loop on {p} PEs; allowed: 1 to {MOST_PES}")
    for name, column, fits in (
        ("speed", speed, (speed > 0.0) & np.isfinite(speed)),
        ("latency", latency, (latency >= 0.0) & np.isfinite(latency)),
    ):
        if not fits.all():
            pe = int(np.flatnonzero(~fits)[0])
            allowed = "more than 0" if name == "speed" else "0 s or more"
            raise InputError(f"{name} of PE {pe} of {p}: {column[pe]!r}; allowed: {allowed}, finite")
    if latency[0] != 0.0:
        raise InputError(f"latency of PE 0 to itself: {latency[0]!r} s; allowed: 0")
