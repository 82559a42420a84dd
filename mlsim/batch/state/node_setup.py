"""The arrays of nodes by resources, as they are at the beginning."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlsim._runtime.arrays import Ints
from mlsim.batch.allocators.node_arrays import MOST_REFUSED, kept_words
from mlsim.batch.allocators.node_fit import sorts_of
from mlsim.batch.columns.occupancy import runs_of
from mlsim.batch.room.pool import AnnouncedDrain
from mlsim.errors import InputError
from mlsim.platform import Machine
from mlsim.scenario import BatchConfig
from mlsim.scenario.resources_section import DEVICE_PARTS
from mlsim.scenario.words import Allocator

_MOST_NODES_IN_PAIRS = 4096


def kinds_by(*columns: NDArray[Any]) -> Ints:
    """Return the kind of each node: neighbours with equal values in all columns have the same."""
    table = np.column_stack(columns)
    return np.cumsum([False, *(table[1:] != table[:-1]).any(axis=1)], dtype=np.int64)


def _resource_of_devices(machine: Machine) -> Ints:
    """Return the resource of each device of a node."""
    most = machine.capacity.max(axis=0) // machine.parts
    return np.concatenate(
        [np.repeat(r, most[r] * (name in machine.devices)) for r, name in enumerate(machine.resources)]
    )


def parts_of_devices(machine: Machine, exclusive: bool) -> Ints:
    """Return the parts of each device on each node; no devices where nodes are allocated whole."""
    of = _resource_of_devices(machine)[: 0 if exclusive else None]
    place = np.array([np.sum(of[:k] == r) for k, r in enumerate(of)], np.int64)
    return (machine.capacity[:, of] > place * DEVICE_PARTS) * np.int64(DEVICE_PARTS)


def demand_arrays(machine: Machine, config: BatchConfig) -> dict[str, Any]:
    """Sort nodes by scarce types, with the known demand; no sorts unless the allocator is demand-aware."""
    n_nodes, n_resources = machine.capacity.shape
    sort, scarce = np.full(n_nodes, -1), np.zeros((0, n_resources), np.int64)
    if config.allocator == Allocator.DEMAND_AWARE:
        sort, scarce = sorts_of(machine.capacity)
    place = np.full(n_nodes, n_nodes + 1)
    for number in range(len(scarce)):
        nodes = np.flatnonzero(sort == number)
        place[nodes] = np.arange(len(nodes), 0, -1)
    demand = np.zeros(n_resources + 1)
    if config.demand is not None:
        given = [config.demand.get(name, 0.0) for name in machine.resources]
        demand[:] = [*given, 1.0]
    return {
        "sort": sort,
        "place_in_sort": place,
        "scarce": scarce,
        "sort_size": np.bincount(sort[sort >= 0], minlength=len(scarce)).astype(np.int64),
        "demand": demand,
        "reserve": np.array([config.reserve]),
    }


def scratch(machine: Machine, allocator: str, kinds: Ints, n_sorts: int, devices: Ints) -> dict[str, Any]:
    """Make the arrays that do not grow, and those that no pass changes."""
    n_nodes, n_resources = machine.capacity.shape
    full = np.hstack([machine.capacity, devices])
    having = (machine.capacity > 0).sum(axis=0)
    near, links = _distances(machine, n_nodes if allocator == Allocator.TOPOLOGY_AWARE else 0)
    starts = runs_of(kinds)
    return {
        "kind": kinds.copy(),
        "starts": starts.copy(),
        "full_starts": starts,
        "no_starts": starts[:, :0].copy(),
        "future_starts": starts.copy(),
        "placed_starts": np.zeros_like(starts),
        "capacity": full.copy(),
        "device_of": _resource_of_devices(machine)[: devices.shape[1]],
        "placed": np.zeros(n_nodes, np.int64),
        "placed_end": np.zeros(n_nodes, np.int64),
        "placed_devices": np.zeros(n_nodes, np.int64),
        "room": np.zeros(n_nodes, np.int64),
        "run_end": np.zeros(n_nodes, np.int64),
        "heap_nodes": np.zeros(n_nodes, np.int64),
        "heap_keys": np.zeros((2, n_nodes)),
        "future": np.zeros_like(full),
        "future_total": np.zeros(n_resources, np.int64),
        "refused": np.zeros((MOST_REFUSED, n_resources + n_sorts + 3), np.int64),
        "owner": np.zeros(n_nodes, np.int64),
        "window": np.zeros_like(full),
        "near": near,
        "links": links,
        "power": np.zeros(n_nodes, np.int64),
        "used": np.zeros(n_nodes, np.int64),
        "aside": np.zeros(kept_words(n_nodes, devices.shape[1] > 0), np.int64),
        "full": full,
        "back": np.full(n_nodes, -np.inf),
        "shut": np.zeros(n_nodes, np.int64),
        "masked": np.zeros_like(full),
        "wakes": np.zeros(n_nodes, np.int64),
        "scarcity": n_nodes / np.maximum(having, 1) - 1.0,
    }


def drain_arrays(drains: Sequence[AnnouncedDrain]) -> dict[str, Any]:
    """Write drains down as the kernels see them."""
    counts = [len(drain.nodes) for drain in drains]
    return {
        "drain_times": np.array([[drain.start for drain in drains], [drain.end for drain in drains]]),
        "drain_first": np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        "drain_nodes": np.array([node for drain in drains for node in drain.nodes], np.int64),
        "drain_shuts": np.zeros(len(drains), np.int64),
    }


def _distances(machine: Machine, n_nodes: int) -> tuple[Ints, Ints]:
    """Return all nodes by their distance from each, and links between any two."""
    if n_nodes > _MOST_NODES_IN_PAIRS:
        raise InputError(
            f"batch.allocator: topology-aware looks at every pair of nodes, and there are {n_nodes} nodes; "
            f"allowed: at most {_MOST_NODES_IN_PAIRS}; try contiguous"
        )
    links = np.array(
        [machine.network.links_from(node, n_nodes) for node in range(n_nodes)], np.int64
    ).reshape(n_nodes, n_nodes)
    return np.argsort(links, axis=1, kind="stable").astype(np.int64), links
