"""Names of the network topologies."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TopologyEntry:
    """One topology."""

    name: str
    """The word in a scenario file."""
    meaning: str
    """How nodes are connected."""
    keys: tuple[str, ...]
    """Keys of ``platform.network`` that only it has."""
    holds: str
    """The most nodes it holds."""
    links: str
    """Links between two nodes, on the route with the fewest."""
    reference: str
    """Where it comes from; empty for what everybody knows."""


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
