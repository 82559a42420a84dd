"""What the loops of one communicator have in common: communicators, nodes, windows.

Making these takes many collective operations, so that they are kept with the communicator and used again by
the next loop; freeing the communicator frees them.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from mlsim.mpi.loop.chunk_rules import warm_up
from mlsim.mpi.transport.alarm import Alarm
from mlsim.mpi.transport.last_words import ending_all
from mlsim.mpi.transport.layout import Layout
from mlsim.mpi.transport.waiting import Patience, WaitStyle
from mlsim.mpi.transport.window import SharedWindow, Window

__all__ = ["Context"]

_TAGS_A_LOOP, _LOOPS = 32, 1000
_SMALLEST = 8


class Context:
    """Made by all ranks together, at the first loop of a communicator; see :meth:`of`.

    Attributes
    ----------
    layout
        Communicators and nodes.
    ranks_per_node
        By which the ranks of a machine are divided; None: they are not, or as Slurm's nodes are.
    """

    def __init__(self, comm: MPI.Intracomm, ranks_per_node: int | None) -> None:
        self.layout = Layout.of(comm, ranks_per_node)
        self.ranks_per_node = ranks_per_node
        self._loops = 0
        self._processes: list[tuple[int, int]] = self.layout.machine.allgather((comm.rank, os.getpid()))
        self._windows: dict[tuple[bool, int], list[Window]] = {}
        self._in_use: dict[Window, tuple[bool, int]] = {}
        _warm_up_in_turns(self.layout)

    @staticmethod
    def of(comm: MPI.Intracomm, ranks_per_node: int | None) -> Context:
        """Return the context of a communicator, made by all ranks together at the first call."""
        kept: Any = comm.Get_attr(_keyval())
        if kept is None:
            kept = {}
            comm.Set_attr(_keyval(), kept)
        if ranks_per_node not in kept:
            kept[ranks_per_node] = Context(comm, ranks_per_node)
            _made.append(kept[ranks_per_node])
        context: Context = kept[ranks_per_node]
        return context

    def next_tag(self) -> int:
        """Return the first of 32 tags that no other active loop uses; all ranks must call this."""
        self._loops += 1
        return (self._loops % _LOOPS) * _TAGS_A_LOOP

    def patience(self, style: WaitStyle, warn_after: float = 0.0) -> Patience:
        """Return how ranks of this node wait; after some seconds they say for whom, 0: never."""
        comm = self.layout.comm
        alarm = Alarm(comm.rank, comm.size, warn_after, self._processes) if warn_after > 0.0 else None
        return Patience(style, self.layout.machine.size, alarm)

    def window(self, words: int) -> Window:
        """Return a window at rank 0; its numbers are 0 after the next barrier."""
        return self._get(False, words, self._make_window)

    def _make_window(self, room: int) -> Window:
        """Make a window at rank 0: on one machine in shared memory.

        Open MPI before 5.0 lets the windows of sub-communicators meet in one file, if they are made at the
        same time on a machine (https://github.com/open-mpi/ompi/issues/9492); not those in shared memory.
        """
        layout = self.layout
        one_machine = layout.machine.size == layout.comm.size
        return (SharedWindow if one_machine else Window)(layout.comm, room)

    def shared_window(self, words: int) -> SharedWindow:
        """Return a window in memory that the node shares; its numbers are 0 after the next barrier."""
        window = self._get(True, words, self._make_shared_window)
        assert isinstance(window, SharedWindow), "they are kept apart"
        return window

    def _make_shared_window(self, room: int) -> Window:
        return SharedWindow(self.layout.local, room)

    def _get(self, shared: bool, words: int, make: Callable[[int], Window]) -> Window:
        room = max(_SMALLEST, 1 << (words - 1).bit_length())
        key = shared, room
        free = self._windows.setdefault(key, [])
        window = free.pop() if free else make(room)
        window.clear()
        self._in_use[window] = key
        return window

    def put_back(self, window: Window) -> None:
        """Keep a window for the next loop; no rank may use it any more."""
        self._windows[self._in_use.pop(window)].append(window)

    @property
    def is_idle(self) -> bool:
        """Whether no loop is active."""
        return not self._in_use

    def free(self) -> None:
        """Free windows and communicators; all ranks must call this."""
        for windows in self._windows.values():
            for window in windows:
                window.free()
        self._windows.clear()
        self.layout.free()


_known: list[int] = []
_made: list[Context] = []


def _keyval() -> int:
    """Return the attribute key under which communicators hold their contexts."""
    if not _known:
        _known.append(MPI.Intracomm.Create_keyval(delete_fn=_delete))
    return _known[0]


def _delete(_comm: MPI.Comm, _key: int, kept: dict[int | None, Context]) -> None:
    for context in kept.values():
        if context in _made:
            _made.remove(context)
            context.free()


def _free_at_exit() -> None:
    """Free in order of making; not after an error, when other ranks may be elsewhere and would not answer."""
    failed = getattr(sys, "last_value", None) is not None
    if MPI.Is_finalized() or failed or not all(context.is_idle for context in _made):
        return
    for context in _made:
        context.free()
    _made.clear()


atexit.register(_free_at_exit)


def _warm_up_in_turns(layout: Layout) -> None:
    """Load the kernels, first on one rank: it compiles those that are not on disk, the others read them."""
    patience = Patience("sleep", layout.machine.size)
    first_here = layout.machine.rank == 0
    for turn in (layout.comm.rank == 0, first_here and layout.comm.rank > 0, True):
        if turn:
            with ending_all(layout.comm):
                warm_up()
        patience.until(layout.comm.Ibarrier().Test)


def allgather(comm: MPI.Intracomm, patience: Patience, mine: NDArray[Any], meeting: str = "") -> NDArray[Any]:
    """Gather the numbers of all ranks, one row a rank; waiting ranks yield their cores."""
    everyone = np.empty((comm.size, len(mine)), mine.dtype)
    request = comm.Iallgather(mine, everyone)
    patience.until(request.Test, meeting)
    return everyone
