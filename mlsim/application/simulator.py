"""One running loop as the batch level sees it: start it on some nodes, get its forecast."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mlsim.application.costs import CostProfiles
from mlsim.application.loop import simulate
from mlsim.application.outcome import LoopOutcome
from mlsim.coordination import Disturbance, Forecast, NodeIdle, NodeSet
from mlsim.platform import Machine
from mlsim.scenario import ApplicationConfig

__all__ = ["LoopApplication", "LoopJob", "place_pes"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LoopJob:
    """What an application needs to know of its job: its identifier and the log's run time in seconds."""

    job_id: int
    run_time: float


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
        Speeds and network.
    record
        Whether to keep a row for every chunk.
    """

    def __init__(
        self, job: LoopJob, config: ApplicationConfig, costs: CostProfiles, machine: Machine, record: bool
    ) -> None:
        self.job = job
        self._config = config
        self._costs = costs
        self._machine = machine
        self._record = record
        self.began = 0.0
        self._nodes = NodeSet(np.empty(0, np.int64), np.empty(0, np.int64))
        self.node_of_pe: Ints = np.empty(0, np.int64)
        self.prefix: Floats = np.zeros(1)
        self._speed: Floats = np.empty(0)
        self._latency: Floats = np.empty(0)
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
        self.prefix = self._costs.prefix(self.job.job_id, len(self.node_of_pe), self.job.run_time)
        self._speed = self._machine.speed[nodes.node][self.node_of_pe]
        self._latency = self._latencies()
        self.outcome = self._simulate()
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

    def _simulate(self, until: float = math.inf) -> LoopOutcome:
        return simulate(
            self.prefix,
            self._speed,
            self._latency,
            self._config.technique,
            self._config.execution,
            self._config.min_chunk,
            self._record,
            until,
        )

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
        iterations, work = self.outcome.remaining(self.prefix, self._speed, idle[order])
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
