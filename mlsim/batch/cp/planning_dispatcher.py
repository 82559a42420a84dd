"""Planners as dispatchers of the batch level, and EASY as their fallback."""

import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from importlib.util import find_spec
from typing import Any, Self

import numpy as np

from mlsim.batch.cp.cp_solve import Control, Status
from mlsim.batch.cp.experience import Experience
from mlsim.batch.cp.instance import Instance, instance_of
from mlsim.batch.cp.list_planner import Lists
from mlsim.batch.cp.plan import LATER, Plan, needed_resources
from mlsim.batch.cp.planner import AnyPlanner, Solve
from mlsim.batch.cp.unit_packing import Placing
from mlsim.batch.view import Start, StateView
from mlsim.errors import InputError
from mlsim.record import Solves, SolveStatus, column_types
from mlsim.scenario import CpConfig, words


def control_for(name: words.Dispatcher, config: CpConfig, seed: int = 0) -> Control:
    """Return the solver's time limits, search mode, seed and workers for a dispatcher."""
    limit, last = config.limits(name)
    return Control(
        limit, max(last, limit), config.extensions, config.deterministic, seed % 2**31, config.workers
    )


def make_planner(name: words.Dispatcher, config: CpConfig, seed: int = 0) -> AnyPlanner:
    """Make a planner by its name, without memory of earlier passes; InputError if ortools is missing."""
    if name is not words.Dispatcher.LISTS and find_spec("ortools") is None:
        raise InputError(
            f"batch.dispatcher: {name} plans by CP-SAT, and ortools is not installed; "
            "pip install 'mlsim[cp]'. Without it there are queue, prb and lists"
        )
    control = control_for(name, config, seed)
    if name is words.Dispatcher.LISTS:
        return Lists(control, config)
    from mlsim.batch.cp import cp_planner, source_models  # import ortools, which lists does without

    if name is words.Dispatcher.CP:
        return cp_planner.Cp(control, config)
    return source_models.SOURCE_MODELS[name](control, config.jobs)


def easy(instance: Instance) -> Plan:
    """Start jobs in order of arrival; the first that does not fit gets a reservation (EASY).

    The reservation is of nodes: the first time, as running jobs end, at which all units of the job fit, and
    the nodes on which best-fit then places them. Later jobs start if they fit now and end by then, or fit
    beside the reservation.
    """
    n = len(instance.queued)
    if not n:
        return Plan.empty(0)
    part = instance.without_resources(needed_resources(instance))
    now, start = Placing(part), np.full(n, LATER, np.int64)
    nodes: list[Any] = [None] * n

    def begin(job: int, room: Placing) -> bool:
        chosen = room.place(job)
        if chosen is None:
            return False
        start[job], nodes[job] = 0, chosen
        if room is not now:
            now.take(job, chosen)
        return True

    head = 0
    while head < n and begin(head, now):
        head += 1
    if head == n:
        return Plan(start, tuple(nodes))
    later, shadow, running = now.copy(), None, part.running
    # At one time power comes back first, then machine-wide amounts, what the started jobs have, and boxes.
    ends = (part.power.remaining, part.shared.remaining, part.queued.duration[:head], running.remaining)
    rows = ((end, kind, k) for kind, column in enumerate(ends) for k, end in enumerate(column.tolist()))
    for end, what, k in sorted(rows):
        if what == 0:
            later.power += int(part.power.held[k])
        elif what == 1:
            later.amounts += part.shared.held[k]
        elif what == 2:
            later.take(k, nodes[k], -1)
        else:
            later.free[running.node[k]] += running.request[k] * running.units[k]
        if later.place(head) is not None:
            shadow = end
            break
    # Whatever else ends by then counts as gone, too.
    spare = now.copy()
    if shadow is not None:
        spare.narrow(later)
    for job in range(head + 1, n):
        if shadow is None:
            begin(job, now)
        elif begin(job, spare if part.queued.duration[job] > shadow else now):
            spare.narrow(now)
    return Plan(start, tuple(nodes))


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
    """Dispatches by plans; EASY decides in a pass without one."""

    def __init__(self, planner: AnyPlanner, config: CpConfig) -> None:
        self._planner = planner
        self._ewt, self._default_ewt = config.ewt, config.default_ewt
        self._experience = Experience()
        if isinstance(planner, Lists):
            planner.experience = self._experience
        self._rows = _Rows()

    @classmethod
    def of(cls, name: words.Dispatcher, config: CpConfig | None, seed: int) -> Self:
        """Make the dispatcher of a scenario."""
        config = config or CpConfig()
        return cls(make_planner(name, config, seed), config)

    def dispatch(self, view: StateView) -> list[Start]:
        """Return the starts of one pass."""
        began = time.perf_counter()
        self._experience.observe(view)
        instance = instance_of(view, self._ewt, self._default_ewt, self._experience.expected)
        for sink in _sinks:
            sink(instance)
        ready = time.perf_counter()
        plan, solve = self._planner.plan(instance)
        if self._needs_easy(instance, plan, solve):
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

    def _needs_easy(self, instance: Instance, plan: Plan, solve: Solve) -> bool:
        """Return whether EASY must schedule this pass: without a solution, or with an idle machine left idle.

        If a plan starts no job on an idle machine, no later pass might ever come.
        """
        if solve.status in (Status.UNKNOWN, Status.INFEASIBLE):
            return True
        return solve.status is not Status.EMPTY and not len(instance.running) and not plan.starting()

    def solves(self) -> Solves:
        """Return the table of solves, one row per pass."""
        return self._rows.record()


def _answers(plan: Plan) -> list[Start]:
    """Start jobs in order of arrival; mark those that overtake a waiting job as backfilled."""
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
                for stored in column_types.stored_columns(Solves)
            }
        )
