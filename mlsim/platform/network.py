"""The network: routes, their latency and bandwidth, and message times."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mlsim._runtime.arrays import Floats, Ints
from mlsim.scenario import NetworkConfig, Topology

if TYPE_CHECKING:
    import networkx as nx

    from mlsim.platform.topologies import Vertex


_MOST_BYTES = 64_000_000


class Routes:
    """The routes between the nodes of a connected graph, searched on demand.

    A route has the fewest links possible; among those, the least latency; among those, the most bandwidth.
    Its latency is the sum of its links', its bandwidth that of its narrowest link. Links are free: no message
    waits for another. Vertices 0 to ``nodes`` - 1 of the graph are the nodes, before all others; its edges
    have ``latency`` and ``bandwidth``.
    """

    def __init__(self, graph: nx.Graph[Vertex], nodes: int) -> None:
        self._nodes = nodes
        self._vertices = graph.number_of_nodes()
        number = {vertex: row for row, vertex in enumerate(graph)}
        links = [(number[a], number[b], *_weights(data)) for a, b, data in graph.edges(data=True)]
        table = np.array(links, np.float64).reshape(-1, 4)
        a, b = table[:, 0].astype(np.int64), table[:, 1].astype(np.int64)
        start = np.concatenate([a, b])
        order = np.argsort(start, kind="stable")
        # The links of vertex v, seen from it, are rows begin[v] to begin[v + 1].
        self._begin = np.searchsorted(start[order], np.arange(self._vertices + 1))
        self._target = np.concatenate([b, a])[order]
        self._latency = np.tile(table[:, 2], 2)[order]
        self._bandwidth = np.tile(table[:, 3], 2)[order]
        self._known: OrderedDict[int, tuple[Floats, Floats]] = OrderedDict()
        self._most_known = max(_MOST_BYTES // (16 * max(nodes, 1)), 1)

    def from_node(self, node: int) -> tuple[Floats, Floats]:
        """Return latency (s) and bandwidth (bit/s) of the routes from a node to every node.

        The node reaches itself in 0 s, with infinite bandwidth. Do not write into the arrays.
        """
        if node in self._known:
            self._known.move_to_end(node)
            return self._known[node]
        if len(self._known) >= self._most_known:
            self._known.popitem(last=False)
        latency, bandwidth = self._search(node)
        routes = latency[: self._nodes].copy(), bandwidth[: self._nodes].copy()
        self._known[node] = routes
        return routes

    def _search(self, source: int) -> tuple[Floats, Floats]:
        """Search the graph breadth-first, all vertices that are one link farther at once."""
        latency, bandwidth = np.full(self._vertices, np.inf), np.zeros(self._vertices)
        latency[source], bandwidth[source] = 0.0, np.inf
        reached = np.zeros(self._vertices, np.bool_)
        reached[source] = True
        wave = np.array([source], np.int64)
        while len(wave):
            origin, link = self._links_of(wave)
            new = ~reached[self._target[link]]
            origin, link = origin[new], link[new]
            target = self._target[link]
            seconds = latency[origin] + self._latency[link]
            narrowest = np.minimum(bandwidth[origin], self._bandwidth[link])
            order = np.lexsort((-narrowest, seconds, target))
            best = order[np.flatnonzero(np.diff(target[order], prepend=-1))]
            wave = target[best]
            latency[wave], bandwidth[wave] = seconds[best], narrowest[best]
            reached[wave] = True
        return latency, bandwidth

    def links_from(self, node: int) -> Ints:
        """Return the number of links of the routes from a node to every node."""
        links = np.zeros(self._vertices, np.int64)
        reached = np.zeros(self._vertices, np.bool_)
        reached[node] = True
        wave, far = np.array([node], np.int64), 0
        while len(wave):
            links[wave] = far
            target = self._target[self._links_of(wave)[1]]
            wave, far = np.unique(target[~reached[target]]), far + 1
            reached[wave] = True
        return links[: self._nodes].copy()

    def _links_of(self, vertices: Ints) -> tuple[Ints, Ints]:
        """Return all links of some vertices, and for each link the vertex it leaves from."""
        counts = self._begin[vertices + 1] - self._begin[vertices]
        skipped = np.cumsum(counts) - counts
        link = np.arange(counts.sum()) + np.repeat(self._begin[vertices] - skipped, counts)
        return np.repeat(vertices, counts), link


def _weights(data: dict[str, float]) -> tuple[float, float]:
    return data["latency"], data["bandwidth"]


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
    """Routes between nodes that are not linked directly; None if every pair has its own link with the
    latency and bandwidth above.
    """

    @classmethod
    def from_config(cls, config: NetworkConfig, names: list[str], edges: Path | None = None) -> Network:
        """Build the network of a scenario; ``edges`` is the file of an edge list.

        Raises
        ------
        InputError
            If the topology does not fit the nodes, or the file cannot be used.
        """
        routes = None
        if config.topology is not Topology.FULLY_CONNECTED:
            # Here, as only they load networkx.
            from mlsim.platform.topologies import build_graph, edges_of, read_edges

            listed = edges_of(config.edges) if edges is None else read_edges(edges)
            routes = Routes(build_graph(config, names, listed), len(names))
        return cls(config.latency, config.bandwidth, config.intra_node_latency, routes)

    def links_from(self, node: int, nodes: int) -> NDArray[np.int64]:
        """Return the number of links between a node and each of the ``nodes``; 0 to itself."""
        if self.routes is None:
            return np.asarray(np.arange(nodes) != node, np.int64)
        return self.routes.links_from(node)

    def message_time(self, node: int, others: NDArray[np.int64], size: float) -> NDArray[np.float64]:
        """Return the one-way time [s] of a message of ``size`` bytes between a node and several others.

        Between nodes it is the latency of the route plus ``8 size`` over its bandwidth, within one node
        ``intra_node_latency``.
        """
        if self.routes is None:
            remote = self.latency + 8.0 * size / self.bandwidth
            return np.where(others == node, self.intra_node_latency, remote)
        latency, bandwidth = self.routes.from_node(node)
        return np.where(
            others == node, self.intra_node_latency, latency[others] + 8.0 * size / bandwidth[others]
        )


@dataclass(frozen=True, slots=True)
class TopologyEntry:
    """One topology."""

    name: str
    """The word in a scenario file."""
    meaning: str
    """Connection of the nodes."""
    keys: tuple[str, ...]
    """Keys of ``platform.network`` that only it has."""
    holds: str
    """The most nodes it holds."""
    links: str
    """Links between two nodes, on the route with the fewest."""
    reference: str
    """Reference; empty for textbook topologies."""


TOPOLOGIES = (
    TopologyEntry("fully-connected", "every pair of nodes by a link of its own", (), "any number", "1", ""),
    TopologyEntry("star", "every node at one switch", (), "any number", "2", ""),
    TopologyEntry(
        "fat-tree",
        "k pods of k/2 edge and k/2 aggregation switches, every pod at each of (k/2)² core switches; k/2 "
        "nodes at an edge switch; every switch has k ports",
        ("ports (k)",),
        "k³/4",
        "2 at one edge switch, 4 in one pod, 6 otherwise",
        "Al-Fares, Loukissas and Vahdat 2008",
    ),
    TopologyEntry(
        "dragonfly",
        "g groups of a routers, all routers of a group linked with each other, p nodes at each; one link "
        "between any two groups, each group's links spread over its routers in order of the other group",
        ("groups (g)", "routers (a)", "nodes_per_router (p)"),
        "g·a·p",
        "2 at one router, 3 in one group, up to 5 otherwise",
        "Kim, Dally, Scott and Abts 2008",
    ),
    TopologyEntry(
        "torus",
        "a grid with a node at every place, linked with its two neighbours in each dimension, the last with "
        "the first; nodes forward messages",
        ("dimensions",),
        "the product of the dimensions",
        "sum of the distances in all dimensions, each the shorter way round",
        "",
    ),
    TopologyEntry(
        "edge-list",
        "the links of a list; names of nodes are nodes, all others are switches; both forward messages",
        ("edges", "path"),
        "the nodes it names, which must be all",
        "as the list says",
        "",
    ),
)
