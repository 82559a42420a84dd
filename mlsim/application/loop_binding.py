"""Binding of a loop and a scenario to the compiled event loop that simulates it."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlsim._runtime.arrays import Floats, Ints
from mlsim.application.selection.selector import ExecutedChunks, Progress
from mlsim.application.techniques import Choice, read_only
from mlsim.application.time_steps import ChooseWithin
from mlsim.application.user_code import model_entry
from mlsim.errors import InputError
from mlsim.execution_models import ModelEntry, chunk_execution, loop_state
from mlsim.execution_models.cca import BAD_SIZE, CHOOSE
from mlsim.scenario.application_section import ExecutionConfig, ExecutionParameters
from mlsim.scenario.measured_costs import charged
from mlsim.scenario.technique_section import RELEASING, ParametersConfig
from mlsim.scenario.words import GlobalP, LockOrder, MasterAnswers, MasterRole, ServiceOrder
from mlsim.techniques.rule_layout import RuleSettings

_SEED_BITS = 32
_STREAM = 0x57A7  # of the random start-ups of PEs
_WRONG_BETWEEN = -2
_ONE_LEVEL = np.zeros(1, np.int64)


class Problem(NamedTuple):
    """One loop, its PEs and its scheduling; as in ``simulate``, checked."""

    prefix: Floats
    speed: Floats
    latency: Floats
    node_of_pe: Ints
    intra_latency: float
    execution: ExecutionConfig
    parameters: ParametersConfig
    min_chunk: int = 1
    seed: int = 0
    perturbation: loop_state.Perturbation | None = None
    pe_unavailability: loop_state.Unavailability | None = None
    block: int = 1  # iterations that share an entry of ``prefix``
    iterations: int | None = None  # None: one per entry of ``prefix``

    @property
    def n(self) -> int:
        """Iterations of the loop."""
        return len(self.prefix) - 1 if self.iterations is None else self.iterations


class Bound(NamedTuple):
    """An event loop with its inputs, except for the arrays that it fills."""

    n: int
    p: int
    entry: ModelEntry
    choices: tuple[Choice, ...]  # from outside to inside
    requesters: int  # P of the technique outside
    given: tuple[Any, ...]  # the fields of ``Inputs`` before ``until``

    def run(self, until: float, rows: loop_state.Rows) -> tuple[int, loop_state.PEStats]:
        """Simulate up to a time [s] and fill the rows; return the number of chunks and the results."""
        inputs = self._inputs(until, rows)
        steps = int(self.entry.run(inputs))
        if steps == _WRONG_BETWEEN or (steps < 0 and not self.entry.properties.nodes):
            raise self.choices[0].wrong_size(inputs.outer, self.n, self.requesters)
        if steps < 0:
            raise self.choices[-1].wrong_size(inputs.inner, self.n, self.p)
        return steps, inputs.stats

    def run_with_stops(
        self, until: float, rows: loop_state.Rows, asks: Floats, choose_within: ChooseWithin | None
    ) -> tuple[int, loop_state.PEStats]:
        """Simulate a loop that stops for choices, by its master or by the PE whose request makes one due.

        ``asks``: first requests, float64[P] in s; empty: at 0.
        """
        inputs, choice, resume = self._inputs(until, rows), self.choices[0], self.entry.resume
        assert resume is not None, "models with several queues cannot stop, as checked before"
        settings, state = inputs.outer, loop_state.open_state(inputs)
        chunk_execution.begin(state, asks)
        while (status := resume(state)) == CHOOSE:
            assert choose_within is not None, "event loops stop only for choices"
            stop = _Stop(state, self.entry.properties.masters)
            another, spent = choose_within(stop.progress())
            stop.spend(spent)
            if another.name != choice.name:
                choice, settings = another, another.settings(another.weights[stop.masters :])
                state = chunk_execution.switch(state, settings)
        if status == BAD_SIZE:
            raise choice.wrong_size(settings, self.n, self.p)
        return chunk_execution.end(state, inputs.stats), inputs.stats

    def _inputs(self, until: float, rows: loop_state.Rows) -> loop_state.Inputs:
        stats = loop_state.PEStats(
            np.zeros((len(loop_state.TIMES), self.p)), np.zeros((len(loop_state.COUNTS), self.p), np.int64)
        )
        return loop_state.Inputs._make((*self.given, until, stats, rows))


def bind(problem: Problem, choices: tuple[Choice, ...], begin: float, choose_after: int = 0) -> Bound:
    """Bind a loop and its techniques, from outside to inside, to the event loop of its execution model.

    ``begin``: of the loop on the clock of the perturbation [s]. ``choose_after``: iterations executed between
    two choices within the loop; 0: no choices.
    """
    problem = problem._replace(execution=charged(problem.execution))
    execution, p = problem.execution, len(problem.speed)
    entry = model_entry(execution.model)
    properties, away = entry.properties, problem.pe_unavailability
    if away is not None and not properties.releases:
        allowed = ", ".join(RELEASING)
        raise InputError(f"model {execution.model}: its nodes cannot leave a loop; allowed: {allowed}")
    costs = _costs(problem, entry, choices[0].of_lb4mpi, choose_after)
    if properties.nodes:
        first = np.searchsorted(problem.node_of_pe, np.arange(problem.node_of_pe[-1] + 2))
        # Threads of a process exchange no messages.
        near = np.full(p, 0.0 if properties.asking == "threads" else problem.intra_latency)
        near[first[:-1]] = 0.0
        idle_masters = properties.masters and execution.master is MasterRole.DEDICATED
        outer, inner = _settings(choices[0], choices[-1], first, idle_masters)
    else:
        first, near = _ONE_LEVEL, problem.latency
        # A dedicated master has no weight.
        outer = inner = choices[0].settings(choices[0].weights[1:] if costs.dedicated else None)
    slow = problem.perturbation or loop_state.none(p)
    perturbation = loop_state.Perturbation(
        np.ascontiguousarray(slow.slow_of_pe, dtype=np.int64),
        np.ascontiguousarray(slow.slow_index, dtype=np.int64),
        np.ascontiguousarray(slow.slow_time, dtype=np.float64) - begin,
        np.ascontiguousarray(slow.slow_factor, dtype=np.float64),
    )
    away = loop_state.always_available() if away is None else away
    away = away._replace(begin=away.begin - begin, end=away.end - begin)
    pes = problem.prefix, problem.speed, problem.latency, first, read_only(near)
    delays = _delays_of_pes(problem, entry, first, begin)
    requesters = costs.global_p or (len(first) - 1 if properties.nodes else p)
    given = *pes, *delays, outer, inner, costs, perturbation, away
    return Bound(problem.n, p, entry, choices, requesters, given)


def _delays_of_pes(problem: Problem, entry: ModelEntry, first: Ints, begin: float) -> tuple[Floats, Floats]:
    """Return the time of each PE to make a request, and when each has started, in s after ``begin``."""
    execution, properties, speed = problem.execution, entry.properties, problem.speed
    request, ready = np.zeros(len(speed)), np.zeros(len(speed))
    if "request_cost" in properties.reads:
        request = execution.parameters.request_cost / speed
    if "start_up" in properties.reads and execution.parameters.start_up > 0.0:
        ready = np.maximum(start_times(execution.parameters, problem.seed, len(speed)) / speed - begin, 0.0)
    if properties.asking == "threads":  # of a process, which starts and requests
        process = np.repeat(first[:-1], np.diff(first))
        request, ready = request[process], ready[process]
    elif properties.masters:
        request[first[:-1] if properties.nodes else 0] = 0.0
    return read_only(request), read_only(ready)


def start_times(parameters: ExecutionParameters, seed: int, p: int) -> Floats:
    """Return when PEs have started, in s at speed 1: all at one time, or by a gamma distribution."""
    mean, std = parameters.start_up, parameters.start_up_std
    if std == 0.0:
        return np.full(p, mean)
    key = np.random.SeedSequence(seed, spawn_key=(_STREAM,))
    return np.random.default_rng(key).gamma((mean / std) ** 2, std**2 / mean, p)


def _settings(
    outside: Choice, inside: Choice, first_pe: Ints, idle_masters: bool
) -> tuple[RuleSettings, RuleSettings]:
    """Return both techniques, with weights of nodes and of PEs (per node of sum PEs; idle masters: 0)."""
    first, counts = first_pe[:-1], np.diff(first_pe)
    works = np.ones(first_pe[-1])
    if idle_masters:
        works[first[counts > 1]] = 0.0
    sums = np.add.reduceat(inside.weights * works, first)
    between = np.add.reduceat(outside.weights * works, first)
    within = inside.weights * works * np.repeat(np.add.reduceat(works, first) / sums, counts)
    return outside.settings(between), inside.settings()._replace(weights=read_only(within))


def _costs(problem: Problem, entry: ModelEntry, of_lb4mpi: bool, choose_after: int) -> loop_state.Costs:
    execution, properties = problem.execution, entry.properties
    n, p = problem.n, len(problem.speed)
    # A master without workers executes the whole loop.
    dedicated = properties.masters and execution.master is MasterRole.DEDICATED and p > 1
    answers = MasterAnswers.BETWEEN_ITERATIONS
    if "answers" in properties.reads and execution.master is not MasterRole.DEDICATED:
        answers = execution.parameters.answers
    return loop_state.Costs(
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
        dedicated=dedicated,
        inside=answers is MasterAnswers.INSIDE,
        threaded=answers is MasterAnswers.THREAD and p > 1,
        thread_share=execution.parameters.thread_share,
        nowait=bool(execution.nowait),
        global_p=p if "global_p" in properties.reads and execution.global_p is GlobalP.PES else 0,
        pushed=of_lb4mpi and properties.asking == "master",
        choose_after=choose_after,
        ahead=min(execution.request_ahead, n + 1) if "request_ahead" in properties.reads else 0,
        seed_low=problem.seed % (1 << _SEED_BITS),
        seed_high=problem.seed >> _SEED_BITS,
        iterations=n,
        block=problem.block,
    )


class _Stop:
    """A loop at a stop, with the knowledge of the PE or master that chooses."""

    def __init__(self, state: loop_state.State, by_master: bool) -> None:
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
        """Charge a choice to the master, or to the PE that holds the window until it is written."""
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
        """Return the progress as known to the PE that chooses: ended chunks are known by the next request."""
        rows, now = self._state.rows, self._now
        n_rows = int(self._state.written[1])
        pe = rows.pe[:n_rows].astype(np.int64)
        (_, first, size), (_, start, ends) = rows.numbers[:, :n_rows], rows.times[:, :n_rows]
        known = ends + self._pes["latency"][pe] <= now
        executed = ExecutedChunks(pe[known], first[known], size[known], (ends - start)[known])
        pes = self._pes
        running = (pes["chunks"] > 0) & (pes["finish"] + pes["latency"] > now)
        if self._queue["own_begun"][0] != 0:
            running[0] = True
        pe = np.flatnonzero(running)
        since = np.maximum(now - pes["last_start"][pe], 0.0)
        held = ExecutedChunks(pe, pes["last_first"][pe].copy(), pes["last_size"][pe].copy(), since)
        return Progress(now, int(self._queue["position"][0]), executed, held)
