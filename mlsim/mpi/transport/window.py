"""Counters and columns that ranks access without the help of their holder (passive-target RMA).

One window, one ``Lock_all`` for its whole life, then atomics and ``Flush``: no lock per access. MPI's own
exclusive locks are not used: MPICH hands them over only while the target is inside MPI, so a coordinator
that computes would make all others wait (measured: as long as it computes).
"""

from __future__ import annotations

import os
import time
from array import array
from typing import Any, cast

import numpy as np
from mpi4py import MPI

from mlsim._arrays import Ints
from mlsim.mpi.transport.waiting import Patience

__all__ = ["PollingLock", "SharedWindow", "Window", "bare_pair"]


_WORD = 8
_SUM = MPI.SUM


class Window:
    """8-byte numbers held by one rank; all ranks of ``comm`` make it together.

    Parameters
    ----------
    comm
        Who may reach it.
    words
        How many numbers.
    holder
        Rank that holds them.

    Attributes
    ----------
    words, holder
        As given.
    handle
        MPI's own.
    """

    def __init__(self, comm: MPI.Intracomm, words: int, holder: int = 0) -> None:
        self.handle = self._win = self._allocate(comm, words if comm.rank == holder else 0)
        self._comm, self.holder, self.words = comm, holder, words
        self._holder = holder
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
        if self._comm.rank == self._holder:
            np.frombuffer(cast(Any, self._win.tomemory()), np.int64)[:] = 0
            self._win.Sync()

    def fetch_add(self, place: int, value: int) -> int:
        """Add to a number atomically; return its value before."""
        self._given[0] = value
        given, got = self._buffers
        self._fetch_and_op(given, got, self._holder, place, _SUM)
        self._flush(self._holder)
        return self._got[0]

    def fetch(self, place: int) -> int:
        """Return a number, read atomically."""
        self._win.Fetch_and_op(self._buffers[0], self._buffers[1], self._holder, place, MPI.NO_OP)
        self._win.Flush(self._holder)
        return self._got[0]

    def fetch_replace(self, place: int, value: int) -> int:
        """Replace a number atomically; return its value before."""
        self._given[0] = value
        self._win.Fetch_and_op(self._buffers[0], self._buffers[1], self._holder, place, MPI.REPLACE)
        self._win.Flush(self._holder)
        return self._got[0]

    def read(self, place: int, block: Ints) -> None:
        """Read numbers from ``place`` on; under a lock."""
        self._win.Get([block, len(block), MPI.INT64_T], self._holder, place)
        self._win.Flush(self._holder)

    def write(self, place: int, block: Ints) -> None:
        """Write numbers from ``place`` on; under a lock."""
        self._win.Put([block, len(block), MPI.INT64_T], self._holder, place)
        self._win.Flush(self._holder)

    def sync(self) -> None:
        """Synchronize direct reads and writes of this process with those of others."""
        self._win.Sync()

    def free(self) -> None:
        """Free the memory; all ranks must call this."""
        self._win.Unlock_all()
        self._win.Free()


class SharedWindow(Window):
    """A window whose numbers every rank of a node sees in its own memory as well.

    Attributes
    ----------
    memory
        int64[words]; to be read and written under a lock, with :meth:`sync` after acquiring it and before
        releasing it.
    """

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


def bare_pair(window: Window, repetitions: int) -> float:
    """Measure what two bare ``Fetch_and_op`` with ``Flush`` take, in s: the least a chunk costs under DCA."""
    win, given, got = window._win, window._buffers[0], window._buffers[1]
    window._given[0] = 1
    os.sched_yield()
    begin = time.perf_counter()
    for _ in range(repetitions):
        win.Fetch_and_op(given, got, window._holder, 0, MPI.SUM)
        win.Flush(window._holder)
        win.Fetch_and_op(given, got, window._holder, 1, MPI.SUM)
        win.Flush(window._holder)
    return (time.perf_counter() - begin) / repetitions
