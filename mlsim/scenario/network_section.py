"""The section ``platform.network``."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field

from mlsim.scenario.amount_types import Bandwidth, Seconds
from mlsim.scenario.field_types import FieldType, Line, OneOf, Whole
from mlsim.scenario.list_types import Torus
from mlsim.scenario.section_base import Section, Violation, fields_by_key
from mlsim.scenario.words import Topology


class Ports(FieldType[int]):
    """Ports of a switch: an even number."""

    _whole = Whole(2, 128)

    @property
    def allowed(self) -> str:
        """What is accepted, in words."""
        return "an even number, 2 to 128"

    def parse(self, value: object) -> int:
        """Read an even number."""
        number = self._whole.parse(value)
        if number % 2:
            raise ValueError(f"{number} is odd; allowed: {self.allowed}")
        return number

    def json(self) -> dict[str, Any]:
        """Return the JSON schema of what is accepted."""
        return self._whole.json() | {"multipleOf": 2}


class EdgeConfig(Section):
    """One link of an edge list; messages take it in both directions."""

    a: Line = Field(alias="from", examples=["n0"])
    """One end: the name of a node (group and number), or any other name for a switch."""
    b: Line = Field(alias="to", examples=["switch"])
    """The other end."""
    latency: Seconds | None = None
    """Latency of this link (s). Default: platform.network.latency."""
    bandwidth: Bandwidth | None = None
    """Bandwidth of this link (bit/s). Default: platform.network.bandwidth."""


class NetworkConfig(Section):
    """What a message between two PEs costs."""

    topology: OneOf[Topology] = Topology.FULLY_CONNECTED
    """How nodes are connected; `mlsim list topologies` explains each. A message takes the route with the
    fewest links.
    """
    bandwidth: Bandwidth = 50e9
    """Bandwidth of a link (bit/s). Default: InfiniBand of Eleliemy 2021, §3.5."""
    latency: Seconds = 500e-9
    """Latency of a link (s), with that of the switch it leads to; those of a route add up. Default:
    InfiniBand of Eleliemy 2021, §3.5.
    """
    intra_node_latency: Seconds = 100e-9
    """Latency of a message between two PEs of one node (s), whatever its size. Default: our assumption for a
    transfer through shared memory.
    """
    ports: Annotated[int, Ports()] | None = Field(None, examples=[4])
    """Ports k of every switch of a fat-tree, which holds k^3/4 nodes. For fat-tree, which needs it."""
    groups: Annotated[int, Whole(1, 1000)] | None = Field(None, examples=[9])
    """Groups of a dragonfly. For dragonfly, which needs it."""
    routers: Annotated[int, Whole(1, 64)] | None = Field(None, examples=[4])
    """Routers in each group. For dragonfly, which needs it."""
    nodes_per_router: Annotated[int, Whole(1, 1000)] | None = Field(None, examples=[2])
    """Nodes at each router. For dragonfly, which needs it."""
    dimensions: Torus | None = Field(None, examples=["4x4x2"])
    """Lengths of the torus, a node at each place, numbered along the last dimension first. For torus, which
    needs it.
    """
    edges: tuple[EdgeConfig, ...] = ()
    """The links. For edge-list, which needs it or path."""
    path: Line | None = Field(None, examples=["links.csv"])
    """File of links, one a line: from,to and, if they differ from this section's, latency,bandwidth. For
    edge-list, instead of edges. Looked up like workload.path.
    """

    @property
    def capacity(self) -> float:
        """The most nodes that the topology holds; infinity if there is no limit."""
        match self.topology:
            case Topology.FAT_TREE:
                return (self.ports or 0) ** 3 // 4
            case Topology.DRAGONFLY:
                return (self.groups or 0) * (self.routers or 0) * (self.nodes_per_router or 0)
            case Topology.TORUS:
                return math.prod(self.dimensions or (0,))
            case _:
                return math.inf

    def broken_rules(self) -> Iterator[Violation]:
        """Check that the topology has the keys it needs, and no others."""
        needed, possible = TOPOLOGY_KEYS[self.topology]
        given = {key for key in OWN_KEYS if getattr(self, key) not in (None, ())}
        for key in needed:
            if key not in given:
                yield Violation(key, f"missing; topology: {self.topology} needs it", ("topology",))
        for key in OWN_KEYS:
            if key in given and key not in possible:
                yield Violation(key, self._stray(key), ("topology",))
        if self.topology is Topology.EDGE_LIST and len(given & {"edges", "path"}) != 1:
            found = "given together with path" if "path" in given else "missing"
            message = f"{found}; topology: edge-list needs one of edges (a list of links) and path (a file)"
            yield Violation("edges", message, ("topology", "path"))

    def _stray(self, key: str) -> str:
        own = ", ".join(TOPOLOGY_KEYS[self.topology][1])
        takes = f", which takes {own}" if own else ""
        owner = next(name for name, (_, keys) in TOPOLOGY_KEYS.items() if key in keys)
        return f"not for topology: {self.topology}{takes}; only {owner} has {key}"


TOPOLOGY_KEYS: dict[Topology, tuple[tuple[str, ...], tuple[str, ...]]] = {
    Topology.FULLY_CONNECTED: ((), ()),
    Topology.STAR: ((), ()),
    Topology.FAT_TREE: (("ports",), ("ports",)),
    Topology.DRAGONFLY: (("groups", "routers", "nodes_per_router"),) * 2,
    Topology.TORUS: (("dimensions",), ("dimensions",)),
    Topology.EDGE_LIST: ((), ("edges", "path")),
}
"""The keys that each topology needs, and all that it may have besides those of every network."""

OWN_KEYS = [
    key
    for key in fields_by_key(NetworkConfig)
    if key not in ("topology", "bandwidth", "latency", "intra_node_latency")
]
