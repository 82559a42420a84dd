"""Nodes, common clock, windows and tags of the loops of one communicator."""

import atexit
import os
import sys
import time
from array import array
from dataclasses import dataclass
from functools import cache
from typing import Any, Self, cast

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from mlsim._runtime.arrays import Floats, Ints
from mlsim.mpi.chunk_rules import warm_up
from mlsim.mpi.rank_waiting import Alarm, Patience, WaitStyle, ending_all

_NODE = "SLURMD_NODENAME"


def node_name() -> str:
    """Return the name of this process's node: Slurm's, which may have several a host, or the host's."""
    return os.environ.get(_NODE) or MPI.Get_processor_name()


def library_version() -> str:
    """Return the first line of what the loaded MPI calls itself."""
    return MPI.Get_library_version().split("\n")[0].strip("\0 ")


@dataclass(frozen=True)
class Layout:
    """A loop's own communicators, and its nodes in order of their lowest ranks."""

    comm: MPI.Intracomm  # All ranks of the loop; a duplicate, so that its messages meet no others.
    machine: MPI.Intracomm  # Ranks that share memory and clock with this one.
    local: MPI.Intracomm  # Ranks of this rank's node: ``machine``, or a part of it.
    node: int  # Number of this rank's node.
    nodes: Ints  # int64[P]: the node of every rank.
    leaders: Ints  # int64[V]: the lowest rank of every node.
    machines: Ints  # int64[P]: the lowest rank on every rank's machine.

    @classmethod
    def of(cls, comm: MPI.Intracomm, ranks_per_node: int | None) -> Self:
        """Return the layout of a communicator; all ranks of ``comm`` must call this."""
        own = comm.Dup()
        machine = cast(MPI.Intracomm, own.Split_type(MPI.COMM_TYPE_SHARED))
        if ranks_per_node is None:  # Slurm may have several nodes on a machine
            names = machine.allgather(os.environ.get(_NODE, ""))
            part = sorted(set(names)).index(names[machine.rank])
        else:
            part = machine.rank // ranks_per_node
        local = cast(MPI.Intracomm, machine.Split(part))
        lowest = np.array([machine.bcast(own.rank), local.bcast(own.rank)], np.int64)
        both = np.empty((own.size, 2), np.int64)
        own.Allgather(lowest, both)
        leaders, nodes = np.unique(both[:, 1], return_inverse=True)
        nodes = nodes.reshape(-1).astype(np.int64)
        return cls(own, machine, local, int(nodes[own.rank]), nodes, leaders, both[:, 0].copy())

    @property
    def counts(self) -> Ints:
        """Number of ranks per node."""
        return np.bincount(self.nodes, minlength=len(self.leaders))

    @property
    def ranks_of_pes(self) -> Ints:
        """The rank of each PE: PEs are numbered by node."""
        return np.lexsort((np.arange(self.comm.size), self.nodes)).astype(np.int64)

    def free(self) -> None:
        """Free the communicators; all ranks must call this."""
        for comm in (self.local, self.machine, self.comm):
            comm.Free()


_ROUNDS = 20
_TAG = 7

now = time.perf_counter


class Clock:
    """Converts this machine's clock to rank 0's; all ranks make it together, when a loop begins."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._first = self._second = _measure(layout)

    def close(self) -> None:
        """Measure again; all ranks must call this, when the loop has ended."""
        self._second = _measure(self._layout)

    def now(self) -> float:
        """Return the time of rank 0's clock, in s, by the offset that was measured when the loop began."""
        return now() - self._first[1]

    def aligned(self, readings: Floats) -> Floats:
        """Return the readings of rank 0's clock at the same times, in s."""
        (begin, before), (end, after) = self._first, self._second
        if before == after or end <= begin:
            return readings - before
        share = (readings - begin) / (end - begin)
        return readings - (before + (after - before) * share)


def _measure(layout: Layout) -> tuple[float, float]:
    """Return a reading of this machine's clock and its offset to rank 0's clock at that time, in s."""
    comm, result = layout.comm, (now(), 0.0)
    others = [rank for rank in np.unique(layout.machines).tolist() if rank != layout.machines[0]]
    if not others:
        return result  # one machine, one clock
    for rank in others:
        if comm.rank == 0:
            for _ in range(_ROUNDS):
                comm.Recv(np.zeros(1), rank, _TAG)
                comm.Send(np.full(1, now()), rank, _TAG)
        elif comm.rank == rank:
            result = _ask(comm)
    measured: tuple[float, float] = layout.machine.bcast(result)
    return measured


def _ask(comm: MPI.Intracomm) -> tuple[float, float]:
    """Ask rank 0 for the time; of several answers the one with the shortest round trip counts."""
    best, at, offset = float("inf"), 0.0, 0.0
    reading = np.zeros(1)
    for _ in range(_ROUNDS):
        sent = now()
        comm.Send(reading, 0, _TAG)
        comm.Recv(reading, 0, _TAG)
        received = now()
        if received - sent < best:
            best, at = received - sent, (sent + received) / 2
            offset = at - float(reading[0])
    return at, offset


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


_TAGS_A_LOOP, _LOOPS = 32, 1000
_SMALLEST = 8


class Context:
    """Communicators and windows that the loops of one communicator share; see :meth:`of`."""

    def __init__(self, comm: MPI.Intracomm, ranks_per_node: int | None) -> None:
        self.layout = Layout.of(comm, ranks_per_node)
        self.ranks_per_node = ranks_per_node
        self._loops = 0
        self._processes: list[tuple[int, int]] = self.layout.machine.allgather((comm.rank, os.getpid()))
        self._windows: dict[tuple[bool, int], list[Window]] = {}
        self._in_use: dict[Window, tuple[bool, int]] = {}
        _warm_up_in_turns(self.layout)

    @classmethod
    def of(cls, comm: MPI.Intracomm, ranks_per_node: int | None) -> Self:
        """Return the context of a communicator, made by all ranks together at the first call."""
        kept: Any = comm.Get_attr(_keyval())
        if kept is None:
            comm.Set_attr(_keyval(), kept := {})
        if ranks_per_node not in kept:
            kept[ranks_per_node] = cls(comm, ranks_per_node)
            _made.append(kept[ranks_per_node])
        context: Self = kept[ranks_per_node]
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
        """Return a window at rank 0, on one machine in shared memory; it is 0 after the next barrier.

        Open MPI before 5.0 lets the windows of sub-communicators meet in one file, if they are made at the
        same time on a machine (https://github.com/open-mpi/ompi/issues/9492); not those in shared memory.
        """
        one_machine = self.layout.machine.size == self.layout.comm.size
        return self._get(SharedWindow if one_machine else Window, self.layout.comm, words)

    def shared_window(self, words: int) -> SharedWindow:
        """Return a window in memory that the node shares; its numbers are 0 after the next barrier."""
        window = self._get(SharedWindow, self.layout.local, words)
        assert isinstance(window, SharedWindow), "they are kept apart"
        return window

    def _get(self, kind: type[Window], comm: MPI.Intracomm, words: int) -> Window:
        room = max(_SMALLEST, 1 << (words - 1).bit_length())
        key = comm is self.layout.local, room
        free = self._windows.setdefault(key, [])
        window = free.pop() if free else kind(comm, room)
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


_made: list[Context] = []


@cache
def _keyval() -> int:
    """Return the attribute key under which communicators hold their contexts."""
    return MPI.Intracomm.Create_keyval(delete_fn=_delete)


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
