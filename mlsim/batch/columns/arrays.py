"""Everything a pass reads and changes, as one tuple of arrays, and where things are in them."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numba.np.numpy_support import carray
from numpy.typing import NDArray

from mlsim._jit import kernel, pointer

__all__ = [
    "N_COUNTS",
    "N_RULES",
    "Arrays",
    "arrays_at",
    "float_columns_at",
    "floats_at",
    "int_columns_at",
    "ints_at",
    "places_of",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Places in the array of counts.
QUEUED, RUNNING, FREE, USED_ROWS, HINT, EARLY, SEGMENTS = range(7)
N_COUNTS: Final = 7

# Places in the array of rules.
POLICY, ORDER, BACKFILL, RESERVATIONS, EXCLUSIVE, MERGE, PER_EVENT, NODES, LOOKS_BEHIND = range(9)
EASY_AS, KEEPS, ONE_ROUND, ENDS_FIRST, KILLS = range(9, 14)
N_RULES: Final = 14

# Values of the rule for backfilling.
NONE, GREEDY, EASY, CONSERVATIVE = range(4)

# Values of the rule for whose EASY it is.
STANDARD, ACCASIM, CQSIM, BATSCHED = range(4)


class Arrays(NamedTuple):
    """The state of the batch level as the kernels see it.

    Attributes
    ----------
    rules : int64
        Policy and order of backfilling (codes), backfilling, reservations, whole nodes or cores, whether
        occupancy rows of neighbouring nodes are merged, a pass after every event, whether it matters
        which nodes a job gets (else units are only counted), whether this pass looks behind the first job
        that does not fit, whose EASY it is (code), whether reservations are kept from pass to pass, whether
        they are compressed in one round only, whether ends of a time come before its submissions with a pass
        after every event, and whether jobs are killed at the end of their walltime.
    parameters : float64
        What keys read besides the jobs; :func:`mlsim.batch.order.policies.parameters_of`.
    floats, ints
        Columns of the jobs in the system; :class:`mlsim.batch.columns.table.JobTable`.
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
        Occupancy; :class:`mlsim.batch.columns.occupancy.OccupancyLog`.
    shares : float64
        Usage of each owner; :class:`mlsim.batch.order.fairshare.Accounts`.
    profile_times : float64
    profile_free : int64
        Units expected to be free from each of these times on.
    started : int64
        Receives the slots of the jobs that start, in order.
    """

    rules: Ints
    parameters: Floats
    floats: Floats
    ints: Ints
    queue: Ints
    spare: Ints
    running: Ints
    counts: Ints
    free: Ints
    cores: Ints
    rows: Ints
    times: Floats
    shares: Floats
    profile_times: Floats
    profile_free: Ints
    started: Ints


def places_of(arrays: tuple[Floats | Ints, ...]) -> Ints:
    """Give where arrays are in memory, for :func:`arrays_at` and the like: address and shape of each."""
    places = np.zeros((len(arrays), 4), np.int64)
    for k, array in enumerate(arrays):
        assert array.flags.c_contiguous
        places[k, 0], places[k, 1 : 1 + array.ndim] = array.ctypes.data, array.shape
    return places


@kernel(inline="always")
def arrays_at(places: Ints) -> Arrays:
    """Find the arrays again, inside a kernel; somebody must own them meanwhile."""
    return Arrays(
        rules=ints_at(places[0]),
        parameters=floats_at(places[1]),
        floats=float_columns_at(places[2]),
        ints=int_columns_at(places[3]),
        queue=ints_at(places[4]),
        spare=ints_at(places[5]),
        running=ints_at(places[6]),
        counts=ints_at(places[7]),
        free=ints_at(places[8]),
        cores=ints_at(places[9]),
        rows=int_columns_at(places[10]),
        times=float_columns_at(places[11]),
        shares=float_columns_at(places[12]),
        profile_times=floats_at(places[13]),
        profile_free=ints_at(places[14]),
        started=ints_at(places[15]),
    )


@kernel(inline="always")
def ints_at(place: Ints) -> Ints:
    """Find an array of int64 by its row of :func:`places_of`."""
    return carray(pointer(place[0]), (place[1],), np.int64)


@kernel(inline="always")
def int_columns_at(place: Ints) -> Ints:
    """Find an array of int64 with two dimensions."""
    return carray(pointer(place[0]), (place[1], place[2]), np.int64)


@kernel(inline="always")
def floats_at(place: Ints) -> Floats:
    """Find an array of float64."""
    return carray(pointer(place[0]), (place[1],), np.float64)


@kernel(inline="always")
def float_columns_at(place: Ints) -> Floats:
    """Find an array of float64 with two dimensions."""
    return carray(pointer(place[0]), (place[1], place[2]), np.float64)
