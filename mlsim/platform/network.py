"""Message times between nodes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mlsim.platform.routes import Routes
from mlsim.scenario import NetworkConfig, Topology

__all__ = ["Network"]


@dataclass(frozen=True, slots=True)
class Network:
    """The links between nodes, and shared memory inside a node."""

    latency: float
    """Seconds for an empty message over one link."""
    bandwidth: float
    """bit/s of a link."""
    intra_node_latency: float
    """Seconds for a message between two PEs of one node, whatever its size."""
    routes: Routes | None = None
    """Ways between nodes that are not linked directly; None if every pair has a link of its own with the
    latency and bandwidth above.
    """

    @classmethod
    def from_config(cls, config: NetworkConfig, names: list[str], edges: Path | None = None) -> Network:
        """Build the network of a scenario.

        Parameters
        ----------
        config
            The section of the scenario.
        names
            The nodes' names, in their order.
        edges
            Where the file of an edge list was found.

        Raises
        ------
        InputError
            If the topology does not fit the nodes, or the file of an edge list cannot be used.
        """
        routes = None
        if config.topology is not Topology.FULLY_CONNECTED:
            # Here, as only they load networkx.
            from mlsim.platform.edges import edges_of, read_edges
            from mlsim.platform.topologies import build_graph

            listed = edges_of(config.edges) if edges is None else read_edges(edges)
            routes = Routes(build_graph(config, names, listed), len(names))
        return cls(config.latency, config.bandwidth, config.intra_node_latency, routes)

    def links_from(self, node: int, nodes: int) -> NDArray[np.int64]:
        """Return the number of links between a node and each of the ``nodes``; 0 to itself."""
        if self.routes is None:
            return np.asarray(np.arange(nodes) != node, np.int64)
        return self.routes.links_from(node)

    def message_time(self, node: int, others: NDArray[np.int64], size: float) -> NDArray[np.float64]:
        """Return the one-way time [s] of a message between a node and each of several nodes.

        Parameters
        ----------
        node, others
            Node numbers.
        size
            Bytes of the message.

        Returns
        -------
        NDArray
            Seconds: between nodes the latency of the route plus ``8 size`` over its bandwidth,
            ``intra_node_latency`` within one.
        """
        if self.routes is None:
            remote = self.latency + 8.0 * size / self.bandwidth
            return np.where(others == node, self.intra_node_latency, remote)
        latency, bandwidth = self.routes.from_node(node)
        return np.where(
            others == node, self.intra_node_latency, latency[others] + 8.0 * size / bandwidth[others]
        )
