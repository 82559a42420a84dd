"""A planner as a dispatcher of the batch level: what it sees, what it answers, what is noted."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace

import numpy as np

from mlsim.batch.cp.catalogue import make_planner
from mlsim.batch.cp.easy import easy
from mlsim.batch.cp.planners.list_planner import Lists
from mlsim.batch.cp.planners.planner import AnyPlanner, Solve
from mlsim.batch.cp.problem.instance import Instance, instance_of
from mlsim.batch.cp.problem.learning import Experience
from mlsim.batch.cp.problem.plan import Plan
from mlsim.batch.cp.solver.solving import Status
from mlsim.batch.view import Start, StateView
from mlsim.record import Solves, SolveStatus
from mlsim.record.columns import stored_columns
from mlsim.scenario import CpConfig, Dispatcher

__all__ = ["CpDispatcher", "watching"]

Sink = Callable[[Instance], None]

_CODES = {status: SolveStatus[status.name] for status in Status}
_sinks: list[Sink] = []


@contextmanager
def watching(sink: Sink) -> Iterator[None]:
    """Pass every instance that a dispatcher solves inside the ``with`` block to ``sink``."""
    _sinks.append(sink)
    try:
        yield
    finally:
        _sinks.remove(sink)


class CpDispatcher:
    """Dispatches by plans; EASY decides in a pass without one.

    Parameters
    ----------
    planner
        Who plans.
    config
        The section ``batch.cp``.
    """

    def __init__(self, planner: AnyPlanner, config: CpConfig) -> None:
        self._planner = planner
        self._ewt, self._default_ewt = config.ewt, config.default_ewt
        self._experience = Experience()
        if isinstance(planner, Lists):
            planner.experience = self._experience
        self._rows = _Rows()

    @classmethod
    def of(cls, name: Dispatcher, config: CpConfig | None, seed: int) -> CpDispatcher:
        """Make the dispatcher of a scenario."""
        config = config or CpConfig()
        return cls(make_planner(name, config, seed), config)

    def dispatch(self, view: StateView) -> list[Start]:
        """Answer for one pass."""
        began = time.perf_counter()
        self._experience.observe(view)
        instance = instance_of(view, self._ewt, self._default_ewt, self._experience.expected)
        for sink in _sinks:
            sink(instance)
        ready = time.perf_counter()
        plan, solve = self._planner.plan(instance)
        if self._needs_help(instance, plan, solve):
            planned = time.perf_counter()
            plan = easy(instance)
            solve = replace(
                solve,
                fallback=True,
                started=len(plan.starting()),
                solve_seconds=solve.solve_seconds + time.perf_counter() - planned,
            )
        solve = replace(solve, build_seconds=solve.build_seconds + ready - began)
        self._rows.note(view.now, solve)
        return _answers(plan)

    def _needs_help(self, instance: Instance, plan: Plan, solve: Solve) -> bool:
        """Return whether EASY has to schedule this pass.

        It has to without a solution. It has to, too, if a plan starts no job on an idle machine: no later
        pass might ever come.
        """
        if solve.status in (Status.UNKNOWN, Status.INFEASIBLE):
            return True
        return solve.status is not Status.EMPTY and not len(instance.running) and not plan.starting()

    def solves(self) -> Solves:
        """Return the table of solves, one row a pass."""
        return self._rows.record()


def _answers(plan: Plan) -> list[Start]:
    """Start jobs in order of arrival; those that overtake a job that waits on are marked."""
    first_left = int(np.argmax(plan.start != 0)) if (plan.start != 0).any() else len(plan.start)
    answers = []
    for row in plan.starting():
        nodes = plan.nodes[row]
        assert nodes is not None, "what starts now has nodes"
        answers.append(Start(row, nodes.tolist(), row > first_left))
    return answers


class _Rows:
    """Statistics of the passes, as growing columns."""

    def __init__(self) -> None:
        self._columns = {field.name: array("d") for field in fields(Solves)}

    def note(self, now: float, solve: Solve) -> None:
        """Add a row."""
        self._columns["time"].append(now)
        self._columns["status"].append(_CODES[solve.status])
        for field in fields(Solve):
            if field.name != "status":
                self._columns[field.name].append(getattr(solve, field.name))

    def record(self) -> Solves:
        """Return the rows so far as a record table."""
        return Solves(
            **{
                stored.field: np.array(self._columns[stored.field]).astype(stored.dtype)
                for stored in stored_columns(Solves)
            }
        )
