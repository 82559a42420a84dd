"""The jobs in the system and the queue, as columns that passes read and change."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated, Any, Final, NamedTuple, Protocol, TypeVar, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import PACKED_WORDS, apart_kernel, leaf_kernel, unpacker
from mlsim._runtime.arrays import Floats, Ints
from mlsim.platform.node_lists import RecordedNodes
from mlsim.record import JobState
from mlsim.workload.workload_jobs import RECORDED_NODES, JobBlock


class _Places:
    """Columns in the order in which they are declared; a kernel knows each by its place."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.of_block: list[str] = []

    def column(self, name: str, *, of_block: bool = False) -> int:
        """Declare a column, ``of_block`` if blocks of jobs have it; return its place."""
        self.names.append(name)
        if of_block:
            self.of_block.append(name)
        return len(self.names) - 1


_ints, _floats = _Places(), _Places()

NUMBER = _ints.column("number")  # place in the log, by (submit time of the log, id), from 0
JOB_ID = _ints.column("job_id", of_block=True)
PROCESSORS = _ints.column("processors", of_block=True)
UNITS = _ints.column("units")  # what it asks of the machine: nodes or cores
CORES = _ints.column("cores")  # cores it got
HELD = _ints.column("held")  # units it still holds
FIRST_ROW = _ints.column("first_row")  # its rows in the occupancy table
ROWS = _ints.column("rows")
STATE = _ints.column("state")
BACKFILLED = _ints.column("backfilled")
USER = _ints.column("user", of_block=True)
GROUP = _ints.column("group", of_block=True)
EXECUTABLE = _ints.column("executable", of_block=True)
QUEUE = _ints.column("queue", of_block=True)
PARTITION = _ints.column("partition", of_block=True)
LOOP_ITERATIONS = _ints.column("loop_iterations", of_block=True)  # of its own loop; -1: those of the scenario
LOOP_LIMIT = _ints.column("loop_limit", of_block=True)
ACCOUNT = _ints.column("account")  # of fairshare: its owner
BEGIN_SEGMENT = _ints.column("begin_segment")  # of the profile: with which its reservation begins
END_SEGMENT = _ints.column("end_segment")  # and the one with which it, or the running job, is gone
SIZE = _ints.column("size")  # class of its units, where reservations are kept
PLACE = _ints.column("place")  # in the queue, of a job that may be started in this pass
NEXT_BESIDE = _ints.column("next_beside")  # the next job whose reservation begins with the same segment
DUE = _ints.column("due")  # list of the gaps with which it is to be looked at
ASKED = _ints.column("asked")  # of what the profile counts, while reservations on nodes are compressed
LOOK_SEGMENT = _ints.column("look_segment")  # where the first of the gaps begins with which it is looked at
QOS = _ints.column("qos", of_block=True)
LARGE = _ints.column("large")  # of classes: whether it goes after those that are taken for small
NODE_SET = _ints.column("node_set")  # the nodes that it may use; 0: all
SOON = _ints.column("soon")  # held units that forecasts expect back before its end
FIRST_NAMED = _ints.column("first_named")  # of the nodes that its log names
NAMED = _ints.column("named")  # how many; 0: none

SUBMIT = _floats.column("submit_time")  # when it came to the queue: its eligible time, if held before
RUN = _floats.column("run_time")
ESTIMATE = _floats.column("estimate")  # what the dispatcher sees: the walltime, or a prediction up to it
START = _floats.column("start_time")
END = _floats.column("end_time")
EXPECTED = _floats.column("expected_end")  # start + estimate, or later where the estimate was corrected
KEY = _floats.column("key")  # the policy's key; smaller goes first
WALK_KEY = _floats.column("walk_key")  # the same for the order of backfilling
RESERVED = _floats.column("reserved")  # start that conservative backfilling has promised; NaN for none
PLANNED = _floats.column("planned_end")  # forecast of the applications
WALLTIME = _floats.column("walltime")  # what the user asked; the limit of its run time
LOOK_UNTIL = _floats.column("look_until")  # when the last of these gaps ends
WITHDRAWAL = _floats.column("withdraw_time")  # when it leaves unless it has started; infinity: never

INTS: Final = tuple(_ints.names)
FLOATS: Final = tuple(_floats.names)

_INT_INDEX = {name: i for i, name in enumerate(INTS)}
_FLOAT_INDEX = {name: i for i, name in enumerate(FLOATS)}
_FROM_BLOCK = tuple(_ints.of_block)


class Accounts(Protocol):
    """Mapping of jobs to usage accounts."""

    def of(self, jobs: JobBlock, /) -> Ints:
        """Return the account of each job."""
        ...


class JobTable:
    """Columns of the jobs in the system, ``ints`` and ``floats``; times in seconds, NaN for "not yet"."""

    def __init__(
        self, accounts: Accounts | None = None, capacity: int = 1024, named: RecordedNodes | None = None
    ) -> None:
        self._accounts, self._named = accounts, named
        self.ints: Ints = np.zeros((len(INTS), capacity), np.int64)
        self.floats: Floats = np.full((len(FLOATS), capacity), np.nan)
        self._free = np.arange(capacity)[::-1]
        self._n_free = capacity
        self._arrivals = 0

    @property
    def capacity(self) -> int:
        """Number of slots."""
        return int(self.ints.shape[1])

    def column(self, name: str) -> NDArray[Any]:
        """Return one column by name, as a view."""
        view: NDArray[Any] = (
            self.ints[_INT_INDEX[name]] if name in _INT_INDEX else self.floats[_FLOAT_INDEX[name]]
        )
        return view

    def admit(self, block: JobBlock, units: Ints) -> Ints:
        """Fill slots with a block of jobs in arrival order; return them in the block's order."""
        slots = self._claim_slots(len(block.job_id))
        self.ints[:, slots] = 0
        self.floats[:, slots] = np.nan
        for name in _FROM_BLOCK:
            self.ints[_INT_INDEX[name], slots] = getattr(block, name)
        in_order = np.arange(self._arrivals, self._arrivals + len(slots))
        self.ints[NUMBER, slots] = in_order if block.number is None else block.number
        self.ints[UNITS, slots] = units
        self.ints[STATE, slots] = JobState.COMPLETED
        self.floats[SUBMIT, slots] = block.submit_time
        self.floats[RUN, slots] = block.run_time
        self.floats[ESTIMATE, slots] = self.floats[WALLTIME, slots] = block.estimate
        self.floats[WITHDRAWAL, slots] = block.withdrawals()
        if self._accounts is not None:
            self.ints[ACCOUNT, slots] = self._accounts.of(block)
        if self._named is not None and block.own is not None:
            lists = block.own.of[RECORDED_NODES].tolist()
            self.ints[FIRST_NAMED, slots], self.ints[NAMED, slots] = self._named.add(lists)
        self._arrivals += len(slots)
        return slots

    def free_slots(self, slots: Ints) -> None:
        """Free the slots of jobs that have left the system."""
        self._free[self._n_free : self._n_free + len(slots)] = slots[::-1]
        self._n_free += len(slots)

    @property
    def n_free(self) -> int:
        """Number of slots that can be taken without growing."""
        return self._n_free

    def _claim_slots(self, count: int) -> Ints:
        if count > self._n_free:
            self._grow(max(2 * self.capacity, self.capacity + count))
        self._n_free -= count
        return self._free[self._n_free : self._n_free + count][::-1].copy()

    def _grow(self, capacity: int) -> None:
        old = self.capacity
        self.ints = np.concatenate([self.ints, np.zeros((len(INTS), capacity - old), np.int64)], axis=1)
        self.floats = np.concatenate([self.floats, np.full((len(FLOATS), capacity - old), np.nan)], axis=1)
        free = np.empty(capacity, np.int64)
        free[: capacity - old] = np.arange(old, capacity)[::-1]
        free[capacity - old : capacity - old + self._n_free] = self._free[: self._n_free]
        self._free, self._n_free = free, self._n_free + capacity - old


@leaf_kernel
def goes_before(a: int, b: int, column: int, ints: Ints, floats: Floats) -> bool:
    """Whether a job goes before another one by a column; equal ones go by their places in the log.

    Those past the threshold, whose key is minus infinity, go by the time that they have been in the queue
    first: a job that had to wait for others may have come after ones that the log has later.
    """
    if floats[column, a] != floats[column, b]:
        return bool(floats[column, a] < floats[column, b])
    if floats[column, a] == -np.inf and floats[SUBMIT, a] != floats[SUBMIT, b]:
        return bool(floats[SUBMIT, a] < floats[SUBMIT, b])
    return bool(ints[NUMBER, a] < ints[NUMBER, b])


IntColumn = Annotated[NDArray[np.int64], "int64", 1]
IntColumns = Annotated[NDArray[np.int64], "int64", 2]
IntBlocks = Annotated[NDArray[np.int64], "int64", 3]
FloatColumn = Annotated[NDArray[np.float64], "float64", 1]
FloatColumns = Annotated[NDArray[np.float64], "float64", 2]

Tuple = TypeVar("Tuple", bound=tuple[Any, ...])


@cache
def _fields(kind: type[Any]) -> Sequence[tuple[str, str, int]]:
    """List name, dtype and number of dimensions of the arrays of a tuple; found once, as it takes long."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple((name, *get_args(hints[name])[1:]) for name in kind._fields)


def pack_pointers(arrays: tuple[NDArray[Any], ...]) -> Ints:
    """Return address and shape of each array; the caller keeps owning them.

    Kernels take the address of what is returned, which has to live as long.
    """
    packed = np.zeros((len(arrays), PACKED_WORDS), np.int64)
    for (name, dtype, dimensions), array, row in zip(_fields(type(arrays)), arrays, packed, strict=True):
        assert array.flags.c_contiguous, name
        assert array.dtype == dtype, name
        assert array.ndim == dimensions, name
        row[0], row[1 : 1 + array.ndim] = array.ctypes.data, array.shape
    return packed


def by_address(kind: type[Tuple]) -> Callable[[int], Tuple]:
    """Make the function by which a kernel reads a tuple, of the address of what packing it returned."""
    return unpacker(kind, _fields(kind))


# Places in the array of counts: jobs waiting and running, free units, occupancy rows used, how often units
# came back earlier than expected since the last pass.
QUEUED, RUNNING, FREE, USED_ROWS, EARLY = range(5)
# Of the queue: the first place that is not empty, that of the head, the number of places, and whether jobs
# are in another order than that of their keys.
FRONT, HEAD, PLACES, UNSORTED = range(5, 9)
# Of the profile: the version of the room that it is of, its first segment, segments made so far, the first
# one that is not in use, whether unexamined reservations could move; gaps since compression
# began, and the least and greatest class of size of waiting jobs.
KEPT, FIRST, SEGMENTS, UNUSED, UNSEEN, GAPS, LEAST_SIZE, GREATEST_SIZE = range(9, 17)
# Of reservations: places in the lists of gaps made so far, and the first one that is not in use; how often
# they have moved since segments were sorted, and whether they are listed by size and duration.
LISTED, UNLISTED, MOVED, GROUPED = range(17, 21)
# Blocks of running jobs that are in use; the version of the room, below; jobs
# and drains that the profile takes for over, as they end at this very time: that is only not handled yet.
BLOCKS, ROOM, PENDING = range(21, 24)
# Nodes that forecasts expect back before their jobs end; jobs that ended since the last pass.
FORESEEN, ENDED = range(24, 26)
N_COUNTS: Final = 26

# Places in the array of rules: policy and order of backfilling (codes), backfilling, reservations, whole
# nodes or cores, whether occupancy rows of neighbouring nodes are merged, a pass after every event, whether
# it matters which nodes a job gets (else units are only counted), whether this pass may backfill, variant of
# EASY (code), whether reservations are kept from pass to pass, whether they are compressed in one round only,
# whether ends of a time come before its submissions with a pass after every event, whether jobs are killed at
# the end of their walltime, whether those that are taken for small go first, and what every end does to all
# reservations (below).
POLICY, ORDER, BACKFILL, RESERVATIONS, EXCLUSIVE, MERGE, PER_EVENT, NODES, ALLOW_BACKFILL = range(9)
EASY_AS, KEEPS, ONE_ROUND, ENDS_FIRST, KILLS, CLASSES, AT_ENDS = range(9, 16)
N_RULES: Final = 16

MOST_UNITS: Final = 2**62  # more units than any job asks for

# Values of the rule for backfilling.
NONE, GREEDY, EASY, CONSERVATIVE = range(4)

# Values of the rule for ends: only early ones move reservations, or all; or all make them anew.
IF_EARLY, MOVES, RENEWS = range(3)

# Values of the rule for whose EASY it is.
STANDARD, ACCASIM, CQSIM, BATSCHED, EASY_BF = range(5)


class Columns(NamedTuple):
    """The state of the batch level, but for the room of the machine, as the kernels see it."""

    rules: IntColumn  # see the places above
    parameters: FloatColumn  # inputs of the keys besides the jobs, as `parameters_of` returns
    floats: FloatColumns  # columns of the jobs in the system, of a `JobTable`
    ints: IntColumns
    queue: IntColumn  # slots of the waiting jobs in the order of the queue, with empty places
    # Of blocks of the queue: what is known, the least units that a job asks for, the place of the job that
    # goes first, and the least times; see `queue_blocks.py`.
    block_known: IntColumn
    block_units: IntColumn
    block_first: IntColumn
    block_times: FloatColumns
    spare: IntColumn  # room for sorting, twice as long as the queue
    # Slots of the running jobs by expected end; see `running_jobs.py`.
    running: IntColumn
    blocks: IntColumns
    counts: IntColumn  # see the places above
    rows: IntColumns  # of an `OccupancyLog`
    times: FloatColumns
    shares: FloatColumns  # usage of each owner, of `Accounts`
    # Nodes that forecasts expect back before their jobs end, in order of time: row and slot; when [s].
    foreseen: IntColumns
    foreseen_times: FloatColumn
    # Segments of the profile: when each begins, and units expected to be free from then on; the segments
    # after and before each, and how many jobs begin or end with it; see `free_profile.py`.
    profile_times: FloatColumn
    profile_free: IntColumn
    profile_next: IntColumn
    profile_before: IntColumn
    profile_uses: IntColumn
    # Of units that came back early since the last pass: the segment from which on they were expected, and how
    # many.
    back_until: IntColumn
    back_units: IntColumn
    sorted_segments: IntColumns  # scratch for sorting segments
    sorted_times: FloatColumn
    # Of jobs that get a reservation in this pass: bits for the classes of duration that there were so far,
    # for each of size, and where the search for each begins (sizes, durations); see `reservations.py`.
    searched_classes: IntColumn
    searched: IntColumns
    # While reservations move, a waiting job that begins with each segment; -1 if there is none.
    profile_begins: IntColumn
    due: IntColumn  # bits per place of the queue: whether its job is to be examined; see `recheck.py`
    due_gaps: IntColumns  # lists of gaps: a gap, and the next place in the list
    durations: IntColumn  # of each class of size, bits for the classes of duration that there are
    # A job of each class of size and duration, and for how long (s) these ask at least and at most.
    alike: IntColumns
    alike_shortest: FloatColumns
    alike_longest: FloatColumns
    # The next job of its class, for each slot, and the start that it was promised as they were listed.
    alike_next: IntColumn
    alike_latest: FloatColumn
    # When the first of equal parts of the profile's time begins (s), and how many there are in a second.
    parts: FloatColumn
    # For how long (s) jobs ask at least that are reserved in each part of the profile or later (parts,
    # sizes).
    shortest_later: FloatColumns
    # Segments with which gaps begin, whether they had others, and when each begins and ends; see `gaps.py`.
    gaps: IntColumns
    gap_times: FloatColumns
    # How long runs around each gap of several segments are at most (s), by size. On nodes there is one gap at
    # a time, and its first rows are those of `node_gaps.py`.
    gap_reach: FloatColumns
    named: IntColumn  # nodes that the log names for its jobs
    started: IntColumn  # receives the slots of the jobs that start, in order
    ended: IntColumn  # slots of the jobs that end


columns_at = by_address(Columns)


@apart_kernel
def copy_ints(target: IntColumn, source: IntColumn, n: int) -> None:
    """Copy the first ``n`` numbers."""
    for k in range(n):
        target[k] = source[k]


@apart_kernel
def copy_columns(target: IntColumns, source: IntColumns) -> None:
    """Copy an array, for instance what each node has of each resource."""
    copy_ints(target.ravel(), source.ravel(), source.size)


@leaf_kernel
def change_room(columns: Columns) -> None:
    """Make a new version of the room."""
    columns.counts[ROOM] += 1


@leaf_kernel
def keep_profile(columns: Columns) -> None:
    """Mark the profile as that of the current version of the room."""
    columns.counts[KEPT] = columns.counts[ROOM] + 1  # 0 is that of no profile


@leaf_kernel
def forget_profile(columns: Columns) -> None:
    """Mark the profile as outdated."""
    columns.counts[KEPT] = 0


@leaf_kernel
def is_profile_kept(columns: Columns) -> bool:
    """Whether the profile is of the current version of the room."""
    return bool(columns.counts[KEPT] == columns.counts[ROOM] + 1)
