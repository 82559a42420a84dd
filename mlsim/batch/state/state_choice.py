"""Which state a scenario needs."""

from __future__ import annotations

from mlsim.batch.room.power_cap import PowerCap
from mlsim.batch.room.unit_requests import Requests
from mlsim.batch.state.batch_columns import BatchColumns
from mlsim.batch.state.batch_state import BatchState
from mlsim.batch.state.pool_state import PoolPasses, PoolRoom
from mlsim.platform import Machine
from mlsim.scenario import Allocator, BatchConfig, Dispatcher, Policy


def needs_resources(config: BatchConfig, requests: Requests) -> bool:
    """Whether a scenario needs more than a pool of nodes or cores and policies of the catalogue."""
    return (
        not requests.plain
        or bool(requests.shared)
        or config.allocator != Allocator.FIRST_FIT
        or config.names_nodes
        or config.dispatcher not in (Dispatcher.QUEUE, Dispatcher.REJECT)
        or not isinstance(config.policy, Policy)
    )


def state_on_pool(
    machine: Machine,
    config: BatchConfig,
    requests: Requests,
    nodes_one_by_one: bool,
    cap: PowerCap | None = None,
) -> BatchState:
    """Make a state on a pool of units; the parameters are those of :func:`state_for`."""
    # A pass writes no more rows than there are units on the machine.
    most_rows = requests.capacity + 1
    jobs = BatchColumns(config, requests.exclusive, not nodes_one_by_one, most_rows)
    room = PoolRoom(jobs, machine, requests, cap)
    return BatchState(jobs, room, PoolPasses(jobs, room), requests, machine.n_nodes)


def state_on_nodes(
    machine: Machine,
    config: BatchConfig,
    requests: Requests,
    nodes_one_by_one: bool,
    seed: int = 0,
    cap: PowerCap | None = None,
    announced: bool = False,
) -> BatchState:
    """Make a state on nodes by resources; the parameters are those of :func:`state_for`."""
    # Here, as only they load their kernels.
    from mlsim.batch.state.node_passes import NodePasses, expanded
    from mlsim.batch.state.node_state import NodesRoom

    config = expanded(config)
    jobs = BatchColumns(config, requests.exclusive, not nodes_one_by_one, machine.n_cores + 1)
    room = NodesRoom(jobs, machine, config, requests, seed, cap, announced)
    passes = NodePasses(jobs, room, machine, config, requests, seed)
    return BatchState(jobs, room, passes, requests, machine.n_nodes)


def state_for(
    machine: Machine,
    config: BatchConfig,
    requests: Requests,
    nodes_one_by_one: bool,
    seed: int,
    cap: PowerCap | None = None,
    announced: bool = False,
) -> BatchState:
    """Make the simplest state that does.

    Parameters
    ----------
    machine
        The nodes.
    config
        The dispatcher.
    requests
        How jobs ask for room.
    nodes_one_by_one
        Whether nodes may be given back one by one, so that each has an occupancy row of its own.
    seed
        Of random choices of nodes.
    cap
        How much power jobs may add; None: as much as they like.
    announced
        Whether drains are announced: a pool cannot tell the nodes that a job may have from the others.
    """
    simple = not needs_resources(config, requests) and (cap is None or cap.is_even)
    if simple and not announced:
        return state_on_pool(machine, config, requests, nodes_one_by_one, cap)
    return state_on_nodes(machine, config, requests, nodes_one_by_one, seed, cap, announced)
