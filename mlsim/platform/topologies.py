"""Topologies as graphs: built-in ones, and edge lists from files."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import combinations, product
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pydantic import ValidationError

from mlsim._files.decoding import read_lines
from mlsim.errors import InputError
from mlsim.scenario import EdgeConfig, NetworkConfig, Topology

if TYPE_CHECKING:
    import networkx as nx


_COLUMNS = ("from", "to", "latency", "bandwidth")


class Edge(NamedTuple):
    """One link as it was written; ``place`` is its position, for messages.

    Latency [s] and bandwidth [bit/s] are None where they are those of the network.
    """

    place: str
    a: str
    b: str
    latency: float | None
    bandwidth: float | None


def edges_of(configs: Iterable[EdgeConfig]) -> list[Edge]:
    """Return the links of a scenario."""
    return [
        Edge(f"platform.network.edges.{row}", config.a, config.b, config.latency, config.bandwidth)
        for row, config in enumerate(configs)
    ]


def read_edges(path: str | Path) -> list[Edge]:
    """Read a file of links, one per line: ``from,to`` or ``from,to,latency,bandwidth``.

    Latencies and bandwidths are written as in a scenario: ``500 ns``, or a number in s or bit/s; an empty
    one is the network's. Empty lines, lines that begin with ``#`` and a first line of the columns' names
    are skipped.

    Raises
    ------
    InputError
        If the file cannot be read, or a line is no link; the message has the line's number.
    """
    path = Path(path)
    lines = read_lines(path, "edge list")
    edges = []
    for number, line in enumerate(lines, 1):
        cells = [cell.strip() for cell in line.split(",")]
        if line.strip() and not line.lstrip().startswith("#") and not (number == 1 and _is_header(cells)):
            edges.append(_edge(cells, f"{path}:{number}"))
    return edges


def _is_header(cells: list[str]) -> bool:
    return tuple(cell.casefold() for cell in cells) == _COLUMNS[: len(cells)]


def _edge(cells: list[str], place: str) -> Edge:
    if not 2 <= len(cells) <= len(_COLUMNS):
        raise InputError(
            f"{place}: {len(cells)} values separated by commas; allowed: 2 to 4: {', '.join(_COLUMNS)}; "
            "e.g. n0,switch or n0,switch,1 us,10 Gbit/s"
        )
    try:
        config = EdgeConfig.model_validate(
            {key: cell for key, cell in zip(_COLUMNS, cells, strict=False) if cell or key in ("from", "to")}
        )
    except ValidationError as error:
        problem = error.errors()[0]
        raise InputError(f"{place}: {problem['loc'][0]}: {problem['msg']}") from error
    return Edge(place, config.a, config.b, config.latency, config.bandwidth)


def named_links(
    edges: Iterable[Edge], names: list[str]
) -> Iterator[tuple[int | str, int | str, float | None, float | None]]:
    """Yield each link with the numbers of nodes in place of their names.

    Raises
    ------
    InputError
        If a link connects something with itself, or two links the same two ends.
    """
    numbers = {name: number for number, name in enumerate(names)}
    first: dict[frozenset[str], str] = {}
    for place, a, b, latency, bandwidth in edges:
        ends = frozenset((a, b))
        if a == b:
            raise InputError(f"{place}: a link from {a} to itself; allowed: links between two ends")
        if ends in first:
            raise InputError(f"{place}: {a} and {b} are linked already by {first[ends]}; keep one of them")
        first[ends] = place
        yield numbers.get(a, a), numbers.get(b, b), latency, bandwidth


Vertex = int | str


def build_graph(config: NetworkConfig, names: list[str], edges: Iterable[Edge] = ()) -> nx.Graph[Vertex]:
    """Build the graph of a network.

    Vertices are the numbers of the nodes, in the order of ``names``, then the names of the switches. Edges
    have ``latency`` [s] and ``bandwidth`` [bit/s]; ``edges`` are the links of an edge list.

    Raises
    ------
    InputError
        If the topology does not hold the nodes, or an edge list does not connect them all.
    """
    import networkx as nx

    if len(names) > config.capacity:
        raise InputError(
            f"topology {config.topology} with these parameters holds {config.capacity:.0f} nodes, "
            f"and there are {len(names)}"
        )
    graph: nx.Graph[Vertex] = nx.Graph()
    graph.add_nodes_from(range(len(names)))
    if config.topology is Topology.EDGE_LIST:
        for a, b, latency, bandwidth in named_links(edges, names):
            graph.add_edge(
                a,
                b,
                latency=config.latency if latency is None else latency,
                bandwidth=config.bandwidth if bandwidth is None else bandwidth,
            )
        _check_connected(graph, names)
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
    """Kim, Dally, Scott and Abts 2008, §3.1, with one link between any two groups.

    A group's links to the others, in the order of the others' numbers, go to its routers in turn, as many
    to each as are needed: ⌈(groups − 1) / routers⌉.
    """
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


def _check_connected(graph: nx.Graph[Vertex], names: list[str]) -> None:
    import networkx as nx

    reached = nx.node_connected_component(graph, 0)
    lost = [name for node, name in enumerate(names) if node not in reached]
    if lost:
        without = [names[node] for node in range(len(names)) if not graph.degree(node)]
        if without:
            raise InputError(f"the edge list has no link of {_some(without)}; every node needs one")
        raise InputError(f"the edge list has no route from {names[0]} to {_some(lost)}")


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
