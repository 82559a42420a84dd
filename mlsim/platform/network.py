"""The network: topologies as graphs, edge lists, routes with latency and bandwidth, and message times."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from pydantic import ValidationError

from mlsim._files import read_lines
from mlsim._runtime.arrays import Floats, Ints, ranges
from mlsim.errors import InputError
from mlsim.scenario.platform_section import EdgeConfig, NetworkConfig
from mlsim.scenario.words import Topology

if TYPE_CHECKING:
    import networkx as nx  # loaded where a topology needs it

Vertex = int | str
_MOST_BYTES = 64_000_000
_COLUMNS = ("from", "to", "latency", "bandwidth")


class Routes:
    """The routes between the nodes of a connected graph, searched on demand.

    A route has the fewest links possible; among those, the least latency; among those, the most bandwidth. No
    message waits for another. Vertices 0 to ``nodes`` - 1 of the graph are the nodes, before all others.
    """

    def __init__(self, graph: nx.Graph[Vertex], nodes: int) -> None:
        self._nodes = nodes
        self._vertices = graph.number_of_nodes()
        number = {vertex: row for row, vertex in enumerate(graph)}
        links = [
            (number[a], number[b], data["latency"], data["bandwidth"])
            for a, b, data in graph.edges(data=True)
        ]
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
        """Return latency (s) and bandwidth (bit/s) of the routes from a node to all nodes; read only."""
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
        return np.repeat(vertices, counts), ranges(self._begin[vertices], counts)


@dataclass(frozen=True, slots=True)
class Network:
    """The links between nodes, and shared memory inside a node."""

    latency: float  # Seconds for an empty message over one link
    bandwidth: float  # bit/s of a link
    intra_node_latency: float  # Seconds for a message between two PEs of one node, whatever its size
    routes: Routes | None = None  # None if every pair of nodes has a link of its own, as above

    @classmethod
    def from_config(cls, config: NetworkConfig, names: list[str], edges: Path | None = None) -> Network:
        """Build the network of a scenario; ``edges`` is the file of an edge list."""
        routes = None
        if config.topology is not Topology.FULLY_CONNECTED:
            listed = edges_of(config.edges) if edges is None else read_edges(edges)
            routes = Routes(build_graph(config, names, listed), len(names))
        return cls(config.latency, config.bandwidth, config.intra_node_latency, routes)

    def links_from(self, node: int, nodes: int) -> Ints:
        """Return the number of links between a node and each of the ``nodes``; 0 to itself."""
        if self.routes is None:
            return np.asarray(np.arange(nodes) != node, np.int64)
        return self.routes.links_from(node)

    def message_time(self, node: int, others: Ints, size: float) -> Floats:
        """Return the one-way time [s] of a message of ``size`` bytes between a node and several others."""
        if self.routes is None:
            remote = self.latency + 8.0 * size / self.bandwidth
            return np.where(others == node, self.intra_node_latency, remote)
        latency, bandwidth = self.routes.from_node(node)
        return np.where(
            others == node, self.intra_node_latency, latency[others] + 8.0 * size / bandwidth[others]
        )


# Topologies


@dataclass(frozen=True, slots=True)
class TopologyEntry:
    """One topology."""

    name: str  # The word in a scenario file
    meaning: str  # Connection of the nodes
    keys: tuple[str, ...]  # Keys of `platform.network` that only it has
    holds: str  # The most nodes it holds
    links: str  # Links between two nodes, on the route with the fewest
    reference: str  # Reference; empty for textbook topologies


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


Edge = tuple[str, EdgeConfig]  # Position of a link, for messages, and the link as it was written


def edges_of(configs: Iterable[EdgeConfig]) -> list[Edge]:
    """Return the links of a scenario."""
    return [(f"platform.network.edges.{row}", config) for row, config in enumerate(configs)]


def read_edges(path: str | Path) -> list[Edge]:
    """Read a file of links, per line ``from,to`` or ``from,to,latency,bandwidth``; ``#`` begins comments."""
    path = Path(path)
    edges = []
    for number, line in enumerate(read_lines(path, "edge list"), 1):
        cells = [cell.strip() for cell in line.split(",")]
        header = number == 1 and tuple(cell.casefold() for cell in cells) == _COLUMNS[: len(cells)]
        if line.strip() and not line.lstrip().startswith("#") and not header:
            edges.append(_edge(cells, f"{path}:{number}"))
    return edges


def _edge(cells: list[str], place: str) -> Edge:
    if not 2 <= len(cells) <= len(_COLUMNS):
        raise InputError(
            f"{place}: {len(cells)} values separated by commas; allowed: 2 to 4: {', '.join(_COLUMNS)}; "
            "e.g. n0,switch or n0,switch,1 us,10 Gbit/s"
        )
    try:
        return place, EdgeConfig.model_validate(
            {key: cell for key, cell in zip(_COLUMNS, cells, strict=False) if cell or key in ("from", "to")}
        )
    except ValidationError as error:
        problem = error.errors()[0]
        raise InputError(f"{place}: {problem['loc'][0]}: {problem['msg']}") from error


def _add_edges(
    graph: nx.Graph[Vertex], config: NetworkConfig, names: list[str], edges: Iterable[Edge]
) -> None:
    """Add links with the numbers of nodes in place of their names; refuse loops and second links."""
    numbers = {name: number for number, name in enumerate(names)}
    first: dict[frozenset[str], str] = {}
    for place, edge in edges:
        a, b = edge.a, edge.b
        ends = frozenset((a, b))
        if a == b:
            raise InputError(f"{place}: a link from {a} to itself; allowed: links between two ends")
        if ends in first:
            raise InputError(f"{place}: {a} and {b} are linked already by {first[ends]}; keep one of them")
        first[ends] = place
        latency = config.latency if edge.latency is None else edge.latency
        bandwidth = config.bandwidth if edge.bandwidth is None else edge.bandwidth
        graph.add_edge(numbers.get(a, a), numbers.get(b, b), latency=latency, bandwidth=bandwidth)


def build_graph(config: NetworkConfig, names: list[str], edges: Iterable[Edge] = ()) -> nx.Graph[Vertex]:
    """Build the graph: numbers of nodes, then names of switches; an InputError if it does not connect all."""
    import networkx as nx

    if len(names) > config.capacity:
        raise InputError(
            f"topology {config.topology} with these parameters holds {config.capacity:.0f} nodes, "
            f"and there are {len(names)}"
        )
    graph: nx.Graph[Vertex] = nx.Graph()
    graph.add_nodes_from(range(len(names)))
    if config.topology is Topology.EDGE_LIST:
        _add_edges(graph, config, names, edges)
        _check_connected(graph, nx.node_connected_component(graph, 0), names)
    else:
        graph.add_edges_from(_links(config, len(names)), latency=config.latency, bandwidth=config.bandwidth)
    return graph


def _links(config: NetworkConfig, nodes: int) -> Iterator[tuple[Vertex, Vertex]]:
    match config.topology:
        case Topology.STAR:
            return ((node, "switch") for node in range(nodes))
        case Topology.FAT_TREE:
            return _fat_tree(config.ports or 0, nodes)
        case Topology.DRAGONFLY:
            return _dragonfly(config.groups or 0, config.routers or 0, config.nodes_per_router or 0, nodes)
        case Topology.TORUS:
            return _torus(config.dimensions or (), nodes)
        case _:
            return combinations(range(nodes), 2)


def _fat_tree(k: int, nodes: int) -> Iterator[tuple[Vertex, Vertex]]:
    """Al-Fares, Loukissas and Vahdat 2008, §3.2: aggregation switch j of a pod has core switches jk/2, ..."""
    half = k // 2
    for node in range(nodes):
        pod, place = divmod(node, half * half)
        yield node, f"edge{pod}.{place // half}"
    for pod, aggregation in product(range(k), range(half)):
        for edge in range(half):
            yield f"edge{pod}.{edge}", f"aggregation{pod}.{aggregation}"
        for core in range(aggregation * half, (aggregation + 1) * half):
            yield f"aggregation{pod}.{aggregation}", f"core{core}"


def _dragonfly(groups: int, routers: int, per_router: int, nodes: int) -> Iterator[tuple[Vertex, Vertex]]:
    """Kim, Dally, Scott and Abts 2008, §3.1, with one link between any two groups, to each router in turn."""
    for node in range(nodes):
        group, place = divmod(node, routers * per_router)
        yield node, f"router{group}.{place // per_router}"
    for group in range(groups):
        for one, other in combinations(range(routers), 2):
            yield f"router{group}.{one}", f"router{group}.{other}"
    share = math.ceil((groups - 1) / routers)
    for one, other in combinations(range(groups), 2):
        yield f"router{one}.{(other - 1) // share}", f"router{other}.{one // share}"


def _torus(lengths: tuple[int, ...], nodes: int) -> Iterator[tuple[Vertex, Vertex]]:
    """Link every place with its next in each dimension; places without a node only forward."""

    def vertex(number: int) -> Vertex:
        return number if number < nodes else f"place{number}"

    stride = math.prod(lengths)
    places = range(stride)
    for length in lengths:
        around, stride = stride, stride // length
        for place in places:
            start = place - place % around
            neighbour = start + (place - start + stride) % around
            if neighbour != place:
                yield vertex(place), vertex(neighbour)


def _check_connected(graph: nx.Graph[Vertex], reached: set[Vertex], names: list[str]) -> None:
    lost = [name for node, name in enumerate(names) if node not in reached]
    if lost:
        without = [names[node] for node in range(len(names)) if not graph.degree(node)]
        if without:
            raise InputError(f"the edge list has no link of {_some(without)}; every node needs one")
        raise InputError(f"the edge list has no route from {names[0]} to {_some(lost)}")


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
