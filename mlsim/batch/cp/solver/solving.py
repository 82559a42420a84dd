"""Time control: how long CP-SAT may look for an answer, and what it found (paper, section 3, Search).

Limits are those of a pass: building and presolve count (:mod:`mlsim.batch.cp.solver.effort`).
CP-SAT is asked for a proof within the first limit. Without one, the limit is doubled, until it has reached
the last limit, or until ``patience`` extensions in a row have not improved the objective. A model
that is proved infeasible is not tried again.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from mlsim._arrays import Ints
from mlsim.batch.cp.solver.effort import presolving
from mlsim.errors import InputError

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel

__all__ = ["Answer", "Control", "Status", "solve"]


class Status(StrEnum):
    """What is known of an instance after a pass."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"
    EMPTY = "empty"
    """No job could start: there was nothing to solve."""


@dataclass(frozen=True, slots=True)
class Control:
    """How long to look for an answer.

    Attributes
    ----------
    limit, last_limit
        First and last limit in seconds; with ``deterministic`` as CP-SAT's deterministic time tells them.
    patience
        Extensions in a row without improvement after which the search ends.
    deterministic
        One worker, fixed seed, deterministic time: the same answer on every machine.
    seed
        Of CP-SAT.
    workers
        Threads of CP-SAT where it need not be deterministic.
    pace
        Deterministic time that passes in a second at least, with the models at hand.
    """

    limit: float = 1.0
    last_limit: float = 16.0
    patience: int = 2
    deterministic: bool = True
    seed: int = 0
    workers: int = 1
    pace: float = 1.0

    def after(self, seconds: float, told: float) -> Control:
        """Return what is left of the limits; a tenth of each is, always.

        Parameters
        ----------
        seconds
            What building a model took, by the clock.
        told
            The same, told by its size: what counts where answers must not depend on the machine.
        """
        gone = told if self.deterministic else seconds
        limits = [max(limit - gone, 0.1 * limit) for limit in (self.limit, self.last_limit)]
        return replace(self, limit=limits[0], last_limit=limits[1])


@dataclass(frozen=True, slots=True)
class Answer:
    """What CP-SAT found.

    Attributes
    ----------
    status
        OPTIMAL, FEASIBLE, INFEASIBLE or UNKNOWN.
    values : ndarray of int64 or None
        The value of each variable, by index; None without a solution.
    objective, bound
        In the units of the model; NaN without a solution.
    branches, conflicts, extensions
        Counts.
    """

    status: Status
    values: Ints | None
    objective: float
    bound: float
    branches: int
    conflicts: int
    extensions: int


def solve(model: CpModel, control: Control, fixed_search: bool, **parameters: Any) -> Answer:
    """Look for the best solution of a model.

    Parameters
    ----------
    model
        With objective, and a decision strategy if ``fixed_search``.
    control
        How long.
    fixed_search
        Whether to branch as the model's decision strategy says; otherwise as CP-SAT finds best.
    **parameters
        Further parameters of CP-SAT.
    """
    look = _deterministic if control.deterministic else _wall_clock
    return look(model, control, fixed_search, parameters)


def _solver(control: Control, fixed_search: bool, parameters: dict[str, Any]) -> Any:
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    settings = solver.parameters
    settings.random_seed = control.seed
    settings.num_workers = 1 if control.deterministic else control.workers
    if fixed_search:
        settings.search_branching = cp_model.FIXED_SEARCH
    for name, value in parameters.items():
        setattr(settings, name, value)
    return solver


def _parts(model: CpModel) -> int:
    return len(model.proto.variables) + len(model.proto.constraints)


def _as_it_is(solver: Any) -> None:
    """Have CP-SAT search a model as it is: presolve does not end in time."""
    solver.parameters.cp_model_presolve = False
    solver.parameters.cp_model_probing_level = 0
    solver.parameters.symmetry_level = 0


def _status(code: Any, model: CpModel) -> Status:
    """Return how a search ended.

    Raises
    ------
    InputError
        If CP-SAT takes no model with such numbers.
    """
    from ortools.sat.python import cp_model

    if code == cp_model.MODEL_INVALID:
        reason = model.validate().partition("\n")[0] or "it is invalid"
        raise InputError(
            f"CP-SAT does not take the model of a pass: {reason}; allowed: capacities, requests and times "
            "whose sums stay below 2^63. Dispatcher lists makes no model."
        )
    return {
        cp_model.OPTIMAL: Status.OPTIMAL,
        cp_model.FEASIBLE: Status.FEASIBLE,
        cp_model.INFEASIBLE: Status.INFEASIBLE,
        cp_model.UNKNOWN: Status.UNKNOWN,
    }[code]


def _answer(solver: Any, status: Status, before: Answer | None, extensions: int) -> Answer:
    response = solver.response_proto
    found = status in (Status.OPTIMAL, Status.FEASIBLE)
    bound = float(response.best_objective_bound)
    if before is not None and before.values is not None:  # what was proved then holds
        bound = max(bound, before.bound)
    return Answer(
        status,
        np.array(response.solution, np.int64) if found else None,
        float(response.objective_value) if found else float("nan"),
        bound if found else float("nan"),
        int(response.num_branches) + (before.branches if before else 0),
        int(response.num_conflicts) + (before.conflicts if before else 0),
        extensions,
    )


def _deterministic(
    model: CpModel, control: Control, fixed_search: bool, parameters: dict[str, Any]
) -> Answer:
    """Search within deterministic time.

    CP-SAT cannot take up a search where it ended, so an extension goes on from the best solution and
    the bound found before; what was learned from conflicts is lost.
    """
    best: Answer | None = None
    presolve = presolving(_parts(model))
    step = spent = control.limit
    extensions = stale = 0
    while True:
        solver = _solver(control, fixed_search, parameters)
        searching = step
        if solver.parameters.cp_model_presolve:
            if presolve <= 0.5 * step:
                searching -= presolve
            else:
                _as_it_is(solver)
        solver.parameters.max_deterministic_time = control.pace * searching
        status = _status(solver.solve(model), model)
        answer = _answer(solver, status, best, extensions)
        improved = answer.values is not None and (
            best is None or best.values is None or answer.objective < best.objective
        )
        if best is not None and best.values is not None and answer.values is None:
            answer = _kept(best, answer)
        if extensions and answer.values is not None:
            stale = 0 if improved else stale + 1
        best = answer
        done = best.status in (Status.OPTIMAL, Status.INFEASIBLE) or stale >= control.patience
        step = min(spent, control.last_limit - spent)
        if done or step <= 0:
            return best
        spent += step
        extensions += 1
        if best.values is not None:
            _go_on_from(model, best)


def _kept(best: Answer, later: Answer) -> Answer:
    """Keep the solution of before where the extension has found none."""
    status = Status.OPTIMAL if later.status is Status.INFEASIBLE else Status.FEASIBLE
    return Answer(
        status, best.values, best.objective, best.bound, later.branches, later.conflicts, later.extensions
    )


def _go_on_from(model: CpModel, best: Answer) -> None:
    assert best.values is not None
    proto = model.proto
    proto.solution_hint.vars.clear()
    proto.solution_hint.values.clear()
    proto.solution_hint.vars.extend(range(len(best.values)))
    proto.solution_hint.values.extend(best.values.tolist())


def _wall_clock(model: CpModel, control: Control, fixed_search: bool, parameters: dict[str, Any]) -> Answer:
    """Search once, within wall-clock time; a second thread decides at each limit whether to go on."""
    from ortools.sat.python import cp_model

    class Best(cp_model.CpSolverSolutionCallback):
        """Remembers the objective of the last solution."""

        def __init__(self) -> None:
            super().__init__()
            self.found: float | None = None

        def on_solution_callback(self) -> None:
            self.found = self.objective_value

    solver, best, ended = _solver(control, fixed_search, parameters), Best(), threading.Event()
    if presolving(_parts(model)) > 0.5 * control.limit:
        _as_it_is(solver)
    last_limit = min(control.last_limit, threading.TIMEOUT_MAX)
    solver.parameters.max_time_in_seconds = last_limit
    extensions = 0

    def watch() -> None:
        nonlocal extensions
        began, limit, stale, before = time.monotonic(), min(control.limit, last_limit), 0, None
        while not ended.wait(max(began + limit - time.monotonic(), 0.0)):
            if extensions and best.found is not None:
                stale = 0 if best.found != before else stale + 1
            before = best.found
            if stale >= control.patience or limit >= last_limit:
                # Asked again and again: the search may not have begun yet.
                while not ended.wait(0.001):
                    solver.stop_search()
                return
            limit = min(2 * limit, last_limit)
            extensions += 1

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        status = _status(solver.solve(model, best), model)
    finally:
        ended.set()
        watcher.join()
    return _answer(solver, status, None, extensions)
