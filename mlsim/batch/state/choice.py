"""Which of the two states a scenario needs."""

from __future__ import annotations

from mlsim.batch.room.power import PowerCap
from mlsim.batch.room.requests import Requests
from mlsim.batch.state.state import BatchState
from mlsim.platform import Machine
from mlsim.scenario import Allocator, BatchConfig, Dispatcher, Policy

__all__ = ["needs_resources", "state_for"]


def needs_resources(config: BatchConfig, requests: Requests) -> bool:
    """Tell whether a scenario needs more than a pool of nodes or cores and policies of the catalogue."""
    return (
        not requests.plain
        or config.allocator != Allocator.FIRST_FIT
        or config.dispatcher not in (Dispatcher.QUEUE, Dispatcher.REJECT)
        or not isinstance(config.policy, Policy)
    )


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
    machine, config, requests, nodes_one_by_one
        As for :class:`BatchState`.
    seed
        Of random choices of nodes.
    cap
        How much power jobs may add.
    announced
        Whether drains are announced: a pool cannot tell the nodes that a job may have from the others.
    """
    simple = not needs_resources(config, requests) and (cap is None or cap.is_even)
    if simple and not announced:
        return BatchState(machine, config, requests, nodes_one_by_one, cap)
    from mlsim.batch.state.resource_state import ResourceState  # here, as only it loads its kernels

    return ResourceState(machine, config, requests, nodes_one_by_one, seed, cap, announced)
