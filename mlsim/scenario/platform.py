"""The ``platform`` section: node groups, network, and the speed that run times are measured at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field

from mlsim.scenario.amounts import Bandwidth, Seconds, Speed
from mlsim.scenario.kinds import Line, Whole, WordKind
from mlsim.scenario.section import BrokenRule, Section
from mlsim.scenario.words import Topology

__all__ = ["NetworkConfig", "NodeGroup", "PlatformConfig"]

DEFAULT_SPEED = 1e9


def _core_speed(data: dict[str, Any]) -> float:
    """Give the speed of a core when only the node's is given, or neither."""
    node_speed: float | None = data["node_speed"]
    return DEFAULT_SPEED if node_speed is None else node_speed / int(data["cores"])


class NodeGroup(Section):
    """Nodes of one sort."""

    name: Line = Field(
        description="Name of the group; its nodes are called name0, name1, ... Unique.", examples=["xeon"]
    )
    count: Annotated[int, Whole(1, 10_000_000)] = Field(description="Number of nodes.", examples=[16])
    cores: Annotated[int, Whole(1, 1_000_000)] = Field(
        description="Cores a node; a core is a PE.", examples=[20]
    )
    node_speed: Speed | None = Field(
        None, description="Speed of a whole node, as an alternative to speed: node_speed = speed x cores."
    )
    speed: Speed = Field(
        default_factory=_core_speed,
        description="Speed of one core (FLOP/s). Default: node_speed / cores if that is given, else "
        "1 GFLOP/s; with one group the value matters only for costs in FLOP.",
        examples=["1 GFLOP/s"],
    )

    @property
    def core_speed(self) -> float:
        """Speed of one core (FLOP/s), however it was given."""
        return self.speed

    def broken_rules(self) -> Iterator[BrokenRule]:
        """Check that the speed is given for a core or for a node, not for both."""
        if self.node_speed is not None and "speed" in self.model_fields_set:
            yield BrokenRule(
                "speed",
                "given together with node_speed; give one of them (node_speed = speed x cores)",
                ("node_speed", "cores"),
            )


class NetworkConfig(Section):
    """What a message between two PEs costs."""

    topology: Annotated[Topology, WordKind(Topology)] = Field(
        Topology.FULLY_CONNECTED, description="How nodes are connected: every pair by a link of its own."
    )
    bandwidth: Bandwidth = Field(
        50e9, description="Bandwidth of a link (bit/s). Default: InfiniBand of Eleliemy 2021, §3.5."
    )
    latency: Seconds = Field(
        500e-9,
        description="Latency of a message between two nodes (s). Default: InfiniBand of Eleliemy 2021, §3.5.",
    )
    intra_node_latency: Seconds = Field(
        100e-9,
        description="Latency of a message between two PEs of one node (s), whatever its size. "
        "Default: our assumption for a transfer through shared memory.",
    )


def _first_speed(data: dict[str, Any]) -> float:
    groups: tuple[NodeGroup, ...] = data["nodes"]
    return groups[0].speed if groups else DEFAULT_SPEED


class PlatformConfig(Section):
    """The machine."""

    nodes: tuple[NodeGroup, ...] = Field(
        description="Node groups, one or more; nodes are numbered and allocated in this order.",
        json_schema_extra={"minItems": 1},
    )
    network: NetworkConfig = Field(
        default_factory=NetworkConfig, description="The network between the nodes."
    )
    reference_speed: Speed = Field(
        default_factory=_first_speed,
        description="Core speed (FLOP/s) at which run times of the log and costs in seconds hold. "
        "Default: the speed of the first group.",
        examples=["1 GFLOP/s"],
    )

    def broken_rules(self) -> Iterator[BrokenRule]:
        """Check that there are nodes, and that group names are unique."""
        if not self.nodes:
            message = f"empty; a list of entries with the keys: {', '.join(NodeGroup.model_fields)}"
            yield BrokenRule("nodes", message)
        names = [group.name for group in self.nodes]
        for row, name in enumerate(names):
            if name in names[:row]:
                first = names.index(name)
                yield BrokenRule(
                    f"nodes.{row}.name",
                    f"'{name}' is already the name of nodes.{first}; give each group its own name",
                    (f"nodes.{first}.name",),
                )
