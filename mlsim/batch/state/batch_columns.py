"""The jobs, the queue and the nodes that jobs hold, as columns that grow."""

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mlsim._runtime.arrays import Ints
from mlsim.batch.backfill.recheck import N_PARTS
from mlsim.batch.backfill.reservations import N_DURATIONS, N_SIZES
from mlsim.batch.columns import job_columns as at
from mlsim.batch.columns.job_columns import Columns, JobTable, pack_pointers
from mlsim.batch.columns.occupancy import FINISH, OccupancyLog
from mlsim.batch.columns.running_jobs import expect_end, running_arrays, running_slots
from mlsim.batch.order.policies import CODES, N_SHARES, Accounts, parameters_of
from mlsim.batch.order.queue_blocks import GONE, N_BLOCK_TIMES, UNKNOWN, blocks_of
from mlsim.platform.node_lists import RecordedNodes
from mlsim.scenario import BatchConfig, Policy
from mlsim.scenario.words import Allocator, Backfill, Compression, Dispatcher, EasyRule, OverrunRule, TieOrder

# Kernels know the words by numbers of the same names.
_BACKFILL = {word: getattr(at, word.name) for word in Backfill}
_EASY = {word: getattr(at, word.name) for word in EasyRule}
_AT_ENDS = {Compression.EVERY_END: at.MOVES, Compression.CONSERVATIVE_BF: at.RENEWS}
_ON_PROFILE = 0  # reservations: room for the head is looked up in the profile of free units too
_NOBODY, _NONE = np.empty((N_SHARES, 0)), np.empty(0, np.int64)
_MEANT: dict[str, dict[str, Any]] = {
    Dispatcher.PRB: {"policy": Policy.LEXP, "backfill": Backfill.GREEDY, "allocator": Allocator.BEST_FIT},
    # Jobs are submitted at their recorded starts (`recorded_schedule.py`), and none blocks another.
    Dispatcher.RECORDED: {"policy": Policy.FCFS, "backfill": Backfill.GREEDY},
}


def expanded(config: BatchConfig) -> BatchConfig:
    """Return the configuration that a dispatcher of the catalogue abbreviates."""
    meant = _MEANT.get(config.dispatcher)
    return config if meant is None else config.model_copy(update={"dispatcher": Dispatcher.QUEUE, **meant})


def rules_of(config: BatchConfig, exclusive: bool, merge: bool, nodes: bool) -> Ints:
    """Return the rules as the kernels read them.

    ``merge``: whether occupancy rows of neighbouring nodes are merged. ``nodes``: whether the choice of a
    job's nodes matters; if not, units are only counted.
    """
    rules = np.zeros(at.N_RULES, np.int64)
    rules[at.POLICY] = CODES[config.ordering.value]
    rules[at.ORDER] = CODES[(config.backfill_order or config.ordering).value]
    rules[at.BACKFILL] = _BACKFILL[config.backfill]
    rules[at.RESERVATIONS] = 1
    if config.backfill is Backfill.EASY:
        easy = _EASY[config.easy]
        rules[at.RESERVATIONS] = _ON_PROFILE if easy in (at.CQSIM, at.EASY_BF) else config.reservations
        rules[at.EASY_AS], rules[at.KEEPS] = easy, easy in (at.ACCASIM, at.BATSCHED)
    if config.backfill is Backfill.CONSERVATIVE:
        rules[at.KEEPS], rules[at.ONE_ROUND] = True, config.compression is not Compression.FIXPOINT
        rules[at.AT_ENDS] = _AT_ENDS.get(config.compression, at.IF_EARLY)
    rules[at.EXCLUSIVE], rules[at.MERGE], rules[at.NODES] = exclusive, merge, nodes
    rules[at.PER_EVENT] = config.ties is not TieOrder.DRAINED
    rules[at.ENDS_FIRST] = config.ties is TieOrder.ENDS_FIRST
    rules[at.KILLS] = config.on_overrun is OverrunRule.KILL
    rules[at.CLASSES] = config.classifier is not None
    rules[at.ALLOW_BACKFILL] = True
    return rules


class BatchColumns:
    """The jobs, the queue and the nodes that jobs hold, as columns that grow.

    ``columns`` has all that kernels read and change; they find it at ``address``, until arrays grow.
    """

    def __init__(
        self,
        config: BatchConfig,
        exclusive: bool,
        merge: bool,
        most_rows: int,
        named: RecordedNodes | None = None,
    ) -> None:
        config = expanded(config)
        self._accounts = Accounts(config.fairshare) if Policy.FAIRSHARE in config.policies else None
        self._named = named
        self.table = JobTable(self._accounts, named=named)
        self.occupancy = OccupancyLog()
        self.rules = rules_of(config, exclusive, merge, nodes=True)
        self.counts = np.zeros(at.N_COUNTS, np.int64)
        self._parameters = parameters_of(config)
        self._most_rows = most_rows
        self.queue = self.started = self.ended = np.empty(0, np.int64)
        self._running: dict[str, NDArray[Any]] = {}
        self._profile: dict[str, NDArray[Any]] = {}
        self.foreseen, self.foreseen_times = np.empty((2, 0), np.int64), np.empty(0)
        self._blocks: dict[str, NDArray[Any]] = {}
        self.grow()

    def running(self) -> list[int]:
        """Slots of the running jobs, in order of expected end."""
        slots: list[int] = running_slots(self.columns).tolist()
        return slots

    def waiting(self) -> Ints:
        """Slots of the waiting jobs, in the order of the queue; of live keys, in any order."""
        places = self.queue[self.counts[at.FRONT] : self.counts[at.PLACES]]
        return places if len(places) == self.counts[at.QUEUED] else places[places != GONE]

    def set_waiting(self, slots: list[int] | Ints) -> None:
        """Set the waiting jobs, in this order."""
        self.queue[: len(slots)] = slots
        self.counts[at.QUEUED] = self.counts[at.PLACES] = len(slots)
        self.counts[at.FRONT] = self.counts[at.HEAD] = self.counts[at.UNSORTED] = 0
        self._blocks["block_known"][:] = UNKNOWN

    def number_devices(self, numbered: bool) -> None:
        """Note which devices jobs hold, where nodes have any; before the first job."""
        if numbered:
            self.occupancy = OccupancyLog(with_devices=True)
            self.grow()

    def change_room(self) -> None:
        """Make a new version of the room, by which what is kept between passes is out of date."""
        self.counts[at.ROOM] += 1

    def is_held(self, row: int) -> bool:
        """Whether the nodes of an occupancy row are still with its job."""
        return math.isnan(self.occupancy.floats[FINISH, row])

    def expect(self, slot: int, end: float) -> None:
        """Expect a running job to end at another time."""
        expect_end(slot, end, self.address)

    def grow(self, more_segments: int = 0) -> None:
        """Make every array large enough for the next pass, with so many segments beside those of jobs."""
        capacity = self.table.capacity
        if len(self.queue) < capacity:
            self.queue = _grown(self.queue, capacity)
            self._running = running_arrays(capacity, self._running)
            self._spare = np.empty(2 * capacity, np.int64)
            self._blocks = block_arrays(capacity)
            self.started, self.ended = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
        self._profile = profile_arrays(self.rules, capacity, more_segments, self._profile)
        self.occupancy.reserve(int(self.counts[at.USED_ROWS]), self._most_rows)
        # Occupancy rows from which on there is no room for another pass.
        self.row_limit = self.occupancy.ints.shape[1] - self._most_rows
        self.columns = Columns(
            rules=self.rules,
            parameters=self._parameters,
            floats=self.table.floats,
            ints=self.table.ints,
            queue=self.queue,
            **self._blocks,
            spare=self._spare,
            **self._running,
            counts=self.counts,
            rows=self.occupancy.ints,
            times=self.occupancy.floats,
            shares=_NOBODY if self._accounts is None else self._accounts.shares,
            foreseen=self.foreseen,
            foreseen_times=self.foreseen_times,
            **self._profile,
            named=_NONE if self._named is None else self._named.nodes,
            started=self.started,
            ended=self.ended,
        )
        self._packed = pack_pointers(self.columns)
        self.address = self._packed.ctypes.data


def block_arrays(capacity: int) -> dict[str, NDArray[Any]]:
    """Return the arrays of blocks of the queue for so many jobs; nothing is known of any block yet."""
    n = blocks_of(capacity)
    return {
        "block_known": np.zeros(n, np.int64),
        "block_units": np.empty(n, np.int64),
        "block_first": np.empty(n, np.int64),
        "block_times": np.empty((N_BLOCK_TIMES, n)),
    }


_OF_SEGMENTS: Final = ("free", "next", "before", "uses", "begins")

LISTED_GAPS: Final = 4
"""Room in lists of gaps, for each job."""


def profile_arrays(
    rules: Ints, capacity: int, more_segments: int = 0, old: Mapping[str, NDArray[Any]] | None = None
) -> dict[str, NDArray[Any]]:
    """Return the arrays of the profile that are fields of :class:`mlsim.batch.columns.job_columns.Columns`.

    They suffice for ``capacity`` jobs in the system and ``more_segments`` beside those of jobs; the content
    of ``old`` arrays is kept, and they are returned if they are large enough.
    """
    keeps = bool(rules[at.BACKFILL] == at.CONSERVATIVE)
    # Of two rounds of compression, and those it begins with; a power of two.
    gaps = 1 << (2 * capacity + 2).bit_length() if keeps else 1
    # One after the last, now, an overdue end, two for each waiting job, one for each running one.
    segments = 3 + 2 * capacity + more_segments + (gaps if keeps else 0)
    if old and len(old["profile_times"]) >= segments:
        return dict(old)
    arrays: dict[str, NDArray[Any]] = {
        "profile_times": np.empty(segments),
        **{f"profile_{name}": np.empty(segments, np.int64) for name in _OF_SEGMENTS},
        **{f"back_{name}": np.empty(capacity if keeps else 0, np.int64) for name in ("until", "units")},
        "sorted_segments": np.empty((3, segments if keeps else 0), np.int64),
        "sorted_times": np.empty(segments if keeps else 0),
        "searched_classes": np.empty(N_SIZES, np.int64),
        "searched": np.empty((N_SIZES, N_DURATIONS), np.int64),
        "due": np.empty(capacity // 64 + 1, np.int64),
        "due_gaps": np.empty((2, LISTED_GAPS * capacity if keeps else 0), np.int64),
        "durations": np.empty(N_SIZES, np.int64),
        "alike": np.empty((N_SIZES, N_DURATIONS), np.int64),
        "alike_shortest": np.empty((N_SIZES, N_DURATIONS)),
        "alike_longest": np.empty((N_SIZES, N_DURATIONS)),
        "alike_next": np.empty(capacity if keeps else 0, np.int64),
        "alike_latest": np.empty(capacity if keeps else 0),
        "parts": np.empty(2),
        "shortest_later": np.empty((N_PARTS, N_SIZES)),
        "gaps": np.empty((2, gaps), np.int64),
        "gap_times": np.empty((2, gaps)),
        "gap_reach": np.empty((gaps, N_SIZES)),
    }
    if old and keeps:
        for name in arrays:
            if not name.startswith(("sorted_", "due", "gap")):  # these are not kept from pass to pass
                arrays[name][: len(old[name])] = old[name]
    return arrays


def _grown(array: Ints, capacity: int) -> Ints:
    grown = np.empty(capacity, np.int64)
    grown[: len(array)] = array
    return grown
