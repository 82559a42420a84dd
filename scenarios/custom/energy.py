"""An energy-aware dispatcher: few nodes awake, and never more power than there is.

A node with nothing on it sleeps; one that is awake draws IDLE_WATT and CORE_WATT for every core in use. Jobs
start in order of arrival, on nodes that are awake already where there is room, as long as the machine stays
under CAP_WATT. A job that would exceed the cap lets those behind it go on, unless it has waited for PATIENCE.
"""

import numpy as np

from mlsim.batch.view import Start

IDLE_WATT = 100.0
CORE_WATT = 20.0
CAP_WATT = 1500.0
PATIENCE = 3600.0  # s


class PowerCapped:
    """Best-fit by power: a node that is awake costs less than one that sleeps."""

    def dispatch(self, view):
        """Answer with the jobs that the power allows."""
        free = view.free.copy()
        for job in range(len(view.waiting)):
            request, units = view.waiting.request[job], int(view.waiting.units[job])
            nodes = awake_first(units, request, free, view.capacity)
            if nodes is not None:
                after = free.copy()
                np.subtract.at(after, nodes, request)
                if power(after, view.capacity) <= CAP_WATT:
                    free = after
                    yield Start(job, nodes, backfilled=job > 0)
                    continue
            if view.now - view.waiting.submit_time[job] > PATIENCE:
                return


def power(free, capacity):
    """Give what the machine draws, in watts."""
    used = capacity[:, 0] - free[:, 0]
    return IDLE_WATT * np.count_nonzero(used) + CORE_WATT * used.sum()


def awake_first(units, request, free, capacity):
    """Give the node of each unit: the busiest first, so that idle ones go on sleeping."""
    asked = request > 0
    room = (free[:, asked] // request[asked]).min(axis=1)
    order = np.argsort(free[:, 0] - capacity[:, 0], kind="stable")
    nodes = np.repeat(order, room[order])[:units]
    return nodes if len(nodes) == units else None
