"""The sections ``platform`` and ``platform.network``."""

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field

from mlsim.scenario import amount_types, resources_section, words
from mlsim.scenario.field_types import FieldType, Line, Natural, OneOf, Switch, number, whole
from mlsim.scenario.section_base import Section, Violation, fields_by_key

_PORTS = whole(2, 128)


def _read_ports(value: object) -> int:
    ports = _PORTS.parse(value)
    if ports % 2:
        raise ValueError(f"{ports} is odd")
    return ports


Ports = Annotated[int, FieldType("an even number, 2 to 128", _read_ports, _PORTS.json() | {"multipleOf": 2})]


class EdgeConfig(Section):
    """One link of an edge list; messages take it in both directions."""

    a: Line = Field(alias="from", examples=["n0"])
    """One end: the name of a node (group and number), or any other name for a switch."""
    b: Line = Field(alias="to", examples=["switch"])
    """The other end."""
    latency: amount_types.Seconds | None = None
    """Latency of this link (s). Default: platform.network.latency."""
    bandwidth: amount_types.Bandwidth | None = None
    """Bandwidth of this link (bit/s). Default: platform.network.bandwidth."""


class NetworkConfig(Section):
    """Network costs of a message between two PEs."""

    topology: OneOf[words.Topology] = words.Topology.FULLY_CONNECTED
    """How nodes are connected; `mlsim list topologies` explains each. A message takes the route with the
    fewest links.
    """
    bandwidth: amount_types.Bandwidth = 50e9
    """Bandwidth of a link (bit/s). Default: InfiniBand of Eleliemy 2021, §3.5."""
    latency: amount_types.Seconds = 500e-9
    """Latency of a link (s), with that of the switch it leads to; those of a route add up. Default:
    InfiniBand of Eleliemy 2021, §3.5.
    """
    intra_node_latency: amount_types.Seconds = 100e-9
    """Latency of a message between two PEs of one node (s), whatever its size. Default: our assumption for a
    transfer through shared memory.
    """
    ports: Ports | None = Field(None, examples=[4])
    """Ports k of every switch of a fat-tree, which holds k^3/4 nodes. For fat-tree, which needs it."""
    groups: Annotated[int, whole(1, 1000)] | None = Field(None, examples=[9])
    """Groups of a dragonfly. For dragonfly, which needs it."""
    routers: Annotated[int, whole(1, 64)] | None = Field(None, examples=[4])
    """Routers in each group. For dragonfly, which needs it."""
    nodes_per_router: Annotated[int, whole(1, 1000)] | None = Field(None, examples=[2])
    """Nodes at each router. For dragonfly, which needs it."""
    dimensions: amount_types.Torus | None = Field(None, examples=["4x4x2"])
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
            case words.Topology.FAT_TREE:
                return (self.ports or 0) ** 3 // 4
            case words.Topology.DRAGONFLY:
                return (self.groups or 0) * (self.routers or 0) * (self.nodes_per_router or 0)
            case words.Topology.TORUS:
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
        if self.topology is words.Topology.EDGE_LIST and len(given & {"edges", "path"}) != 1:
            found = "given together with path" if "path" in given else "missing"
            message = f"{found}; topology: edge-list needs one of edges (a list of links) and path (a file)"
            yield Violation("edges", message, ("topology", "path"))

    def _stray(self, key: str) -> str:
        own = ", ".join(TOPOLOGY_KEYS[self.topology][1])
        takes = f", which takes {own}" if own else ""
        owner = next(name for name, (_, keys) in TOPOLOGY_KEYS.items() if key in keys)
        return f"not for topology: {self.topology}{takes}; only {owner} has {key}"


TOPOLOGY_KEYS: dict[words.Topology, tuple[tuple[str, ...], tuple[str, ...]]] = {
    words.Topology.FULLY_CONNECTED: ((), ()),
    words.Topology.STAR: ((), ()),
    words.Topology.FAT_TREE: (("ports",), ("ports",)),
    words.Topology.DRAGONFLY: (("groups", "routers", "nodes_per_router"),) * 2,
    words.Topology.TORUS: (("dimensions",), ("dimensions",)),
    words.Topology.EDGE_LIST: ((), ("edges", "path")),
}
"""The keys that each topology needs, and all that it may have besides those of every network."""

OWN_KEYS = [
    key
    for key in fields_by_key(NetworkConfig)
    if key not in ("topology", "bandwidth", "latency", "intra_node_latency")
]


class PerturbationConfig(Section):
    """A slow-down of some nodes: for one stretch of time, or again and again at random."""

    nodes: amount_types.NodeChoice | None = None
    """The nodes: numbers such as 0-3 7, or the name of a group. Default: all."""
    begin: amount_types.Seconds = Field(0.0, alias="from")
    """Start (s of simulated time)."""
    end: amount_types.Duration | None = Field(None, alias="to")
    """End (s of simulated time). Default: never."""
    factor: amount_types.Factors = Field(examples=[0.5])
    """The nodes' speed is multiplied by this meanwhile; 0.5 is half as fast. Where several hold at once, all
    multiply. A range is for the random process: each of its slow-downs draws one.
    """
    mean_time_between: amount_types.Duration | None = Field(None, examples=["1 h"])
    """Makes it a random process, one for each node: mean time (s) from the end of a slow-down to the start of
    the next, exponentially distributed. Not without mean_duration.
    """
    mean_duration: amount_types.Duration | None = Field(None, examples=["1 min"])
    """Mean duration of the random slow-downs (s), exponentially distributed. Not without
    mean_time_between.
    """

    @property
    def is_random(self) -> bool:
        """Whether it is a random process."""
        return self.mean_time_between is not None

    def broken_rules(self) -> Iterator[Violation]:
        """Check the order of times, and that the keys are those of a stretch or of a process."""
        if self.end is not None and self.end <= self.begin:
            yield Violation("to", "is not after from; allowed: a later time than from", ("from",))
        lengths = {"mean_time_between": self.mean_time_between, "mean_duration": self.mean_duration}
        missing = [key for key, value in lengths.items() if value is None]
        if len(missing) == 1:
            other = next(key for key in lengths if key not in missing)
            yield Violation(missing[0], f"missing; the random process of {other} needs it", (other,))
        if len(missing) == 2 and self.factor[0] != self.factor[1]:
            message = (
                "a range is for a random process; give one number, or mean_time_between and mean_duration"
            )
            yield Violation("factor", message, tuple(lengths))


class FailureConfig(Section):
    """One node fails at one time."""

    node: Natural = Field(examples=[0])
    """Number of the node, from 0 in platform order."""
    at: amount_types.Seconds = Field(examples=["1 h"])
    """Time of the failure (s from the scenario's start). batch.on_failure sets what happens to its jobs."""
    repair: amount_types.Duration | None = None
    """Time to repair (s). Default: until the end of the run."""


class RandomFailureConfig(Section):
    """Nodes fail and are repaired again and again at random, each by itself."""

    nodes: amount_types.NodeChoice | None = None
    """The nodes: numbers such as 0-3 7, or the name of a group. Default: all."""
    mtbf: amount_types.Duration = Field(examples=["30 d"])
    """Mean time between failures of one node (s): from its repair, or time 0, to its next failure."""
    mttr: amount_types.Duration = Field(examples=["4 h"])
    """Mean time to repair a node (s), exponentially distributed."""
    shape: Annotated[float, number(0.1, 10.0)] = 1.0
    """Shape of the Weibull distribution of the times between failures. 1, the default: exponential; below 1,
    failures come in bursts (0.7 to 0.8 in Schroeder and Gibson 2006).
    """


class DrainConfig(Section):
    """Maintenance: no job starts on some nodes from a time on; jobs that run there may finish."""

    other_names: ClassVar[Mapping[str, str]] = {"from": "start", "until": "end"}

    nodes: amount_types.NodeChoice | None = None
    """The nodes: numbers such as 0-3 7, or the name of a group. Default: all."""
    start: amount_types.Seconds = Field(examples=["8 h"])
    """Start: from then on no job starts on these nodes (s from the scenario's start)."""
    end: amount_types.Duration | None = None
    """End: the nodes are back in service (s). Default: not before the end of the run."""
    announced: Switch = False
    """Whether dispatchers know the maintenance in advance and plan around it: no job that would still be
    running starts on these nodes.
    """
    announced_at: amount_types.Seconds = Field(0.0, examples=["1 d"])
    """Time of the announcement (s from the scenario's start). Needs announced: on."""

    def broken_rules(self) -> Iterator[Violation]:
        """Check the order of times."""
        if self.end is not None and self.end <= self.start:
            yield Violation("end", "is not after start; allowed: a later time than start", ("start",))
        if self.announced_at > 0.0 and not self.announced:
            message = "this drain is not announced; write announced: on, or take it out"
            yield Violation("announced_at", message, ("announced",))
        if self.announced_at > self.start:
            message = "is after start; allowed: start, or an earlier time"
            yield Violation("announced_at", message, ("start",))


DEFAULT_SPEED = 1e9


def _core_speed(data: dict[str, Any]) -> float:
    """Return the speed of a core when only the node's is given, or neither."""
    node_speed: float | None = data["node_speed"]
    return DEFAULT_SPEED if node_speed is None else node_speed / int(data["cores"])


class NodeGroup(Section):
    """Nodes of one sort."""

    name: Line = Field(examples=["xeon"])
    """Name of the group; its nodes are called name0, name1, ... Unique."""
    count: Annotated[int, whole(1, 10_000_000)] = Field(examples=[16])
    """Number of nodes."""
    cores: Annotated[int, whole(1, 1_000_000)] = Field(examples=[20])
    """Cores per node; a core is a PE."""
    node_speed: amount_types.Speed | None = None
    """Speed of a whole node, as an alternative to speed: node_speed = speed x cores."""
    speed: amount_types.Speed = Field(default_factory=_core_speed, examples=["1 GFLOP/s"])
    """Speed of one core (FLOP/s). Default: node_speed / cores if that is given, else 1 GFLOP/s; with one
    group the value matters only for costs in FLOP.
    """
    memory: amount_types.Size | None = Field(None, examples=["16 GB"])
    """Memory per node (B, or with a unit: 64 GB, 64 GiB, 257000 MiB), counted in whole MB. Default: memory is
    no resource, and no job asks for it.
    """
    resources: resources_section.ResourceAmounts = Field(default_factory=resources_section.Amounts)
    """Other resources of a node, by names of your own: {gpu: 2}. A group that does not name one has none of
    it.
    """

    power: resources_section.PowerConfig | None = None
    """Power of a node. Default: unknown, and no energy is computed."""

    @property
    def core_speed(self) -> float:
        """Speed of one core (FLOP/s), however it was given."""
        return self.speed

    def broken_rules(self) -> Iterator[Violation]:
        """Check that the speed is given for a core or for a node, not for both."""
        if self.node_speed is not None and "speed" in self.model_fields_set:
            message = "given together with node_speed; give one of them (node_speed = speed x cores)"
            yield Violation("speed", message, ("node_speed", "cores"))


def _too_small(network: NetworkConfig, nodes: int) -> tuple[str, str]:
    """Return the key that determines the capacity of a topology, and why it does not hold so many nodes."""
    capacity = int(network.capacity)
    match network.topology:
        case words.Topology.FAT_TREE:
            key, name = "ports", f"a fat-tree of switches with {network.ports} ports"
            ports = next((ports for ports in range(2, 129, 2) if ports**3 // 4 >= nodes), None)
            advice = f"{ports} ports hold {ports**3 // 4}" if ports else "128 ports, the most, hold 524288"
        case words.Topology.DRAGONFLY:
            key, routers, each = "groups", network.routers or 1, network.nodes_per_router or 1
            name = f"a dragonfly of {network.groups} groups x {routers} routers x {each} nodes"
            groups = -(-nodes // (routers * each))
            advice = f"{groups} such groups hold {groups * routers * each}"
        case _:
            first, *others = network.dimensions or (1,)
            key, name = "dimensions", f"a torus of {'x'.join(map(str, (first, *others)))}"
            layer = capacity // first
            length = -(-nodes // layer)
            advice = f"{'x'.join(map(str, [length, *others]))} holds {length * layer}"
    return key, f"{name} holds {capacity} nodes, and there are {nodes}; {advice}"


def _first_speed(data: dict[str, Any]) -> float:
    groups: tuple[NodeGroup, ...] = data["nodes"]
    return groups[0].speed if groups else DEFAULT_SPEED


class PlatformConfig(Section):
    """The machine."""

    other_names: ClassVar[Mapping[str, str]] = {
        "maintenance": "drains",
        "licenses": "shared",
        "licences": "shared",
    }

    nodes: tuple[NodeGroup, ...] = Field(json_schema_extra={"minItems": 1})
    """Node groups, one or more; nodes are numbered and allocated in this order."""
    shared: resources_section.SharedShares | None = Field(
        None, examples=[{"matlab": 20, "burst_buffer": "400 TB"}]
    )
    """What the machine has as a whole, by names of your own: licences, a burst buffer, bandwidth to a file
    system. A job asks for an amount in all, whatever its nodes, and holds it until it ends. Sizes are counted
    in whole MB, bandwidths in whole Mbit/s. Default: nothing.
    """
    network: NetworkConfig = Field(default_factory=NetworkConfig)
    """The network between the nodes."""
    reference_speed: amount_types.Speed = Field(default_factory=_first_speed, examples=["1 GFLOP/s"])
    """Core speed (FLOP/s) at which run times of the log and costs in seconds hold. Default: the speed of the
    first group.
    """
    perturbations: tuple[PerturbationConfig, ...] = ()
    """Slow-downs of nodes while loops run on them. Needs application.model: loop."""

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return sum(group.count for group in self.nodes)

    failures: tuple[FailureConfig, ...] = ()
    """Nodes that fail, each at a given time; none by default."""
    random_failures: tuple[RandomFailureConfig, ...] = ()
    """Nodes that fail at random; none by default. The scenario's seed decides when."""
    drains: tuple[DrainConfig, ...] = ()
    """Nodes taken out of use for maintenance; none by default."""

    @property
    def shares(self) -> resources_section.SharedAmounts:
        """Machine-wide resources."""
        return self.shared or resources_section.SharedAmounts()

    @property
    def resource_names(self) -> tuple[str, ...]:
        """Names of the resources beside cores: memory first, then as the groups name them."""
        memory = (resources_section.MEMORY,) if any(group.memory is not None for group in self.nodes) else ()
        return memory + tuple(dict.fromkeys(name for group in self.nodes for name in group.resources))

    @property
    def device_names(self) -> tuple[str, ...]:
        """Names of the resources that are devices."""
        given = [amounts for group in self.nodes for amounts in group.resources.items()]
        return tuple(dict.fromkeys(name for name, n in given if isinstance(n, resources_section.Devices)))

    def broken_rules(self) -> Iterator[Violation]:
        """Check groups, that the network holds all nodes, and that perturbed and failing nodes are there."""
        yield from self._broken_groups()
        yield from self._broken_shared()
        yield from self._broken_devices()
        if self.n_nodes > self.network.capacity:
            key, message = _too_small(self.network, self.n_nodes)
            yield Violation(f"network.{key}", message, ("nodes", "network"))
        for row, failure in enumerate(self.failures):
            if failure.node >= self.n_nodes:
                message = f"there is no node {failure.node}; allowed: 0 to {self.n_nodes - 1}"
                counts = tuple(f"nodes.{group}.count" for group in range(len(self.nodes)))
                yield Violation(f"failures.{row}.node", message, counts)
        sizes = [(group.name, group.count) for group in self.nodes]
        for key in ("perturbations", "random_failures", "drains"):
            for row, entry in enumerate(getattr(self, key)):
                try:
                    amount_types.node_ranges(entry.nodes, sizes)
                except ValueError as error:
                    yield Violation(f"{key}.{row}.nodes", str(error), ("nodes",))

    def _broken_shared(self) -> Iterator[Violation]:
        for row, group in enumerate(self.nodes):
            for name in self.shares:
                if name in group.resources:
                    text = f"{name} is a resource of the nodes of {group.name}; give one of them another name"
                    yield Violation("shared", text, (f"nodes.{row}.resources",))

    def _broken_devices(self) -> Iterator[Violation]:
        most = resources_section.MOST_DEVICES
        for row, group in enumerate(self.nodes):
            for name in self.device_names:
                count = group.resources.get(name, 0)
                if count > 0 and not isinstance(count, resources_section.Devices):
                    text = f"{name}: {count}, and other groups have devices; write {name}: {count} devices"
                    yield Violation(f"nodes.{row}.resources", text)
        each = [max(group.resources.get(name, 0) for group in self.nodes) for name in self.device_names]
        if sum(each) > most:
            text = f"{sum(each)} devices on a node; allowed: at most {most}, of all resources"
            yield Violation("nodes", text)

    def _broken_groups(self) -> Iterator[Violation]:
        if not self.nodes:
            message = f"empty; a list of entries with the keys: {', '.join(NodeGroup.model_fields)}"
            yield Violation("nodes", message)
        powers = [group.power is None for group in self.nodes]
        if any(powers) and not all(powers):
            row = powers.index(True)
            message = "missing; other groups give theirs. Give the power of all groups, or of none"
            yield Violation(f"nodes.{row}.power", message, (f"nodes.{powers.index(False)}.power",))
        names = [group.name for group in self.nodes]
        for row, name in enumerate(names):
            if name in names[:row]:
                first = names.index(name)
                message = f"'{name}' is already the name of nodes.{first}; give each group its own name"
                yield Violation(f"nodes.{row}.name", message, (f"nodes.{first}.name",))
        given = [group.memory is not None for group in self.nodes]
        for row, group in enumerate(self.nodes):
            if group.memory is None and any(given):
                first = given.index(True)
                message = f"missing; nodes.{first} has a memory, so every group needs one"
                yield Violation(f"nodes.{row}.memory", message, (f"nodes.{first}.memory",))
            elif group.memory is not None and resources_section.megabytes(group.memory) == 0:
                yield Violation(f"nodes.{row}.memory", "less than 1 MB; allowed: 1 MB or more")
