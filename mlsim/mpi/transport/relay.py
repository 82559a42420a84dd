"""Numbers of a window that the ranks change in turns, in two round trips each.

A lock takes five: draw a ticket, see whose turn it is, read, write, call the next. Here the numbers carry
the turn: a rank draws a ticket and reads them at once (one flush); if their turn is its ticket, they are its
own until it writes them back with the next turn (one more flush). The standard leaves open what a ``Get``
returns that overlaps a ``Put``; a checksum over all the numbers (the seal) detects mixtures (see
``techniques/travelling.py``).

Where all ranks see the numbers in their own memory, the one that finds them free takes them, by the
processor's own atomics, and changes them in place. With more ranks than cores, turns in order of arrival
would cost a change of processes each, so tickets are for ranks that have waited long.
"""

from __future__ import annotations

from array import array

import numpy as np
from mpi4py import MPI

from mlsim.application.techniques.travelling import (
    ANY,
    TURN,
    draw_ticket,
    is_turn,
    release,
    seal,
    seize,
    take_shared,
    take_travelling,
)
from mlsim.mpi.transport.waiting import SPINS, Patience
from mlsim.mpi.transport.window import SharedWindow, Window
from mlsim.scenario.words import LockOrder

__all__ = ["RELAY_WORDS", "Relay", "SharedRelay", "relay_on"]


RELAY_WORDS = 3
"""Ticket, turn and seal."""

_SHORT = 128
_OVERTAKEN = 500
"""Waits after which a rank draws a ticket for numbers in shared memory: about 1 ms, if it has a core."""


class Relay:
    """One rank's part.

    Parameters
    ----------
    window
        Whose first ``words + RELAY_WORDS`` numbers are used.
    words
        How many numbers there are between turn and seal.
    patience
        How to wait.

    Attributes
    ----------
    block
        int64[words + 2]: turn, the numbers, seal.
    memory
        What :attr:`kernel` takes: the block.
    """

    kernel = staticmethod(take_travelling)

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
        seal(self.block, 0)
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
        return is_turn(self.block, ticket)

    def wait(self, ticket: int, tries: int) -> int:
        """Wait until the block may be that of the ticket, which is returned, and read it."""
        self._pause(ticket, tries)
        while self._is_long and int(self.block[TURN]) < ticket:
            tries += 1
            self._win.Get(self._head, self._holder, 1)
            self._win.Flush(self._holder)
            self._pause(ticket, tries)
        self._win.Get(self._whole, self._holder, 1)
        self._win.Flush(self._holder)
        return ticket

    def _pause(self, ticket: int, tries: int) -> None:
        """Pause between polls; tickets further behind poll less often."""
        for _ in range(min(max(ticket - int(self.block[TURN]), 1), 64)):
            self._patience.pause(tries)

    def hand_on(self) -> None:
        """Write the block, sealed for the next turn."""
        self._win.Put(self._whole, self._holder, 1)
        self._win.Flush(self._holder)


class SharedRelay:
    """One rank's part in a :class:`Relay` whose numbers all ranks see in their own memory.

    Parameters
    ----------
    window, words, patience
        As there.
    order
        ``polling``: no rank draws a ticket, however long it has waited.

    Attributes
    ----------
    block
        int64[words + 2]: as there, but of all ranks; to be changed by the one that holds it.
    memory
        What :attr:`kernel` takes: the number of the next ticket, and the block.
    """

    kernel = staticmethod(take_shared)

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
        """Return the code that lets the kernel take the block when it is free."""
        return ANY

    def has_turn(self, turn: int) -> bool:
        """Take the block, with a ticket or ``ANY``; return whether that was done."""
        return seize(self.memory, turn)

    def wait(self, turn: int, tries: int) -> int:
        """Pause until the block may be free; return the turn to go on with, which may be a ticket now."""
        # The kernel has looked for longer than a rank with a core needs: one without it may hold the block.
        self._patience.pause(SPINS + tries)
        return draw_ticket(self.memory) if tries == self._draws_at else turn

    def hand_on(self) -> None:
        """Do nothing: the kernel has released the block."""

    def release(self) -> None:
        """Let others have the block, where the kernel will not."""
        release(self.memory)


def relay_on(window: Window, words: int, patience: Patience) -> Relay | SharedRelay:
    """Return the relay for a kind of window."""
    if isinstance(window, SharedWindow):
        return SharedRelay(window, words, patience)
    return Relay(window, words, patience)
