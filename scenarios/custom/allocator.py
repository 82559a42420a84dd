"""An allocator of one's own: the fewest nodes, taken from the end of the machine."""

import numpy as np


class FewestNodes:
    """Fills the nodes with most room first; of equal ones the last."""

    def allocate(self, units, request, free, capacity):
        """Give the node of each unit, or None where there is no room for all."""
        asked = request > 0
        room = (free[:, asked] // request[asked]).min(axis=1)
        order = np.lexsort((-np.arange(len(room)), -room))
        nodes = np.repeat(order, room[order])[:units]
        return nodes if len(nodes) == units else None
