"""Everything a pass reads and changes, as one tuple of arrays, and where things are in them."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["N_COUNTS", "N_RULES", "Arrays"]

# Places in the array of counts.
QUEUED, RUNNING, FREE, USED_ROWS, HINT, EARLY, SEGMENTS = range(7)
N_COUNTS: Final = 7

# Places in the array of rules.
POLICY, ORDER, BACKFILL, RESERVATIONS, EXCLUSIVE, MERGE, PER_EVENT, NODES, LOOKS_BEHIND = range(9)
N_RULES: Final = 9

# Values of the rule for backfilling.
NONE, GREEDY, EASY, CONSERVATIVE = range(4)


class Arrays(NamedTuple):
    """The state of the batch level as the kernels see it.

    Attributes
    ----------
    rules : int64
        Policy and order of backfilling (codes), backfilling, reservations, whole nodes or cores, whether
        occupancy rows of neighbouring nodes are merged, a pass after every event, whether it matters
        which nodes a job gets (else units are only counted), and whether this pass looks behind the first
        job that does not fit.
    parameters : float64
        What keys read besides the jobs; :func:`mlsim.batch.policies.parameters_of`.
    floats, ints
        Columns of the jobs in the system; :class:`mlsim.batch.table.JobTable`.
    queue, running : int64
        Slots of the waiting jobs in the order of the queue, and of the running ones by expected end.
    spare : int64
        Room for sorting, twice as long as the queue.
    counts : int64
        Jobs waiting and running, free units, occupancy rows used, the first node that may have room, whether
        units came back earlier than expected, length of the profile.
    free, cores : int64
        Free and all cores of each node.
    rows, times
        Occupancy; :class:`mlsim.batch.occupancy.OccupancyLog`.
    shares : float64
        Usage of each owner; :class:`mlsim.batch.fairshare.Accounts`.
    profile_times : float64
    profile_free : int64
        Units expected to be free from each of these times on.
    started : int64
        Receives the slots of the jobs that start, in order.
    """

    rules: NDArray[np.int64]
    parameters: NDArray[np.float64]
    floats: NDArray[np.float64]
    ints: NDArray[np.int64]
    queue: NDArray[np.int64]
    spare: NDArray[np.int64]
    running: NDArray[np.int64]
    counts: NDArray[np.int64]
    free: NDArray[np.int64]
    cores: NDArray[np.int64]
    rows: NDArray[np.int64]
    times: NDArray[np.float64]
    shares: NDArray[np.float64]
    profile_times: NDArray[np.float64]
    profile_free: NDArray[np.int64]
    started: NDArray[np.int64]
