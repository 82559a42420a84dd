"""Windows, and numbers in them that ranks change in turns."""

from array import array
from typing import Any, cast

import numpy as np
from mpi4py import MPI

from mlsim._runtime.arrays import Ints
from mlsim.execution_models import technique_state
from mlsim.mpi.rank_waiting import SPINS, Patience
from mlsim.scenario.words import LockOrder

_WORD = 8


class Window:
    """``words`` 8-byte numbers held by rank ``holder``; all ranks of ``comm`` create it together."""

    def __init__(self, comm: MPI.Intracomm, words: int, holder: int = 0) -> None:
        self.handle = self._win = self._allocate(comm, words if comm.rank == holder else 0)
        self._comm, self.holder = comm, holder
        self._win.Lock_all(MPI.MODE_NOCHECK)
        # Quicker to read and write than NumPy's arrays, one number at a time.
        self._given, self._got = array("q", [0]), array("q", [0])
        # Buffers are described once: mpi4py would look at the arrays again for every access.
        self._buffers = [[place, 1, MPI.INT64_T] for place in (self._given, self._got)]
        self._fetch_and_op, self._flush = self._win.Fetch_and_op, self._win.Flush

    @staticmethod
    def _allocate(comm: MPI.Intracomm, words: int) -> MPI.Win:
        return MPI.Win.Allocate(words * _WORD, _WORD, comm=comm)

    def clear(self) -> None:
        """Write zeros, at the holder; visible to others after the next barrier."""
        if self._comm.rank == self.holder:
            np.frombuffer(cast(Any, self._win.tomemory()), np.int64)[:] = 0
            self._win.Sync()

    def fetch_add(self, place: int, value: int) -> int:
        """Add to a number atomically; return its value before."""
        self._given[0] = value
        given, got = self._buffers
        self._fetch_and_op(given, got, self.holder, place, MPI.SUM)
        self._flush(self.holder)
        return self._got[0]

    def fetch(self, place: int) -> int:
        """Return a number, read atomically."""
        return self.fetch_add(place, 0)

    def fetch_replace(self, place: int, value: int) -> int:
        """Replace a number atomically; return its value before."""
        self._given[0] = value
        given, got = self._buffers
        self._fetch_and_op(given, got, self.holder, place, MPI.REPLACE)
        self._flush(self.holder)
        return self._got[0]

    def read(self, place: int, block: Ints) -> None:
        """Read numbers from ``place`` on; under a lock."""
        self._win.Get([block, len(block), MPI.INT64_T], self.holder, place)
        self._win.Flush(self.holder)

    def write(self, place: int, block: Ints) -> None:
        """Write numbers from ``place`` on; under a lock."""
        self._win.Put([block, len(block), MPI.INT64_T], self.holder, place)
        self._win.Flush(self.holder)

    def sync(self) -> None:
        """Synchronize direct reads and writes of this process with those of others."""
        self._win.Sync()

    def free(self) -> None:
        """Free the memory; all ranks must call this."""
        self._win.Unlock_all()
        self._win.Free()


class SharedWindow(Window):
    """A window in memory that the ranks of a node share: access it under a lock, between two :meth:`sync`."""

    def __init__(self, comm: MPI.Intracomm, words: int) -> None:
        super().__init__(comm, words)
        buffer, _ = self._win.Shared_query(0)
        self.memory: Ints = np.frombuffer(cast(Any, buffer), np.int64, words)

    @staticmethod
    def _allocate(comm: MPI.Intracomm, words: int) -> MPI.Win:
        return MPI.Win.Allocate_shared(words * _WORD, _WORD, comm=comm)


class PollingLock:
    """A polled lock: the first rank that finds it free acquires it (Eleliemy 2021, §4.4, of Intel MPI)."""

    WORDS = 2

    def __init__(self, window: Window, place: int, patience: Patience) -> None:
        self._window, self._place, self._patience = window, place, patience

    def acquire(self) -> None:
        """Try until it is free."""
        tries = 0
        while self._window.fetch_replace(self._place, 1) == 1:
            self._patience.pause(tries)
            tries += 1

    def release(self) -> None:
        """Mark it as free."""
        self._window.fetch_replace(self._place, 0)


RELAY_WORDS = 3  # ticket, turn and seal

_SHORT = 128
_OVERTAKEN = 500
"""Waits after which a rank draws a ticket for numbers in shared memory: about 1 ms, if it has a core."""


class Relay:
    """One rank's part in passing a block of numbers, the first of ``window``, from rank to rank.

    ``block``, int64[words + 2], is turn, the numbers, seal; ``memory``: the first argument of :attr:`kernel`.
    """

    kernel = staticmethod(technique_state.take_from_copy)

    def __init__(self, window: Window, words: int, patience: Patience) -> None:
        self._patience, self._window = patience, window
        self._win, self._holder = window.handle, window.holder
        self.memory = self.block = np.zeros(words + 2, np.int64)
        self._one, self._ticket = array("q", [1]), array("q", [0])
        self._buffers = [[place, 1, MPI.INT64_T] for place in (self._one, self._ticket)]
        self._whole = [self.block, len(self.block), MPI.INT64_T]
        self._is_long = words > _SHORT
        self._head = [self.block[:1], 1, MPI.INT64_T]

    def begin(self) -> None:
        """Write the block for the first turn, on one rank, before any request."""
        technique_state.seal(self.block, 0)
        self.hand_on()

    def ask(self) -> int:
        """Draw a ticket and read the block; return the ticket, whose turn may not have come yet."""
        one, ticket = self._buffers
        self._win.Fetch_and_op(one, ticket, self._holder, 0, MPI.SUM)
        self._win.Get(self._whole, self._holder, 1)
        self._win.Flush(self._holder)
        return self._ticket[0]

    def has_turn(self, ticket: int) -> bool:
        """Return whether the block read is that of a ticket's turn."""
        return technique_state.is_turn(self.block, ticket)

    def wait(self, ticket: int, tries: int) -> int:
        """Wait until the block may be that of the ticket, which is returned, and read it."""
        self._pause(ticket, tries)
        while self._is_long and int(self.block[technique_state.TURN]) < ticket:
            tries += 1
            self._win.Get(self._head, self._holder, 1)
            self._win.Flush(self._holder)
            self._pause(ticket, tries)
        self._win.Get(self._whole, self._holder, 1)
        self._win.Flush(self._holder)
        return ticket

    def _pause(self, ticket: int, tries: int) -> None:
        """Pause between polls; tickets further behind poll less often."""
        for _ in range(min(max(ticket - int(self.block[technique_state.TURN]), 1), 64)):
            self._patience.pause(tries)

    def hand_on(self) -> None:
        """Write the block, sealed for the next turn."""
        self._win.Put(self._whole, self._holder, 1)
        self._win.Flush(self._holder)


class SharedRelay:
    """A :class:`Relay` in shared memory; under ``order`` ``polling`` no rank draws a ticket.

    Only the rank that holds ``block`` may change it; ``memory`` is the number of the next ticket, and the
    block.
    """

    kernel = staticmethod(technique_state.take_shared)

    def __init__(
        self, window: SharedWindow, words: int, patience: Patience, order: str = LockOrder.FIFO
    ) -> None:
        self._window, self._patience = window, patience
        self._draws_at = _OVERTAKEN if order == LockOrder.FIFO else -1
        self.memory = window.memory[: words + RELAY_WORDS]
        self.block = self.memory[1:]

    def begin(self) -> None:
        """Synchronize the block, on one rank, before any request; it is free, as it was cleared."""
        self._window.sync()

    def ask(self) -> int:
        """Return the code by which the kernel takes the block when it is free."""
        return technique_state.ANY

    def has_turn(self, turn: int) -> bool:
        """Acquire the block, with a ticket or ``ANY``; return whether it was acquired."""
        return technique_state.seize(self.memory, turn)

    def wait(self, turn: int, tries: int) -> int:
        """Pause until the block may be free; return the turn to go on with, which may be a ticket now."""
        # The kernel has looked for longer than a rank with a core needs: one without it may hold the block.
        self._patience.pause(SPINS + tries)
        return technique_state.draw_ticket(self.memory) if tries == self._draws_at else turn

    def hand_on(self) -> None:
        """No-op: the kernel has released the block."""

    def release(self) -> None:
        """Release the block, where the kernel will not."""
        technique_state.release(self.memory)
