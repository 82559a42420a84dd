"""The jobs and the queue as a pass reads and changes them: one tuple of arrays, and where things are."""

from __future__ import annotations

from typing import Final, NamedTuple

from mlsim.batch.columns.packing import FloatColumns, Floats, IntColumns, Ints, by_address

__all__ = ["N_COUNTS", "N_RULES", "Columns", "columns_at"]

# Places in the array of counts.
QUEUED, RUNNING, FREE, USED_ROWS, EARLY, LEAST_UNITS = range(6)
# Of the profile: whether it is kept since the last pass, its first segment, segments made so far, the first
# one that is not in use, whether reservations could move that nobody has looked at; gaps since compression
# began, and the least and greatest class of size of waiting jobs.
KEPT, FIRST, SEGMENTS, UNUSED, UNSEEN, GAPS, LEAST_SIZE, GREATEST_SIZE = range(6, 14)
# Blocks of running jobs that are in use.
BLOCKS: Final = 14
N_COUNTS: Final = 15

# Places in the array of rules.
POLICY, ORDER, BACKFILL, RESERVATIONS, EXCLUSIVE, MERGE, PER_EVENT, NODES, ALLOW_BACKFILL = range(9)
EASY_AS, KEEPS, ONE_ROUND, ENDS_FIRST, KILLS = range(9, 14)
N_RULES: Final = 14

# Values of the rule for backfilling.
NONE, GREEDY, EASY, CONSERVATIVE = range(4)

# Values of the rule for whose EASY it is.
STANDARD, ACCASIM, CQSIM, BATSCHED = range(4)


class Columns(NamedTuple):
    """The state of the batch level, but for the room of the machine, as the kernels see it.

    Attributes
    ----------
    rules : int64
        Policy and order of backfilling (codes), backfilling, reservations, whole nodes or cores, whether
        occupancy rows of neighbouring nodes are merged, a pass after every event, whether it matters
        which nodes a job gets (else units are only counted), whether this pass may backfill, whose EASY it is
        (code), whether reservations are kept from pass to pass, whether they are compressed in one round
        only, whether ends of a time come before its submissions with a pass after every event, and whether
        jobs are killed at the end of their walltime.
    parameters : float64
        What keys read besides the jobs; :func:`mlsim.batch.order.policies.parameters_of`.
    floats, ints
        Columns of the jobs in the system; :class:`mlsim.batch.columns.table.JobTable`.
    queue : int64
        Slots of the waiting jobs in the order of the queue.
    running : int64
    blocks : int64, shape (2, any)
        Slots of the running jobs by expected end; :mod:`mlsim.batch.columns.running`.
    spare : int64
        Room for sorting, twice as long as the queue.
    counts : int64
        Jobs waiting and running, free units, occupancy rows used, how often units came back earlier than
        expected since the last pass, fewer units than which no waiting job asks for; and of the profile and
        the running jobs, as above.
    rows, times
        Occupancy; :class:`mlsim.batch.columns.occupancy.OccupancyLog`.
    shares : float64
        Usage of each owner; :class:`mlsim.batch.order.fairshare.Accounts`.
    profile_times : float64
    profile_free : int64
        Segments of the profile: when each begins, and units expected to be free from then on.
    profile_next, profile_before, profile_uses : int64
        The segments after and before each, and how many jobs begin or end with it;
        :mod:`mlsim.batch.backfill.profile`.
    back_until, back_units : int64
        Of units that came back early since the last pass: the segment from which on they were expected, and
        how many.
    gaps : int64
    gap_times : float64, shape (2, any)
        Segments with which gaps begin, and when each begins and ends; :mod:`mlsim.batch.backfill.gaps`.
    gap_reach : float64, shape (sizes, any)
        How long runs around each gap are at most (s).
    stretch_from, stretch_reach : float64, shapes (any,), (sizes, any)
        The same of several gaps together: the first begin, and the longest.
    started, ended : int64
        The first receives the slots of the jobs that start, in order; the other those of the jobs that end.
    """

    rules: Ints
    parameters: Floats
    floats: FloatColumns
    ints: IntColumns
    queue: Ints
    spare: Ints
    running: Ints
    blocks: IntColumns
    counts: Ints
    rows: IntColumns
    times: FloatColumns
    shares: FloatColumns
    profile_times: Floats
    profile_free: Ints
    profile_next: Ints
    profile_before: Ints
    profile_uses: Ints
    back_until: Ints
    back_units: Ints
    gaps: Ints
    gap_times: FloatColumns
    gap_reach: FloatColumns
    stretch_from: Floats
    stretch_reach: FloatColumns
    started: Ints
    ended: Ints


columns_at = by_address(Columns)
