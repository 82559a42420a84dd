"""Windows and tags shared by the loops of one communicator, times of ranks, requests to masters."""

from __future__ import annotations

import atexit
import os
import sys
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from mlsim._runtime.arrays import Floats, Ints
from mlsim.mpi.chunk_rules import warm_up
from mlsim.mpi.rank_layout import Layout
from mlsim.mpi.rank_waiting import Alarm, Patience, WaitStyle, ending_all
from mlsim.mpi.rma_window import SharedWindow, Window

_TAGS_A_LOOP, _LOOPS = 32, 1000
_SMALLEST = 8


class Context:
    """Communicators and windows that the loops of one communicator share; see :meth:`of`.

    ``ranks_per_node`` divides the ranks of a machine; None: not at all, or as Slurm's nodes do.
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
        """Return the style of waiting on this node, with a warning after some seconds (0: never)."""
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
    """Gather the numbers of all ranks, one row per rank; waiting ranks yield their cores."""
    everyone = np.empty((comm.size, len(mine)), mine.dtype)
    request = comm.Iallgather(mine, everyone)
    patience.until(request.Test, meeting)
    return everyone


COLUMNS = ("chunks", "executed", "busy", "overhead", "begin", "finish", "told")


class RankTimes:
    """Times of one rank [s].

    Attributes
    ----------
    chunks, executed
        Chunks begun, iterations executed.
    busy, overhead
        Executing chunks; from requests to starts of chunks, or to the notice that none is left, and serving
        others.
    keeps_rows
        Whether a row is kept for every chunk.
    begin, finish, told
        Readings of the clock: first request, end of the last chunk, notice that no chunk is left.
    """

    def __init__(self, begin: float, record: bool) -> None:
        self.chunks = self.executed = 0
        self.busy = self.overhead = 0.0
        self.begin = self.finish = self.told = begin
        self.keeps_rows = record
        self._numbers, self._times = array("q"), array("d")

    def add(
        self, chunk: tuple[int, int, int], requested: float, start: float, end: float, busy: float
    ) -> None:
        """Record an executed chunk, of which ``busy`` seconds were not spent at breaks."""
        self.add_up(1, chunk[1], busy, end)
        if self.keeps_rows:
            self.keep(chunk, requested, start, end)

    def add_up(self, chunks: int, executed: int, busy: float, finish: float) -> None:
        """Record a number of executed chunks, the last of which ended at ``finish``."""
        self.chunks += chunks
        self.executed += executed
        self.busy += busy
        self.finish = max(self.finish, finish)

    def close(self, rest: float) -> None:
        """Sum up the overhead: what was not work until the last chunk ended, and ``rest`` after it."""
        self.overhead = self.finish - self.begin - self.busy + rest

    def keep(self, chunk: tuple[int, int, int], requested: float, start: float, end: float) -> None:
        """Keep the row of a chunk."""
        self._numbers.extend(chunk)
        self._times.extend((requested, start, end))

    def totals(self) -> Floats:
        """Return the rank's totals, one for each of ``COLUMNS``."""
        return np.array([getattr(self, name) for name in COLUMNS], np.float64)

    def rows(self) -> tuple[NDArray[np.int64], Floats]:
        """Return first, size, step and requested, start, end of all chunks: int64[n, 3] and float64[n, 3]."""
        numbers = np.frombuffer(self._numbers or b"", np.int64).reshape(-1, 3)
        return numbers, np.frombuffer(self._times or b"", np.float64).reshape(-1, 3)


_now = time.perf_counter


class RequestLog:
    """Requests that one rank sent, or a master's answers and pieces, by the rank's own clock."""

    def __init__(self, request_bytes: int, reply_bytes: int) -> None:
        self.request_bytes, self.reply_bytes = request_bytes, reply_bytes
        self._sent, self._received = array("d"), array("d")
        self._answered, self._begun = array("d"), array("d")
        self._who, self._whom, self._sizes = array("q"), array("q"), array("q")

    def sent(self) -> None:
        """Record that a request has been sent."""
        self._sent.append(_now())

    def received(self, rank: int) -> None:
        """Record that the master has received a request."""
        self._who.append(rank)
        self._received.append(_now())

    def answered(self, rank: int) -> None:
        """Record that a reply has been sent."""
        self._whom.append(rank)
        self._answered.append(_now())

    def begins(self, moment: float, size: int) -> None:
        """Record that the master begins a piece of its own chunk."""
        self._begun.append(moment)
        self._sizes.append(size)

    def moments(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return the times at which requests were sent and received, replies sent, and pieces begun."""
        columns = (self._sent, self._received, self._answered, self._begun)
        sent, received, answered, begun = map(np.array, columns)
        return sent, received, answered, begun

    def numbers(self) -> tuple[Ints, Ints, Ints]:
        """Return the ranks of requests, the ranks of replies, and the iterations of pieces."""
        who, whom, sizes = (np.array(column, np.int64) for column in (self._who, self._whom, self._sizes))
        return who, whom, sizes


@dataclass(frozen=True)
class Requests:
    """One row a request to the master of a loop under CCA, in order of the answers.

    Attributes
    ----------
    pe
        Who asked; PEs are numbered by node.
    sent, received, answered
        When the request had been sent (at the latest when the master had it), when the master had it, and
        when the reply had been sent; s from the loop's first request, on rank 0's clock.
    master_iterations
        Iterations that the master began to execute between the first and the last of these: at most
        ``break_after``, unless MPI gave it the request late. From having it on it begins none.
    request_bytes, reply_bytes
        Lengths of the messages.
    """

    pe: Ints
    sent: Floats
    received: Floats
    answered: Floats
    master_iterations: Ints
    request_bytes: int
    reply_bytes: int


def iterations_begun(sent: Floats, answered: Floats, begun: Floats, sizes: Ints) -> Ints:
    """Sum the pieces that the master began between each request and its answer.

    ``begun``, float64[m], rises; ``sizes``, int64[m], are the iterations of the pieces.
    """
    total = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    before = total[np.searchsorted(begun, sent, "right")]
    result: Ints = total[np.searchsorted(begun, answered, "left")] - before
    return np.maximum(result, 0)
