"""One running loop as the batch level sees it: start it on some nodes, get its forecast."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mlsim.application.costs import CostProfiles
from mlsim.application.loop import simulate
from mlsim.application.outcome import LoopOutcome
from mlsim.application.slowdowns import loop_perturbation
from mlsim.coordination import Disturbance, Forecast, NodeIdle, NodeSet
from mlsim.errors import InputError
from mlsim.platform import Machine
from mlsim.scenario import TWO_LEVELS, ApplicationConfig

if TYPE_CHECKING:
    from mlsim.application.perturbation import Perturbation

__all__ = ["LoopApplication", "LoopJob", "place_pes"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Keeps the random numbers of loops apart from others that are keyed by seed and job.
_STREAM = 0x7EC4
_UNSIGNED = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class LoopJob:
    """What an application needs to know of its job: its identifier and the log's run time in seconds."""

    job_id: int
    run_time: float


def _job_seed(seed: int, job_id: int) -> int:
    """Give the seed of a job's own random numbers."""
    key = np.random.SeedSequence(seed, spawn_key=(_STREAM, job_id & _UNSIGNED))
    return int(key.generate_state(1, np.uint64)[0] >> np.uint64(1))


def place_pes(nodes: NodeSet, pes_per_node: int | None) -> Ints:
    """Give each PE its place in the node set: all PEs of the first node, then of the second.

    Parameters
    ----------
    nodes
        The nodes of the job.
    pes_per_node
        PEs on each node, at most its cores; None for one a core.

    Returns
    -------
    NDArray
        For each PE the index of its node in ``nodes``.
    """
    counts = nodes.cores if pes_per_node is None else np.minimum(nodes.cores, pes_per_node)
    return np.repeat(np.arange(len(nodes.node)), counts)


class LoopApplication:
    """A parallel loop that schedules itself, simulated whole when it starts.

    Parameters
    ----------
    job
        The job that executes it.
    config
        Technique, execution model and costs.
    costs
        Makes the iteration costs.
    machine
        Speeds, network and perturbations.
    record
        Whether to keep a row for every chunk.
    seed
        Seed of the scenario; with the job's identifier the key of the loop's own random numbers.
    """

    def __init__(
        self,
        job: LoopJob,
        config: ApplicationConfig,
        costs: CostProfiles,
        machine: Machine,
        record: bool,
        seed: int = 0,
    ) -> None:
        self.job = job
        self._config = config
        self._costs = costs
        self._machine = machine
        self._record = record
        self._seed = _job_seed(seed, job.job_id)
        self.began = 0.0
        self._nodes = NodeSet(np.empty(0, np.int64), np.empty(0, np.int64))
        self.node_of_pe: Ints = np.empty(0, np.int64)
        self.prefix: Floats = np.zeros(1)
        self._speed: Floats = np.empty(0)
        self._latency: Floats = np.empty(0)
        self._perturbation: Perturbation | None = None
        self.outcome: LoopOutcome
        self.forecast = Forecast(0.0)

    def start(self, at: float, nodes: NodeSet) -> Forecast:
        """Simulate the loop on these nodes, one PE a core unless the scenario says fewer.

        Parameters
        ----------
        at
            When the job starts, in seconds from the scenario's start.
        nodes
            The nodes it got.

        Returns
        -------
        Forecast
            The end is when the last PE has been told that there is no more work; a node is idle when
            the last of its PEs has been told.
        """
        self.began, self._nodes = at, nodes
        self.node_of_pe = place_pes(nodes, self._config.pes_per_node)
        # A job's run time is that of all time steps together.
        run_time = self.job.run_time / self._config.time_steps
        self.prefix = self._costs.prefix(self.job.job_id, len(self.node_of_pe), run_time)
        self._speed = self._machine.speed[nodes.node][self.node_of_pe]
        self._latency = self._latencies()
        self.outcome = self._simulate_to_its_end()
        self.forecast = Forecast(at + float(self.outcome.told.max()), self._idle_nodes())
        return self.forecast

    def disturb(self, at: float, change: Disturbance) -> Forecast:
        """End the loop at ``at``; what was executed until then stands.

        Parameters
        ----------
        at
            When, in seconds from the scenario's start.
        change
            The kill.

        Returns
        -------
        Forecast
            The job ends now; nodes that were told idle before stay so.
        """
        del change  # a kill is the one disturbance there is
        told = tuple(message for message in self.forecast.idle if message.time <= at)
        self.outcome = self._simulate(until=at - self.began)
        self.forecast = Forecast(at, told)
        return self.forecast

    def _simulate_to_its_end(self) -> LoopOutcome:
        """Simulate the loop with all slow-downs that it meets.

        Where they are random, nobody knows beforehand how many these are: the loop is simulated with those
        up to some time, and if it takes longer, again with more. What came before stays as it was.
        """
        perturbations = self._machine.perturbations
        if not perturbations:
            return self._simulate()
        ideal = self._config.time_steps * float(self.prefix[-1] / self._speed.sum())
        reach = max(4.0 * ideal, 1.0) if perturbations.are_random else math.inf
        while True:
            self._perturbation = loop_perturbation(
                perturbations, self._nodes, self.node_of_pe, self.began, self.began + reach
            )
            outcome = self._simulate()
            end = float(outcome.told.max())
            if end <= reach:
                return outcome
            reach = 2.0 * end

    def _simulate(
        self, until: float = math.inf, record: bool | None = None, rows_since: float = -math.inf
    ) -> LoopOutcome:
        try:
            return simulate(
                self.prefix,
                self._speed,
                self._latency,
                self._config.technique,
                self._config.execution,
                self._config.min_chunk,
                self._record if record is None else record,
                until,
                self._config.parameters,
                self._seed,
                self._config.time_steps,
                self.node_of_pe,
                self._machine.network.intra_node_latency,
                self._perturbation,
                rows_since,
            )
        except InputError as error:
            raise InputError(f"job {self.job.job_id}: {error}") from error

    def _latencies(self) -> Floats:
        """One-way message times between every PE and PE 0, which is master or coordinator."""
        size = self._config.execution.message_size
        node = self._nodes.node
        times = self._machine.network.message_time(int(node[0]), node, size)[self.node_of_pe]
        times[0] = 0.0
        return times

    def _idle_nodes(self) -> tuple[NodeIdle, ...]:
        """One message a node, in order of time; at equal times in the order of the nodes."""
        first_pe = np.searchsorted(self.node_of_pe, np.arange(len(self._nodes.node)))
        idle = np.maximum.reduceat(self.outcome.told, first_pe)
        order = np.argsort(idle, kind="stable")
        outcome = self.outcome
        if self._config.execution.model in TWO_LEVELS and outcome.rows is None:
            outcome = self._simulate(record=True, rows_since=idle[order[0]])
        iterations, work = outcome.remaining(self.prefix, self._speed, idle[order], self._perturbation)
        return tuple(
            NodeIdle(self.job.job_id, node, time, left, seconds)
            for node, time, left, seconds in zip(
                self._nodes.node[order].tolist(),
                (self.began + idle[order]).tolist(),
                iterations.tolist(),
                work.tolist(),
                strict=True,
            )
        )
