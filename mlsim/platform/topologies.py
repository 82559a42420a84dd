"""Topologies as graphs: nodes are numbers, switches are texts, links have a latency and a bandwidth.

Nodes are attached in the order of their numbers; ports that are left over stay empty.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import combinations, product
from typing import TYPE_CHECKING

from mlsim.errors import InputError
from mlsim.platform.edges import Edge, named_links
from mlsim.scenario import NetworkConfig, Topology

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["Vertex", "build_graph"]

Vertex = int | str


def build_graph(config: NetworkConfig, names: list[str], edges: Iterable[Edge] = ()) -> nx.Graph[Vertex]:
    """Build the graph of a network.

    Parameters
    ----------
    config
        Topology, its parameters, and latency and bandwidth of links that have none of their own.
    names
        The nodes' names; node i is vertex i.
    edges
        The links of an edge list.

    Returns
    -------
    Graph
        Vertices are the nodes' numbers, in order, and then the switches' names. Edges have ``latency``
        (s) and ``bandwidth`` (bit/s).

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
