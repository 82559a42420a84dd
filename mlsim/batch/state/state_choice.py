"""The choice of the state that a scenario needs."""

from mlsim.batch.room.power_cap import PowerCap
from mlsim.batch.room.unit_requests import Requests
from mlsim.batch.state.batch_state import BatchState
from mlsim.batch.state.pool_state import PoolPasses, PoolRoom
from mlsim.errors import InputError
from mlsim.platform import Machine
from mlsim.scenario import BatchConfig, Policy
from mlsim.scenario.words import Allocator, Dispatcher


def needs_resources(config: BatchConfig, requests: Requests) -> bool:
    """Whether a scenario needs more than a pool of nodes or cores and policies of the catalogue."""
    return (
        not requests.plain
        or bool(requests.shared)
        or requests.node_sets
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
    state = BatchState(config, requests, machine.n_nodes, not nodes_one_by_one, most_rows)
    state.room = room = PoolRoom(state, machine, requests, cap)
    state.passes = PoolPasses(state, room)
    state.ensure_capacity()
    return state


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

    if requests.node_sets and isinstance(config.dispatcher, Dispatcher) and config.dispatcher.solves:
        raise InputError(
            f"batch.dispatcher: {config.dispatcher} plans with all nodes, and some jobs may use only some of "
            "them; allowed: queue, prb, or a dispatcher of your own"
        )
    config = expanded(config)
    state = BatchState(config, requests, machine.n_nodes, not nodes_one_by_one, machine.n_cores + 1)
    state.room = room = NodesRoom(state, machine, config, requests, seed, cap, announced)
    state.passes = NodePasses(state, room, machine, config, requests, seed)
    state.ensure_capacity()
    return state


def state_for(
    machine: Machine,
    config: BatchConfig,
    requests: Requests,
    nodes_one_by_one: bool,
    seed: int,
    cap: PowerCap | None = None,
    announced: bool = False,
) -> BatchState:
    """Make the simplest state that suffices.

    With ``nodes_one_by_one`` each node has an occupancy row of its own, as nodes may be released one by one.
    With ``announced`` drains, or sets of nodes that jobs may use, a pool is not enough: it cannot distinguish
    nodes.
    """
    simple = not needs_resources(config, requests) and (cap is None or cap.is_even)
    if simple and not announced:
        return state_on_pool(machine, config, requests, nodes_one_by_one, cap)
    return state_on_nodes(machine, config, requests, nodes_one_by_one, seed, cap, announced)
