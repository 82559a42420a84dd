"""The jobs, the room and the passes at one time, and the steps that change them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Ints
from mlsim.batch.backfill.conservative import next_reservation
from mlsim.batch.columns.job_columns import (
    ALLOW_BACKFILL,
    FREE,
    ONE_ROUND,
    PLACES,
    QUEUED,
    RUNNING,
    USED_ROWS,
    Columns,
)
from mlsim.batch.columns.job_table import (
    BACKFILLED,
    BEGIN_SEGMENT,
    CORES,
    END,
    EXPECTED,
    FIRST_ROW,
    HELD,
    NUMBER,
    PLANNED,
    RESERVED,
    ROWS,
    START,
    STATE,
    UNITS,
    JobTable,
)
from mlsim.batch.columns.occupancy import NODE, RELEASED, OccupancyLog, find_holders
from mlsim.batch.columns.running_jobs import running_slots
from mlsim.batch.dispatch.passes import bring_head, queue_arrivals
from mlsim.batch.order.queue import withdraw_one
from mlsim.batch.room.pool import AnnouncedDrain
from mlsim.batch.room.unit_requests import Requests
from mlsim.batch.state.batch_columns import BatchColumns
from mlsim.record import JobState, Solves
from mlsim.workload.workload_jobs import JobBlock


class MachineRoom(Protocol):
    """What jobs take units of: a pool of equal units, or nodes by resources."""

    @property
    def arrays(self) -> Any:
        """The room, as a tuple of arrays."""
        ...

    @property
    def address(self) -> int:
        """Where kernels find written down where the arrays are."""
        ...

    @property
    def holds_back(self) -> bool:
        """Whether jobs hold parts of nodes that are out of use, which must not be given on."""
        ...

    def end(self, slot: int, now: float, /) -> None:
        """End a job: free what it still holds."""
        ...

    def release_row(self, slot: int, row: int, now: float, /) -> None:
        """Free the nodes of an occupancy row of a job that goes on."""
        ...

    def return_node(self, slot: int, node: int, now: float, /) -> int:
        """Return a free node to a job that had released it; return the new occupancy row."""
        ...

    def reservation(self, slot: int, now: float, /) -> float:
        """Return when a waiting job could start, by estimates, in s; infinity if that is not known."""
        ...

    def ensure_capacity(self) -> None:
        """Make the arrays, those of jobs too, large enough for the next pass."""
        ...

    def never_fit(self, slots: Ints, block: JobBlock, /) -> dict[str, NDArray[np.bool_]]:
        """Return which of the jobs that come no set of nodes could hold, by reason."""
        ...

    def room_for(self, slot: int, now: float, /) -> int:
        """Units of a job that could start now; maybe more than it asks for."""
        ...

    def is_free(self, node: int) -> bool:
        """Whether nobody holds any part of a node, and a job may have it."""
        ...

    def lacks_shared(self, slot: int, /) -> bool:
        """Whether a job waits for what the machine has as a whole, whatever nodes are free."""
        ...

    def is_down(self, node: int) -> bool:
        """Whether a node is out of use."""
        ...

    def may_take(self, slot: int, node: int, now: float, /) -> bool:
        """Whether no announced drain of a node keeps a job off it."""
        ...

    def units_of_cores(self, slot: int, cores: int, /) -> int:
        """Units that so many cores on one node are to a job."""
        ...

    def begin_timestamp(self, now: float, /) -> None:
        """Prepare for the ends and the arrivals of a time, if something is held back."""
        ...

    def update_free(self) -> None:
        """Take note that jobs have given something back."""
        ...

    def prepare_release(self, slot: int, row: int, /) -> None:
        """Take note that a job is about to give the nodes of an occupancy row back."""
        ...

    def take_down(self, node: int, holders: Mapping[int, int]) -> None:
        """Take a node out of use; what jobs hold of it they keep, but it does not come back at their ends.

        Parameters
        ----------
        node
            Number of the node.
        holders
            Slots of the jobs that hold part of it, and the units each holds there.
        """
        ...

    def bring_up(self, node: int, holders: Mapping[int, int]) -> None:
        """Take a node back into use, if there is no other reason for it to be out of use.

        Parameters
        ----------
        node, holders
            As when it was taken down; those who have left since are not among them.
        """
        ...

    def know_of(self, drains: Sequence[AnnouncedDrain], /) -> None:
        """Plan around these announced drains from now on; nodes out of use for them will come back."""
        ...

    def set_power_cap(self, watts: float) -> None:
        """Have another cap from now on; what runs goes on."""
        ...


class Passes(Protocol):
    """Who makes passes over the queue."""

    rejected: list[tuple[int, str]]
    """Slots, with reasons, of jobs that a dispatcher turned away; the batch system empties it."""

    def advance(
        self, now: float, ended: list[int], arrivals: Ints, first: int, last: int, released: Ints, /
    ) -> int:
        """End jobs, let others arrive, then make a pass; return how many start."""
        ...

    def admit(self, block: JobBlock) -> None:
        """Keep what plugins may see of jobs that have come."""
        ...

    def next_wake(self, now: float, /) -> float:
        """Return when a dispatcher wants to be asked, at the earliest after now, in s; infinity: never."""
        ...

    def solves(self) -> Solves:
        """Return how the passes of a dispatcher that plans went."""
        ...


_WITHDRAWN = int(JobState.WITHDRAWN)


class BatchState:
    """What there is at one time: the jobs, the room of the machine, and who makes passes.

    Parameters
    ----------
    jobs
        The jobs, the queue and who holds what.
    room
        What they take units of.
    passes
        Who makes passes.
    requests
        How jobs ask for room.
    n_nodes
        Nodes of the machine.
    """

    def __init__(
        self, jobs: BatchColumns, room: MachineRoom, passes: Passes, requests: Requests, n_nodes: int
    ) -> None:
        self._jobs = jobs
        self.room = room
        self._passes = passes
        self.requests = requests
        self.n_nodes = n_nodes
        self.ensure_capacity()

    # The jobs

    @property
    def table(self) -> JobTable:
        """The jobs in the system."""
        return self._jobs.table

    @property
    def occupancy(self) -> OccupancyLog:
        """Which nodes each job holds or held."""
        return self._jobs.occupancy

    @property
    def columns(self) -> Columns:
        """The jobs as the kernels see them, until arrays grow."""
        return self._jobs.arrays

    @property
    def address(self) -> int:
        """Where kernels find written down where the columns are, until arrays grow."""
        return self._jobs.address

    @property
    def started(self) -> Ints:
        """Slots of the jobs that the last pass started come first."""
        return self._jobs.started

    @property
    def rejected(self) -> list[tuple[int, str]]:
        """Slots, with reasons, of jobs that a dispatcher turned away; the batch system empties it."""
        return self._passes.rejected

    @property
    def row_limit(self) -> int:
        """Occupancy rows from which on there is no room for another pass."""
        return int(self._jobs.row_limit)

    @property
    def n_waiting(self) -> int:
        """Jobs in the queue."""
        return int(self._jobs.counts[QUEUED])

    @property
    def n_running(self) -> int:
        """Jobs that run."""
        return int(self._jobs.counts[RUNNING])

    @property
    def n_free(self) -> int:
        """Units that no job holds."""
        return int(self._jobs.counts[FREE])

    @property
    def n_rows(self) -> int:
        """Occupancy rows written so far."""
        return int(self._jobs.counts[USED_ROWS])

    def head(self, now: float) -> int:
        """Slot of the waiting job that goes first."""
        return int(bring_head(now, self.address))

    def running(self) -> list[int]:
        """Slots of the running jobs, in order of expected end."""
        return self._jobs.running()

    def number(self, slot: int) -> int:
        """Which job is in a slot, as its place in the log."""
        return int(self.table.ints[NUMBER, slot])

    def is_waiting(self, slot: int, number: int) -> bool:
        """Whether that job is in that slot and has not started."""
        waits = math.isnan(self.table.floats[START, slot]) and self.table.ints[STATE, slot] != _WITHDRAWN
        return self.number(slot) == number and waits

    def units(self, slot: int) -> int:
        """Units that a job asks for."""
        return int(self.table.ints[UNITS, slot])

    def held(self, slot: int) -> int:
        """Units that a job holds."""
        return int(self.table.ints[HELD, slot])

    def rows_of(self, slot: int) -> range:
        """Occupancy rows that a job got at its start."""
        first = int(self.table.ints[FIRST_ROW, slot])
        return range(first, first + int(self.table.ints[ROWS, slot]))

    def is_held(self, row: int) -> bool:
        """Whether the nodes of an occupancy row are still with its job."""
        return self._jobs.is_held(row)

    def holders(self, node: int) -> dict[int, int]:
        """Slots of the jobs that hold part of a node by the rows of their start, and the units of each."""
        columns, running = self.columns, running_slots(self.columns)
        slots, cores = np.empty((2, len(running)), np.int64)
        n = find_holders(node, running, columns.ints, columns.rows, columns.times, slots, cores)
        found = zip(slots[:n].tolist(), cores[:n].tolist(), strict=True)
        return {slot: self.room.units_of_cores(slot, held) for slot, held in found}

    # Room

    def never_fit(self, slots: Ints, block: JobBlock) -> dict[str, NDArray[np.bool_]]:
        """Return which of the jobs that come no set of nodes could hold, by reason."""
        self._passes.admit(block)
        return self.room.never_fit(slots, block)

    def room_for(self, slot: int, now: float) -> int:
        """Units of a job that fit now; maybe more than it asks for."""
        return self.room.room_for(slot, now)

    def lacks_shared(self, slot: int) -> bool:
        """Whether a job waits for what the machine has as a whole, whatever nodes are free."""
        return self.room.lacks_shared(slot)

    def is_free(self, node: int) -> bool:
        """Whether nobody holds any part of a node, and a job may have it."""
        return self.room.is_free(node)

    def node_letters(self) -> str:
        """Return a letter a node: ``.`` free, ``x`` out of use, ``#`` held, at least in part."""
        room = self.room
        return "".join(
            "x" if room.is_down(node) else "." if room.is_free(node) else "#" for node in range(self.n_nodes)
        )

    def may_take(self, slot: int, node: int, now: float) -> bool:
        """Whether no announced drain of a node keeps a job off it."""
        return self.room.may_take(slot, node, now)

    def will_come(self, row: int, slot: int, now: float) -> bool:
        """Whether the node of an occupancy row is held, and will be free for a waiting job after that."""
        node = int(self.occupancy.ints[NODE, row])
        return self.is_held(row) and not self.room.is_down(node) and self.may_take(slot, node, now)

    @property
    def holds_back(self) -> bool:
        """Whether jobs hold parts of nodes that are out of use, which must not be given on."""
        return self.room.holds_back

    def take_down(self, node: int, holders: Mapping[int, int]) -> None:
        """Take a node out of use; see :meth:`MachineRoom.take_down`."""
        self._jobs.change_room()
        self.room.take_down(node, holders)

    def bring_up(self, node: int, holders: Mapping[int, int]) -> None:
        """Take a node back into use; see :meth:`MachineRoom.bring_up`."""
        self._jobs.change_room()
        self.room.bring_up(node, holders)

    def know_of(self, drains: Sequence[AnnouncedDrain]) -> None:
        """Plan around these announced drains from now on."""
        self._jobs.change_room()
        self.room.know_of(drains)

    def set_power_cap(self, watts: float) -> None:
        """Have another cap from now on; what runs goes on."""
        self._jobs.change_room()
        self.room.set_power_cap(watts)

    # Passes

    def advance(
        self, now: float, ended: list[int], arrivals: Ints, first: int, last: int, released: Ints
    ) -> int:
        """End jobs, let others arrive, then make a pass; the slots of those that start are in ``started``."""
        if self.room.holds_back:
            self.room.begin_timestamp(now)
        return self._passes.advance(now, ended, arrivals, first, last, released)

    def allow_backfill(self, allows: bool) -> None:
        """Have the next passes backfill, or only start jobs from the queue's head."""
        self._jobs.rules[ALLOW_BACKFILL] = allows

    def enter_queue(self, now: float, arrivals: Ints, first: int, last: int) -> None:
        """Queue jobs without a pass."""
        queue_arrivals(now, first, last, arrivals, self._jobs.address)

    def empty_queue(self) -> list[int]:
        """Empty the queue of jobs that will never start; return their slots."""
        slots: list[int] = self._jobs.waiting().tolist()
        self._jobs.set_waiting([])
        return slots

    def reservation(self, slot: int, now: float) -> float:
        """When a waiting job could start, by estimates; infinity if that is not known."""
        return self.room.reservation(slot, now)

    def next_reservation(self, now: float) -> float:
        """When a waiting job may start, or a dispatcher wants to be asked, at the earliest after now."""
        places = int(self._jobs.counts[PLACES])
        promised = float(next_reservation(now, places, self._jobs.queue, self.table.floats))
        return min(promised, self._passes.next_wake(now))

    @property
    def wakes(self) -> bool:
        """Whether there may be passes at which nothing else happens."""
        return bool(self._jobs.rules[ONE_ROUND]) or self._passes.next_wake(-math.inf) < math.inf

    def solves(self) -> Solves:
        """Return how the passes of a dispatcher that plans went."""
        return self._passes.solves()

    # Steps between passes

    def end(self, slot: int, now: float) -> None:
        """End a running job without a pass."""
        self.room.end(slot, now)
        self.room.update_free()

    def requeue(self, slot: int, now: float) -> None:
        """Put a job that has ended back into the queue."""
        table = self.table
        table.ints[[CORES, FIRST_ROW, ROWS, BACKFILLED, BEGIN_SEGMENT], slot] = 0
        table.floats[[START, END, EXPECTED, RESERVED, PLANNED], slot] = np.nan
        self.enter_queue(now, np.array([slot], np.int64), 0, 1)

    def withdraw(self, slot: int) -> None:
        """Take a waiting job out of the queue for good."""
        withdraw_one(slot, self._jobs.address)

    def expect(self, slot: int, end: float) -> None:
        """Expect a running job to end at another time."""
        self._jobs.expect(slot, end)

    def release(self, slot: int, row: int, now: float) -> None:
        """Take the nodes of an occupancy row from a job that goes on."""
        self.room.prepare_release(slot, row)
        self.room.release_row(slot, row, now)
        self.room.update_free()

    def end_returned(self, slot: int, row: int, now: float) -> None:
        """Take back, at its job's end, a node that the job had given up and got back."""
        self.release(slot, row, now)
        self.occupancy.ints[RELEASED, row] = 0

    def return_node(self, slot: int, node: int, now: float) -> int:
        """Return a free node to a job that had released it; return its occupancy row."""
        row = self.room.return_node(slot, node, now)
        self.ensure_capacity()
        return row

    def ensure_capacity(self) -> None:
        """Make every array large enough for the next pass."""
        self.room.ensure_capacity()
