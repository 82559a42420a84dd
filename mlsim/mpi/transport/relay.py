"""Numbers of a window that the ranks change in turns, in two round trips each.

A lock takes five: draw a ticket, see whose turn it is, read, write, call the next. Here the numbers carry
the turn: a rank draws a ticket and reads them at once (one flush); if their turn is its ticket, they are its
own until it writes them back with the next turn (one more flush). The standard leaves open what a ``Get``
returns that overlaps a ``Put``; a checksum over all the numbers (the seal) detects mixtures (see
``techniques/travelling.py``).

Where all ranks see the numbers in their own memory, they draw tickets and change the numbers in place, by the
processor's own atomics.
"""

from __future__ import annotations

from array import array

import numpy as np
from mpi4py import MPI

from mlsim._arrays import Ints
from mlsim.application.techniques.travelling import (
    DRAW,
    TURN,
    draw_ticket,
    is_turn,
    is_turn_shared,
    seal,
    take_shared,
    take_travelling,
)
from mlsim.mpi.transport.waiting import Patience
from mlsim.mpi.transport.window import SharedWindow, Window

__all__ = ["RELAY_WORDS", "Relay", "SharedRelay", "relay_on"]


RELAY_WORDS = 3
"""Ticket, turn and seal."""

_SHORT = 128


def _pause(patience: Patience, block: Ints, ticket: int, tries: int) -> None:
    """Pause between polls; tickets further behind poll less often."""
    for _ in range(min(max(ticket - int(block[TURN]), 1), 64)):
        patience.pause(tries)


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

    draw = ask

    def has_turn(self, ticket: int) -> bool:
        """Return whether the block read is that of a ticket's turn."""
        return is_turn(self.block, ticket)

    def wait(self, ticket: int, tries: int) -> None:
        """Wait until the block may be that of the ticket, which it has not been, and read it."""
        _pause(self._patience, self.block, ticket, tries)
        while self._is_long and int(self.block[TURN]) < ticket:
            tries += 1
            self._win.Get(self._head, self._holder, 1)
            self._win.Flush(self._holder)
            _pause(self._patience, self.block, ticket, tries)
        self._win.Get(self._whole, self._holder, 1)
        self._win.Flush(self._holder)

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

    Attributes
    ----------
    block
        int64[words + 2]: as there, but of all ranks; to be changed by the one whose turn it is.
    memory
        What :attr:`kernel` takes: the number of the next ticket, and the block.
    """

    kernel = staticmethod(take_shared)

    def __init__(self, window: SharedWindow, words: int, patience: Patience) -> None:
        self._window, self._patience = window, patience
        self.memory = window.memory[: words + RELAY_WORDS]
        self.block = self.memory[1:]

    def begin(self) -> None:
        """Synchronize the block, on one rank, before any request; its turn is 0, as it was cleared."""
        self._window.sync()

    def ask(self) -> int:
        """Return the code that lets the kernel draw a ticket."""
        return DRAW

    def draw(self) -> int:
        """Draw a ticket; its turn may not have come yet."""
        return draw_ticket(self.memory)

    def has_turn(self, ticket: int) -> bool:
        """Return whether it is the turn of a ticket."""
        return is_turn_shared(self.memory, ticket)

    def wait(self, ticket: int, tries: int) -> None:
        """Pause until it may be the turn of a ticket."""
        _pause(self._patience, self.block, ticket, tries)

    def hand_on(self) -> None:
        """Do nothing: the kernel has advanced the turn."""


def relay_on(window: Window, words: int, patience: Patience) -> Relay | SharedRelay:
    """Return the relay for a kind of window."""
    if isinstance(window, SharedWindow):
        return SharedRelay(window, words, patience)
    return Relay(window, words, patience)
