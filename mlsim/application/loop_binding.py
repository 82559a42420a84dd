"""Binding of a loop and a scenario to the compiled event loop that simulates it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mlsim._runtime.arrays import Floats, Ints
from mlsim.application.execution_models import load_model
from mlsim.application.techniques import Choice, read_only
from mlsim.errors import InputError
from mlsim.scenario import (
    RELEASING,
    ExecutionConfig,
    ExecutionModel,
    GlobalP,
    LockOrder,
    MasterRole,
    ModelProperties,
    ServiceOrder,
)

if TYPE_CHECKING:
    from mlsim.application.models.loop_state import Costs, Inputs, PEStats, Rows
    from mlsim.application.pe_speeds import Perturbation, Unavailability
    from mlsim.application.selection.technique_plan import ChooseWithin
    from mlsim.techniques.technique_entry import RuleSettings


_Run = Callable[[float, "PEStats", "Rows"], int]
_RunWithStops = Callable[[float, "PEStats", "Rows", Floats, "ChooseWithin | None"], int]

_MODULES = {
    ExecutionModel.CCA: "cca",
    ExecutionModel.DCA: "dca",
    ExecutionModel.HMW: "hmw",
    ExecutionModel.HDCA: "hdca",
    ExecutionModel.MPI_OPENMP: "openmp",
    ExecutionModel.STEAL: "steal",
}
_SEED_BITS = 32
_WRONG_BETWEEN = -2
_ONE_LEVEL = np.zeros(1, np.int64)


class Problem(NamedTuple):
    """One loop and its PEs; as in ``simulate``, checked."""

    prefix: Floats
    speed: Floats
    latency: Floats
    node_of_pe: Ints
    intra_latency: float
    perturbation: Perturbation | None
    seed: int
    pe_unavailability: Unavailability | None = None
    block: int = 1
    """Iterations that share an entry of ``prefix``."""
    iterations: int | None = None
    """None: one per entry of ``prefix``."""

    @property
    def n(self) -> int:
        """Iterations of the loop."""
        return len(self.prefix) - 1 if self.iterations is None else self.iterations


class Bound(NamedTuple):
    """An event loop with its inputs bound, except for the arrays that it fills.

    Attributes
    ----------
    n, p
        Iterations and PEs.
    run
        Simulates up to a time (s) and fills results and rows; returns the number of chunks.
    run_with_stops
        As ``run``, for a loop that stops for choices, or whose PEs request late; takes also the times of the
        first requests (float64[P] in s, or empty) and the function that chooses.
    """

    n: int
    p: int
    run: _Run
    run_with_stops: _RunWithStops


def bind(
    problem: Problem,
    choices: tuple[Choice, ...],
    execution: ExecutionConfig,
    begin: float,
    choose_after: int = 0,
) -> Bound:
    """Bind a loop to the event loop of its execution model.

    ``choices``: one technique, or two from outside to inside. ``begin``: time of the loop's begin on the
    clock of the perturbation, in s. ``choose_after``: iterations executed between two choices within the
    loop; 0: no choices.
    """
    from mlsim.application.models.loop_state import Inputs

    n, p = problem.n, len(problem.speed)
    properties, kernel = _model(execution.model)
    outside, inside = choices[0], choices[-1]
    pushed = outside.of_lb4mpi and execution.model is ExecutionModel.CCA
    costs = _costs(execution, properties, problem, pushed, choose_after)
    if problem.pe_unavailability is not None and not properties.releases:
        allowed = ", ".join(RELEASING)
        raise InputError(f"model {execution.model}: its nodes cannot leave a loop; allowed: {allowed}")
    if properties.nodes:
        first, near = _nodes(problem, execution.model)
        idle_masters = properties.masters and execution.master is MasterRole.DEDICATED
        outer, inner = _settings(outside, inside, first, idle_masters)
    else:
        first, near = _ONE_LEVEL, problem.latency
        outer = inner = _settings_of_one(outside, costs)
    requesters = costs.global_p or (len(first) - 1 if properties.nodes else p)
    perturbation, pe_unavailability = _perturbation(problem, begin), _unavailability(problem, begin)

    def inputs_of(until: float, stats: PEStats, rows: Rows) -> Inputs:
        return Inputs(
            problem.prefix,
            problem.speed,
            problem.latency,
            first,
            near,
            outer,
            inner,
            costs,
            perturbation,
            pe_unavailability,
            until,
            stats,
            rows,
        )

    def run(until: float, stats: PEStats, rows: Rows) -> int:
        steps = int(kernel(inputs_of(until, stats, rows)))
        if steps == _WRONG_BETWEEN or (steps < 0 and not properties.nodes):
            raise outside.wrong_size(outer, n, requesters)
        if steps < 0:
            raise inside.wrong_size(inner, n, p)
        return steps

    def run_with_stops(
        until: float, stats: PEStats, rows: Rows, asks: Floats, choose_within: ChooseWithin | None
    ) -> int:
        from mlsim.application.time_steps import simulate_with_stops

        assert isinstance(execution.model, ExecutionModel), (
            "user-defined models cannot stop, as checked before"
        )
        module = import_module(f"mlsim.application.models.{module_of(execution.model)}")
        steps, last, rule = simulate_with_stops(
            inputs_of(until, stats, rows), module, properties.masters, outside, asks, choose_within
        )
        if steps < 0:
            raise last.wrong_size(rule, n, p)
        return steps

    return Bound(n, p, run, run_with_stops)


def module_of(model: ExecutionModel) -> str:
    """Return the module of ``mlsim.application.models`` with a model's event loop."""
    return _MODULES[model]


def _model(model: str) -> tuple[ModelProperties, Callable[[Inputs], int]]:
    """Return a model's properties and its event loop."""
    if not isinstance(model, ExecutionModel):
        return load_model(model)
    return model.properties, import_module(f"mlsim.application.models.{module_of(model)}").run


def _unavailability(problem: Problem, begin: float) -> Unavailability:
    from mlsim.application.pe_speeds import Unavailability, always_available

    if problem.pe_unavailability is None:
        return always_available()
    given = problem.pe_unavailability
    return Unavailability(given.entries, given.begin - begin, given.end - begin)


def _perturbation(problem: Problem, begin: float) -> Perturbation:
    from mlsim.application.pe_speeds import Perturbation, none

    if problem.perturbation is None:
        return none(len(problem.speed))
    given = problem.perturbation
    return Perturbation(
        np.ascontiguousarray(given.slow_of_pe, dtype=np.int64),
        np.ascontiguousarray(given.slow_index, dtype=np.int64),
        np.ascontiguousarray(given.slow_time, dtype=np.float64) - begin,
        np.ascontiguousarray(given.slow_factor, dtype=np.float64),
    )


def _nodes(problem: Problem, model: str) -> tuple[Ints, Floats]:
    """Return the first PE of each node, and each PE's latency [s] to it, which is 0 for threads."""
    node_of_pe = problem.node_of_pe
    first = np.searchsorted(node_of_pe, np.arange(node_of_pe[-1] + 2))
    near = np.full(len(node_of_pe), 0.0 if model is ExecutionModel.MPI_OPENMP else problem.intra_latency)
    near[first[:-1]] = 0.0
    return first, read_only(near)


def _settings(
    outside: Choice, inside: Choice, first_pe: Ints, idle_masters: bool
) -> tuple[RuleSettings, RuleSettings]:
    """Return both techniques, with weights of nodes and of PEs (in each node of sum PEs per node).

    Dedicated masters, which execute nothing, have weight 0.
    """
    first, counts = first_pe[:-1], np.diff(first_pe)
    works = np.ones(first_pe[-1])
    if idle_masters:
        works[first[counts > 1]] = 0.0
    sums = np.add.reduceat(inside.weights * works, first)
    between = np.add.reduceat(outside.weights * works, first)
    within = inside.weights * works * np.repeat(np.add.reduceat(works, first) / sums, counts)
    return outside.settings(between), inside.settings()._replace(weights=read_only(within))


def _settings_of_one(choice: Choice, costs: Costs) -> RuleSettings:
    """Return the technique of a model with one queue; a dedicated master has no weight."""
    return choice.settings(choice.weights[1:] if costs.dedicated else None)


def _costs(
    execution: ExecutionConfig, properties: ModelProperties, problem: Problem, pushed: bool, choose_after: int
) -> Costs:
    from mlsim.application.models.loop_state import Costs

    n, p, seed = problem.n, len(problem.speed), problem.seed
    return Costs(
        calculation=execution.chunk_calculation,
        assignment=execution.chunk_assignment,
        atomic=execution.atomic_service,
        delay=execution.injected_delay,
        polling=execution.lock is LockOrder.POLLING,
        retry=execution.lock_retry,
        break_after=min(execution.break_after, n + 1),
        break_time=execution.break_time,
        break_every=execution.break_every,
        piece_time=execution.piece_time,
        lowest_rank=execution.service_order is ServiceOrder.LOWEST_RANK,
        # A master without workers executes the whole loop.
        dedicated=properties.masters and execution.master is MasterRole.DEDICATED and p > 1,
        nowait=bool(execution.nowait),
        global_p=p if "global_p" in properties.reads and execution.global_p is GlobalP.PES else 0,
        pushed=pushed,
        choose_after=choose_after,
        ahead=min(execution.request_ahead, n + 1) if "request_ahead" in properties.reads else 0,
        seed_low=seed % (1 << _SEED_BITS),
        seed_high=seed >> _SEED_BITS,
        iterations=n,
        block=problem.block,
    )
