"""The application of a job as simulated for the batch level, and a single loop on a whole machine."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mlsim import coordination
from mlsim._runtime.arrays import Floats, Ints
from mlsim.application.iteration_costs import CostProfiles, LoopCosts, cost_sums
from mlsim.application.known_loops import KnownLoops, hands_out_first
from mlsim.application.loop_outcome import KnownLoop, LoopOutcome, LoopRecorder, PERequests
from mlsim.application.loop_simulation import simulate
from mlsim.application.recorded_times import TOLERANCE, Placement, RecordedTimes, ending_at
from mlsim.application.selection.experience import Experience
from mlsim.application.user_code import model_entry
from mlsim.errors import InputError
from mlsim.execution_models.loop_state import Perturbation, Unavailability, unavailability_of
from mlsim.platform import Machine, Perturbations
from mlsim.record import ChunkStore, LoopChunks, Messages, Nodes, Occupancy, Records, empty
from mlsim.record.derived_times import one_job
from mlsim.scenario import ApplicationConfig
from mlsim.scenario.simulation_demand import lists_costs
from mlsim.scenario.words import AnswerRule, Calibration


@dataclass(frozen=True, slots=True)
class AnswerPolicy:
    """Rule by which an application accepts requests for nodes."""

    rule: AnswerRule
    tolerance: float  # largest accepted growth of its run time, as a share (``tolerance`` only)
    latency: float = 0.0  # of its messages in s: ``idle-only`` offers nodes whose message is on its way

    def accepts(self, run_time: float, new_run_time: float) -> bool:
        """Whether the run time of an application may grow from ``run_time`` to ``new_run_time`` [s]."""
        return self.rule is AnswerRule.ALWAYS or new_run_time <= (1.0 + self.tolerance) * run_time


_NEVER_RELEASES = AnswerPolicy(AnswerRule.NEVER, 0.0)
# Keeps the random numbers of loops apart from others that are keyed by seed and job.
_STREAM = 0x7EC4
_UNSIGNED = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class LoopJob:
    """Columns of a job that its application reads."""

    job_id: int
    run_time: float  # in the log, in s
    iterations: int = -1  # of its own loop; -1: set by the scenario
    limit: int = -1  # largest number of steps per pixel of its own loop; -1: set by the scenario


def _job_seed(seed: int, job_id: int) -> int:
    """Return the seed of a job's own random numbers."""
    key = np.random.SeedSequence(seed, spawn_key=(_STREAM, job_id & _UNSIGNED))
    return int(key.generate_state(1, np.uint64)[0] >> np.uint64(1))


def place_pes(nodes: coordination.NodeSet, pes_per_node: int | None) -> Ints:
    """Return the index in ``nodes`` of each PE's node, filled node by node; None: one PE per core."""
    counts = nodes.cores if pes_per_node is None else np.minimum(nodes.cores, pes_per_node)
    return np.repeat(np.arange(len(nodes.node)), counts)


def loop_perturbation(
    perturbations: Perturbations, nodes: coordination.NodeSet, node_of_pe: Ints, start: float, end: float
) -> Perturbation:
    """Return the slow-downs of a loop's PEs that begin before ``end``; times count from ``start`` [s]."""
    rows = [perturbations.steps(node, start, end) for node in nodes.node.tolist()]
    return Perturbation(
        slow_of_pe=node_of_pe,
        slow_index=np.cumsum([0, *(len(row.time) for row in rows)], dtype=np.int64),
        slow_time=np.concatenate([np.empty(0), *(row.time for row in rows)]) - start,
        slow_factor=np.concatenate([np.empty(0), *(row.factor for row in rows)]),
    )


class LoopApplication:
    """A self-scheduled loop, simulated whole when its job starts; ``store`` stores its chunks.

    ``seed`` and the job's identifier are the key of its random numbers. ``reports_idle``: to the batch
    system. ``known``: loops of other runs, one of which may be the same.
    """

    def __init__(
        self,
        job: LoopJob,
        config: ApplicationConfig,
        costs: CostProfiles,
        machine: Machine,
        store: ChunkStore | None,
        seed: int = 0,
        answers: AnswerPolicy = _NEVER_RELEASES,
        reports_idle: bool = True,
        experience: Experience | None = None,
        known: KnownLoops | None = None,
    ) -> None:
        self.job = job
        self._experience = experience  # of ended executions
        self._known = known
        self._config = config
        self._costs = costs
        if config.costs.calibrate is Calibration.RECORDED and costs.recorded is None:
            costs.recorded = RecordedTimes(config)
        self._machine = machine
        self._store = store
        self._chunks: LoopChunks | None = None  # of the outcome, if they are kept already
        self._until = math.inf
        self._seed_of_run = seed
        self.began = 0.0
        self._nodes = coordination.NodeSet(np.empty(0, np.int64), np.empty(0, np.int64))
        self.node_of_pe: Ints = np.empty(0, np.int64)
        self._lists_costs = False
        self._speed: Floats = np.empty(0)
        self._latency: Floats = np.empty(0)
        self._perturbation: Perturbation | None = None
        self._answers = answers
        self._reports_idle = reports_idle
        self._departures: dict[int, list[float]] = {}  # node -> times of leaving and returning, in turn
        self._earlier_idle: list[coordination.NodeIdle] = []  # messages about nodes that have returned since
        self.outcome: LoopOutcome | KnownLoop
        self.forecast = coordination.Forecast(0.0)

    def start(self, at: float, nodes: coordination.NodeSet) -> coordination.Forecast:
        """Simulate the loop on these nodes from ``at`` [s], one PE per core unless the scenario sets fewer.

        A node is idle, and the job ends, once the last of its PEs has been notified that no work is left.
        """
        self.place(at, nodes)
        self._simulate_anew(keep=True, known=self._known_loop())
        return self.forecast

    def place(self, at: float, nodes: coordination.NodeSet, each: bool = False) -> None:
        """Place the PEs on nodes from ``at`` [s] on; ``each``: list the costs of iterations."""
        self.began, self._nodes, self._lists_costs = at, nodes, each
        self.node_of_pe = place_pes(nodes, self._config.pes_per_node)
        self._speed = self._machine.speed[nodes.node][self.node_of_pe]
        self._latency = self._latencies()

    @cached_property
    def _seed(self) -> int:
        return _job_seed(self._seed_of_run, self.job.job_id)

    @cached_property
    def costs(self) -> LoopCosts:
        """Iteration costs of the loop on its PEs."""
        # A job's run time is that of all time steps together.
        run_time = self.job.run_time / self._config.time_steps
        job, pes = self.job, len(self.node_of_pe)
        each = self._lists_costs or lists_costs(self._config, self._costs.iterations(pes, job.iterations))
        costs = self._costs.costs(job.job_id, pes, run_time, job.iterations, job.limit, each)
        if (recorded := self._costs.recorded) is None:
            return costs
        placement = Placement(self.node_of_pe, self._latency, self._machine.network.intra_node_latency)
        return recorded.scaled(job.job_id, costs, run_time, placement, self._seed)

    def _known_loop(self) -> LoopOutcome | KnownLoop | None:
        """Return the loop as another run has simulated it, or simulate it for others; None: not shared."""
        if self._known is None:
            return None
        key = self._known.key(self.job, self._speed, self._latency)
        found = self._known.find(key)
        if found is not None:
            return found
        outcome, recorded = self._simulate(), self._costs.recorded
        is_noted = recorded is not None and recorded.has_note(self.job.job_id)  # every run counts such jobs
        if is_noted or not cost_sums(self.costs).block or not self._known.has_room(len(self._speed)):
            return outcome
        loop = KnownLoop.of(outcome, self.costs, self._speed)
        self._known.keep(key, loop)
        return loop

    def request_release(self, at: float, request: coordination.ReleaseRequest) -> coordination.Answer:
        """Answer a request for nodes that arrives at ``at`` [s]; acceptance replaces the forecast.

        A released node gets no more chunks. Offered are the nodes that become idle first, never the first
        node (the master's), and only if they become free earlier than forecast and by the request's deadline.
        """
        if self._answers.rule is AnswerRule.NEVER:
            return coordination.ReleaseRejected(request.job, at, "never gives up nodes")
        if self._answers.rule is AnswerRule.IDLE_ONLY:
            return self._offer_idle(at, request)
        first = self._nodes.node[0]
        offered = [
            message
            for message in self._last_idle()
            if message.time > at and message.node != first and self._is_here(message.node)
        ]
        for count in range(min(request.nodes, len(offered)), 0, -1):
            chosen = tuple(message.node for message in offered[:count])
            free = self._try_without(chosen, at, request.deadline)
            if free is not None:
                return coordination.ReleaseAccepted(request.job, at, chosen, free)
        return coordination.ReleaseRejected(
            request.job, at, "it would take too long, or free no node earlier"
        )

    def _offer_idle(self, at: float, request: coordination.ReleaseRequest) -> coordination.Answer:
        """Offer nodes that are idle and whose message is still on its way."""
        delay = self._answers.latency
        idle = [idle for idle in self.forecast.idle[:-1] if idle.time <= at < idle.time + delay]
        idle = idle[: request.nodes]
        if not idle:
            return coordination.ReleaseRejected(request.job, at, "no node is idle")
        nodes, free = zip(*((message.node, message.time) for message in idle), strict=True)
        return coordination.ReleaseAccepted(request.job, at, nodes, free)

    def _is_here(self, node: int) -> bool:
        """Whether a node has not been released, or has returned."""
        return len(self._departures.get(node, ())) % 2 == 0

    def _try_without(self, chosen: tuple[int, ...], at: float, deadline: float) -> tuple[float, ...] | None:
        """Simulate without some nodes; return when each is free [s], None if that is of no use."""
        before = self.forecast, self.outcome, self._departures, self._perturbation, self._chunks
        needed = {message.node: message.time for message in self._last_idle()}
        self._departures = {
            **self._departures,
            **{node: [*self._departures.get(node, []), at] for node in chosen},
        }
        self._simulate_anew()
        free = {message.node: message.time for message in self._last_idle() if message.node in chosen}
        is_of_use = all(free[node] < needed[node] and free[node] <= deadline for node in chosen)
        old, new = before[0].end - self.began, self.forecast.end - self.began
        if is_of_use and self._answers.accepts(old, new):
            if before[-1] is not None:
                before[-1].forget()
            return tuple(free[node] for node in chosen)
        self.forecast, self.outcome, self._departures, self._perturbation, self._chunks = before
        return None

    def apply_change(self, at: float, change: coordination.Disturbance) -> coordination.Forecast:
        """Change the loop's future from ``at`` [s] on: returned nodes join again, other changes end it."""
        self.forget_chunks()
        if isinstance(change, coordination.NodeReturned):
            self._earlier_idle += [message for message in self._last_idle() if message.node == change.node]
            self._departures = {**self._departures, change.node: [*self._departures[change.node], at]}
            self._simulate_anew()
            return self.forecast
        idle = coordination.IdleNodes.of(self.forecast.idle)
        sent = idle[: int(np.searchsorted(idle.time, at, side="right"))]
        self._until = at - self.began
        self.outcome = self._simulate(self._until, keep=True)
        self.forecast = coordination.Forecast(at, sent)
        return self.forecast

    @property
    def idle_share(self) -> float:
        """Share of the job's node-seconds in which its nodes had run out of work."""
        length = self.forecast.end - self.began
        idle = sum(self.forecast.end - message.time for message in self._last_idle())
        return idle / (length * len(self._nodes.node)) if length > 0.0 else 0.0

    def show(self, experience: Experience) -> None:
        """Add the complete time steps of the loop to the experience of later executions."""
        assert isinstance(self.outcome, LoopOutcome), "loops that learn from others are not shared"
        experience.learn(self.outcome.shown, cost_sums(self.costs).n, self._speed)

    def chunks(self) -> LoopChunks | None:
        """Return the chunks, None if not kept; after a change they are simulated anew, on demand."""
        if self._chunks is None and self._store is not None:
            self._simulate(self._until, keep=True)
        return self._chunks

    def requests(self) -> PERequests:
        """Return the latency and the time of the last request of each PE; masters send none.

        PEs of a node that has left send none, and a request that the end of the loop overtakes has no answer.
        """
        outcome, asking = self.outcome, model_entry(self._config.execution.model).properties.asking
        assert isinstance(outcome, LoopOutcome), "traces of messages need all PEs"
        last = np.maximum(outcome.finish, outcome.last_begin)
        left = np.isin(self._nodes.node[self.node_of_pe], list(self._departures))
        last[left | (outcome.notified_at >= self._until)] = np.nan
        is_first = np.arange(len(last)) == 0
        latency = self._latency
        if asking in ("node master", "node window"):
            is_first = np.append(True, np.diff(self.node_of_pe) != 0)
            latency = np.where(is_first, 0.0, self._machine.network.intra_node_latency)
        if asking in ("master", "node master"):
            last[is_first] = np.nan
        return PERequests(latency, last)

    def forget_chunks(self) -> None:
        """Discard chunks that are out of date."""
        if self._chunks is not None:
            self._chunks.forget()
            self._chunks = None

    def _simulate_anew(self, keep: bool = False, known: LoopOutcome | KnownLoop | None = None) -> None:
        """Simulate the loop, set outcome and forecast; ``keep``: store its chunks now, not on demand."""
        self._chunks = None
        self.outcome = known or self._simulate_to_its_end(keep)
        idle = self._idle_nodes() if self._reports_idle else coordination.NO_IDLE
        if self._earlier_idle:
            messages = sorted([*self._earlier_idle, *idle], key=lambda message: message.time)
            idle = coordination.IdleNodes.of(messages)
        end, pes = self.began + self.outcome.end, self._config.pes_per_node
        self.forecast = coordination.Forecast(end, idle, pes)

    def _last_idle(self) -> list[coordination.NodeIdle]:
        """Return the last message about each node, in order of time."""
        last = {message.node: message for message in self.forecast.idle}
        place = {node: k for k, node in enumerate(self._nodes.node.tolist())}
        return sorted(last.values(), key=lambda message: (message.time, place[message.node]))

    def _unavailability(self) -> Unavailability | None:
        """Return when nodes have left, in s from the loop's start."""
        if not self._departures:
            return None
        spans = []
        for node in self._nodes.node.tolist():
            turns = self._departures.get(node, [])
            times = [turn - self.began for turn in turns] + ([math.inf] if len(turns) % 2 else [])
            spans.append(list(zip(times[::2], times[1::2], strict=True)))
        return unavailability_of(self.node_of_pe, spans)

    def _simulate_to_its_end(self, keep: bool) -> LoopOutcome:
        """Simulate the loop; if it outlasts the horizon of random slow-downs, again with a later one."""
        perturbations = self._machine.perturbations
        if not perturbations:
            return self._simulate(keep=keep)
        ideal = self._config.time_steps * cost_sums(self.costs).total / float(self._speed.sum())
        reach = max(4.0 * ideal, 1.0) if perturbations.are_random else math.inf
        while True:
            self._perturbation = loop_perturbation(
                perturbations, self._nodes, self.node_of_pe, self.began, self.began + reach
            )
            self.forget_chunks()
            outcome = self._simulate(keep=keep)
            end = float(outcome.notified_at.max())
            if end <= reach:
                return outcome
            reach = 2.0 * end

    def _simulate(
        self, until: float = math.inf, record: bool = False, rows_since: float = -math.inf, keep: bool = False
    ) -> LoopOutcome:
        if keep and self._store is not None:
            self._chunks = self._store.open()
        config = self._config
        try:
            outcome = simulate(
                *(self.costs, self._speed, self._latency, config.technique, config.execution),
                min_chunk=config.min_chunk,
                record=record,
                until=until,
                parameters=config.parameters,
                seed=self._seed,
                time_steps=config.time_steps,
                node_of_pe=self.node_of_pe,
                intra_latency=self._machine.network.intra_node_latency,
                perturbation=self._perturbation,
                rows_since=rows_since,
                pe_unavailability=self._unavailability(),
                chunks=self._chunks if keep else None,
                selection=config.selects,
                experience=self._experience,
            )
        except InputError as error:
            raise InputError(f"job {self.job.job_id}: {error}") from error
        end, is_killed = self.job.run_time, until < math.inf
        if self._costs.recorded is None or is_killed:
            return outcome
        if abs(float(outcome.notified_at.max()) - end) > TOLERANCE * end:
            return outcome
        # An end one bit off would change the order of events at equal times.
        if self._chunks is not None:
            self._chunks.latest = end
        return ending_at(outcome, end)

    def _latencies(self) -> Floats:
        """Return one-way message times [s] between every PE and PE 0, the master or coordinator."""
        size = self._config.execution.message_size
        node = self._nodes.node
        times = self._machine.network.message_time(int(node[0]), node, size)[self.node_of_pe]
        times[0] = 0.0
        return times

    def _idle_nodes(self) -> coordination.IdleNodes:
        """Return one message per node, by time, then by node; nodes that return late are idle at once."""
        first_pe = np.searchsorted(self.node_of_pe, np.arange(len(self._nodes.node)))
        outcome = self.outcome
        if isinstance(outcome, KnownLoop):
            place = np.maximum.reduceat(outcome.place, first_pe)
            order = np.argsort(place, kind="stable")
            place = place[order]
            idle, left = outcome.times[place], (outcome.iterations[place], outcome.work[place])
        else:
            idle = np.maximum.reduceat(outcome.notified_at, first_pe)  # in s from the loop's start
            for k, node in enumerate(self._nodes.node.tolist() if self._departures else ()):
                turns = self._departures.get(node, [])
                if len(turns) > 1:
                    idle[k] = max(idle[k], turns[len(turns) // 2 * 2 - 1] - self.began)
            order = np.argsort(idle, kind="stable")
            idle = idle[order]
            if not hands_out_first(self._config) or self._departures:
                # The queue still holds iterations, besides the last chunk of each PE.
                outcome = self._simulate(record=True, rows_since=idle[0])
            left = outcome.remaining(self.costs, self._speed, idle, self._perturbation)
        return coordination.IdleNodes(self.job.job_id, self._nodes.node[order], self.began + idle, *left)


def single_loop_records(
    job_id: int, machine: Machine, pes: int, end: float, recorder: LoopRecorder
) -> Records:
    """Return the records of a run with one job, on all nodes of a machine from 0 to ``end`` [s]."""
    cores = machine.cores
    first = np.flatnonzero(np.append(True, np.diff(cores) != 0))  # of neighbouring nodes with equal cores
    rows = len(first)
    occupancy = Occupancy(
        job=np.zeros(rows, np.int64),
        node=first,
        count=np.diff(np.append(first, len(cores))),
        cores=cores[first],
        start=np.zeros(rows),
        end=np.full(rows, end),
        released=np.zeros(rows, np.bool_),
    )
    return Records(
        nodes=Nodes(machine.name, machine.group, cores, machine.speed),
        jobs=one_job(job_id, end, pes, machine.n_cores),
        occupancy=occupancy,
        loops=recorder.loops(),
        chunks=recorder.chunks(),
        pes=recorder.pes(),
        selections=recorder.selections(),
        messages=empty(Messages),
    )
