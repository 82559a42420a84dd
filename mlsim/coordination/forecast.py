"""Forecasts: the future of one running application, as far as the batch level can see it.

An application simulator computes a whole loop when its job starts and hands the batch level the
moments that matter to it. The batch level can rely on them until it disturbs the application; a
disturbance at time t replaces what comes after t and leaves what came before. So no simulation is
ever paused or rolled back, and one application can be simulated again alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mlsim.coordination.messages import Answer, NodeIdle, NodeReturned, ReleaseRequest

__all__ = ["ApplicationSimulator", "Disturbance", "Forecast", "Kill", "NodeFailed", "NodeSet"]


@dataclass(frozen=True, slots=True)
class NodeSet:
    """The nodes a job holds."""

    node: NDArray[np.int64]
    """Node numbers, in allocation order."""
    cores: NDArray[np.int64]
    """Cores held on each."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """The future events of an application that the batch level must handle."""

    end: float
    """When the job will end, in seconds from the scenario's start."""
    idle: tuple[NodeIdle, ...] = ()
    """Messages that the application will send about its nodes, in order of time."""


@dataclass(frozen=True, slots=True)
class Kill:
    """The batch system ends the job, for instance at its walltime."""


@dataclass(frozen=True, slots=True)
class NodeFailed:
    """A node of the job has failed, and the job with it."""

    node: int


Disturbance = Kill | NodeFailed | NodeReturned


class ApplicationSimulator(Protocol):
    """One running application, seen from the batch level."""

    def start(self, at: float, nodes: NodeSet) -> Forecast:
        """Simulate the application from its start on these nodes."""
        ...

    def request_release(self, at: float, request: ReleaseRequest) -> Answer:
        """Answer a request for nodes; acceptance replaces the future from ``at`` on."""
        ...

    def apply_change(self, at: float, change: Disturbance) -> Forecast:
        """Change the application's future from ``at`` on; its past stands."""
        ...
