"""Profiles of one pool, where which node a unit is on makes no difference."""

from __future__ import annotations

import numpy as np

from mlsim._arrays import Ints
from mlsim.batch.cp.problem.instance import Instance
from mlsim.batch.cp.problem.profiles import Profiles, profiles_of

__all__ = ["is_pool", "pool_of"]


def is_pool(instance: Instance) -> bool:
    """Return whether every plan on the pool of all nodes can be placed on nodes.

    It can where there is one resource type and all queued jobs ask for the same g of it a unit: a node
    with x free has x // g slots, a slot serves any unit, and running jobs only ever free slots. At
    each start enough slots are then free on some nodes, whichever units hold the others.
    """
    request = instance.queued.request
    return (
        request.shape[1] == 1
        and request.size > 0
        and bool(request[0, 0] > 0 and (request == request[0]).all())
    )


def pool_of(instance: Instance, remaining: Ints) -> Profiles:
    """Return the free slots of all nodes over time as the profile of one big node.

    Parameters
    ----------
    instance
        For which :func:`is_pool` holds.
    remaining
        Seconds until each running box is expected to end.
    """
    size = int(instance.queued.request[0, 0])
    if size == 1:
        free = int(instance.free.sum())
        ends, place = np.unique(remaining, return_inverse=True)
        held = instance.running.request[:, 0] * instance.running.units
        more = np.bincount(place, weights=held, minlength=len(ends)).astype(np.int64)
    else:
        nodes = profiles_of(instance, remaining, np.zeros(instance.n_nodes, np.int64))
        slots = nodes.room[:, :, 0] // size
        used = np.arange(slots.shape[1]) < nodes.n_steps[:, None]
        rises = np.diff(slots, axis=1, prepend=0) * nodes.sizes[:, None]
        free = int(rises[:, 0].sum())
        used[:, 0] = False
        ends, place = np.unique(nodes.times[used], return_inverse=True)
        more = np.bincount(place, weights=rises[used], minlength=len(ends)).astype(np.int64)
    times = np.concatenate(([0], ends)).astype(np.int64)
    room = np.cumsum(np.concatenate(([free], more))).astype(np.int64)
    one = np.ones(1, np.int64)
    return Profiles(
        one, np.zeros(1, np.int64), one * len(times), times[None, :], room[None, :, None], one * 0, one * 0
    )
