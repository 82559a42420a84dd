"""From a loop and a scenario's choices to the compiled event loop that simulates it.

Each event loop is imported where its model is used: only then are its kernels loaded or compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlsim.application.choice import Choice
from mlsim.errors import InputError
from mlsim.scenario import TWO_LEVELS, ExecutionConfig, ExecutionModel, LockOrder, MasterRole, ServiceOrder

if TYPE_CHECKING:
    from mlsim.application.absence import Absence
    from mlsim.application.models.lock import Lock
    from mlsim.application.models.master import Service
    from mlsim.application.models.notes import Costs, Loop, Nodes, PENotes, Rows
    from mlsim.application.perturbation import Perturbation

__all__ = ["Bound", "Problem", "bind"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_Run = Callable[[float, "PENotes", "Rows"], int]

_SEED_BITS = 32
_WRONG_BETWEEN = -2


class Problem(NamedTuple):
    """One loop and where it runs; as in ``simulate``, checked."""

    prefix: Floats
    speed: Floats
    latency: Floats
    node_of_pe: Ints
    intra_latency: float
    perturbation: Perturbation | None
    seed: int
    absence: Absence | None = None


class Bound(NamedTuple):
    """An event loop with all but what it fills.

    Attributes
    ----------
    n, p
        Iterations and PEs.
    run
        Takes when the loop is ended (s), and the notes and rows to fill; gives the number of chunks.
    """

    n: int
    p: int
    run: _Run


def bind(problem: Problem, choices: tuple[Choice, ...], execution: ExecutionConfig, begin: float) -> Bound:
    """Choose the event loop.

    Parameters
    ----------
    problem
        The loop.
    choices
        Techniques: one, or two from outside to inside.
    execution
        Model and costs.
    begin
        When the loop begins on the clock of the perturbation, in s.
    """
    from mlsim.application.models.notes import Loop

    model = execution.model
    loop = Loop(problem.prefix, problem.speed, problem.latency)
    perturbation = _perturbation(problem, begin)
    n, p = len(problem.prefix) - 1, len(problem.speed)
    if model in TWO_LEVELS:
        if problem.absence is not None:
            raise InputError(f"model {model}: its nodes cannot leave a loop; allowed: cca, dca")
        run = _two_levels(problem, loop, choices, execution, perturbation)
    elif model is ExecutionModel.CCA:
        run = _cca(loop, choices[0], execution, perturbation, _absence(problem, begin))
    else:
        run = _dca(problem, loop, choices[0], execution, perturbation, _absence(problem, begin))
    return Bound(n, p, run)


def _cca(
    loop: Loop, choice: Choice, execution: ExecutionConfig, perturbation: Perturbation, absence: Absence
) -> _Run:
    from mlsim.application.models import cca

    n, p = len(loop.prefix) - 1, len(loop.speed)
    service = _service(execution, n, p)
    weights = choice.weights[1:] if service.dedicated else None
    rule = choice.settings(weights)
    costs = _costs(execution)

    def run(until: float, notes: PENotes, rows: Rows) -> int:
        steps = int(cca.run(loop, rule, costs, service, perturbation, absence, until, notes, rows))
        if steps < 0:
            raise choice.wrong_size(rule, n, p)
        return steps

    return run


def _dca(
    problem: Problem,
    loop: Loop,
    choice: Choice,
    execution: ExecutionConfig,
    perturbation: Perturbation,
    absence: Absence,
) -> _Run:
    from mlsim.application.models import dca

    n, p = len(loop.prefix) - 1, len(loop.speed)
    rule, costs, lock = choice.settings(), _costs(execution), _lock(execution, problem.seed)

    def run(until: float, notes: PENotes, rows: Rows) -> int:
        steps = int(dca.run(loop, rule, costs, lock, perturbation, absence, until, notes, rows))
        if steps < 0:
            raise choice.wrong_size(rule, n, p)
        return steps

    return run


def _two_levels(
    problem: Problem,
    loop: Loop,
    choices: tuple[Choice, ...],
    execution: ExecutionConfig,
    perturbation: Perturbation,
) -> _Run:
    nodes = _nodes(problem)
    n, p, v = len(loop.prefix) - 1, len(loop.speed), len(nodes.first) - 1
    outside, inside = choices[0], choices[-1]
    between, within = _weights(outside.weights, inside.weights, nodes, execution)
    outer = outside.settings(between)
    inner = inside.settings()._replace(weights=_read_only(within))
    costs = _costs(execution)
    kernel = _kernel_of_two_levels(problem, execution, n)

    def run(until: float, notes: PENotes, rows: Rows) -> int:
        steps = kernel(loop, nodes, outer, inner, costs, perturbation, until, notes, rows)
        if steps == _WRONG_BETWEEN:
            raise outside.wrong_size(outer, n, v)
        if steps < 0:
            raise inside.wrong_size(inner, n, p)
        return steps

    return run


def _kernel_of_two_levels(problem: Problem, execution: ExecutionConfig, n: int) -> Callable[..., int]:
    """Return the event loop of a model with two levels, with what only that model takes bound to it."""
    lock = _lock(execution, problem.seed)
    if execution.model is ExecutionModel.HMW:
        from mlsim.application.models import hmw

        service = _service(execution, n, len(problem.speed))
        return lambda loop, nodes, outer, inner, costs, *rest: int(
            hmw.run(loop, nodes, outer, inner, costs, service, *rest)
        )
    if execution.model is ExecutionModel.HDCA:
        from mlsim.application.models import hdca

        return lambda loop, nodes, outer, inner, costs, *rest: int(
            hdca.run(loop, nodes, outer, inner, costs, lock, *rest)
        )
    from mlsim.application.models import openmp

    nowait = bool(execution.nowait)
    return lambda loop, nodes, outer, inner, costs, *rest: int(
        openmp.run(loop, nodes, outer, inner, costs, lock, nowait, *rest)
    )


def _absence(problem: Problem, begin: float) -> Absence:
    from mlsim.application.absence import Absence, nobody

    if problem.absence is None:
        return nobody()
    return Absence(problem.absence.entries, problem.absence.begin - begin, problem.absence.end - begin)


def _perturbation(problem: Problem, begin: float) -> Perturbation:
    from mlsim.application.perturbation import Perturbation, none

    if problem.perturbation is None:
        return none(len(problem.speed))
    given = problem.perturbation
    return Perturbation(
        np.ascontiguousarray(given.slow_of_pe, dtype=np.int64),
        np.ascontiguousarray(given.slow_index, dtype=np.int64),
        np.ascontiguousarray(given.slow_time, dtype=np.float64) - begin,
        np.ascontiguousarray(given.slow_factor, dtype=np.float64),
    )


def _nodes(problem: Problem) -> Nodes:
    """Return each node's first PE, and each PE's message time to the first PE of its node [s]."""
    from mlsim.application.models.notes import Nodes

    node_of_pe = problem.node_of_pe
    first = np.searchsorted(node_of_pe, np.arange(node_of_pe[-1] + 2))
    near = np.full(len(node_of_pe), problem.intra_latency)
    near[first[:-1]] = 0.0
    return Nodes(first, _read_only(near))


def _weights(
    outside: Floats, inside: Floats, nodes: Nodes, execution: ExecutionConfig
) -> tuple[Floats, Floats]:
    """Return the weights of nodes, and of PEs, scaled to sum up to their number in a node.

    Dedicated masters, which execute nothing, weigh nothing.
    """
    first = nodes.first[:-1]
    counts = np.diff(nodes.first)
    works = np.ones(nodes.first[-1])
    if execution.model is ExecutionModel.HMW and execution.master is MasterRole.DEDICATED:
        works[first[counts > 1]] = 0.0
    sums = np.add.reduceat(inside * works, first)
    between = np.add.reduceat(outside * works, first)
    return between, inside * works * np.repeat(np.add.reduceat(works, first) / sums, counts)


def _costs(execution: ExecutionConfig) -> Costs:
    from mlsim.application.models.notes import Costs

    return Costs(
        execution.chunk_calculation,
        execution.chunk_assignment,
        execution.atomic_service,
        execution.injected_delay,
    )


def _service(execution: ExecutionConfig, n: int, p: int) -> Service:
    from mlsim.application.models.master import FIFO, LOWEST_RANK, Service

    return Service(
        min(execution.break_after, n + 1),
        FIFO if execution.service_order is ServiceOrder.FIFO else LOWEST_RANK,
        # A master without workers executes all of it.
        execution.master is MasterRole.DEDICATED and p > 1,
    )


def _lock(execution: ExecutionConfig, seed: int) -> Lock:
    from mlsim.application.models.lock import Lock

    polling = execution.lock is LockOrder.POLLING
    return Lock(polling, execution.lock_retry, seed % (1 << _SEED_BITS), seed >> _SEED_BITS)


def _read_only(values: Floats) -> Floats:
    column = np.ascontiguousarray(values, dtype=np.float64).view()
    column.flags.writeable = False
    return column
