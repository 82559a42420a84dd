"""Numbers of a window that one rank after the other changes, in two round trips each.

A lock takes five: draw a ticket, see whose turn it is, read, write, call the next. Here the numbers carry
the turn: a rank draws a ticket and reads them at once (one flush); if their turn is its ticket, they are its
own until it writes them back with the next turn (one more flush). The standard leaves open what a ``Get``
gives that meets a ``Put``; a seal over all the numbers tells a mixture from a state (see
``techniques/travelling.py``).
"""

from __future__ import annotations

from array import array

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from mlsim.application.techniques.travelling import TURN, seal
from mlsim.mpi.waiting import Patience
from mlsim.mpi.window import Window

__all__ = ["Relay"]

Ints = NDArray[np.int64]

_SHORT = 128


class Relay:
    """One rank's part.

    Parameters
    ----------
    window
        Whose first :meth:`words` numbers are used.
    words
        How many numbers there are between turn and seal.
    patience
        How to wait.

    Attributes
    ----------
    block
        int64[words + 2]: turn, the numbers, seal.
    """

    def __init__(self, window: Window, words: int, patience: Patience) -> None:
        self._patience, self._window = patience, window
        self._win, self._holder = window.handle, window.holder
        self.block = np.zeros(words + 2, np.int64)
        self._one, self._ticket = array("q", [1]), array("q", [0])
        self._buffers = [[place, 1, MPI.INT64_T] for place in (self._one, self._ticket)]
        self._whole = [self.block, len(self.block), MPI.INT64_T]
        self._is_long = words > _SHORT
        self._head = [self.block[:1], 1, MPI.INT64_T]

    @staticmethod
    def words(words: int) -> int:
        """Tell how many numbers of the window that takes."""
        return words + 3

    def begin(self) -> None:
        """Write the block for the first turn, on one rank, before anybody asks."""
        seal(self.block, 0)
        self.hand_on()

    def ask(self) -> int:
        """Draw a ticket, and read the block; give the ticket, which may not be the block's turn yet."""
        one, ticket = self._buffers
        self._win.Fetch_and_op(one, ticket, self._holder, 0, MPI.SUM)
        self._win.Get(self._whole, self._holder, 1)
        self._win.Flush(self._holder)
        return self._ticket[0]

    def wait(self, ticket: int, tries: int) -> None:
        """Wait until the block may be that of the ticket, which it has not been, and read it."""
        self._pause(ticket, tries)
        while self._is_long and int(self.block[TURN]) < ticket:
            tries += 1
            self._win.Get(self._head, self._holder, 1)
            self._win.Flush(self._holder)
            self._pause(ticket, tries)
        self._win.Get(self._whole, self._holder, 1)
        self._win.Flush(self._holder)

    def _pause(self, ticket: int, tries: int) -> None:
        """Pass a moment; those further behind look less often."""
        for _ in range(min(max(ticket - int(self.block[TURN]), 1), 64)):
            self._patience.pause(tries)

    def hand_on(self) -> None:
        """Write the block, sealed for the next turn."""
        self._win.Put(self._whole, self._holder, 1)
        self._win.Flush(self._holder)
