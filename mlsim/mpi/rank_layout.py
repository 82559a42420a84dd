"""Communicators, nodes and common time of ranks."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import cast

import numpy as np
from mpi4py import MPI

from mlsim._runtime.arrays import Floats, Ints

_NODE = "SLURMD_NODENAME"


def node_name() -> str:
    """Return the name of this process's node: Slurm's, which may have several a host, or the host's."""
    return os.environ.get(_NODE) or MPI.Get_processor_name()


@dataclass(frozen=True)
class Layout:
    """A loop's own communicators, and its nodes in order of their lowest ranks."""

    comm: MPI.Intracomm
    """All ranks of the loop; a duplicate, so that its messages meet no others."""
    machine: MPI.Intracomm
    """Ranks that share memory and clock with this one."""
    local: MPI.Intracomm
    """Ranks of this rank's node: ``machine``, or a part of it."""
    node: int
    """Number of this rank's node."""
    nodes: Ints
    """int64[P]: the node of every rank."""
    leaders: Ints
    """int64[V]: the lowest rank of every node."""
    machines: Ints
    """int64[P]: the lowest rank on every rank's machine."""

    @classmethod
    def of(cls, comm: MPI.Intracomm, ranks_per_node: int | None) -> Layout:
        """Return the layout of a communicator; all ranks of ``comm`` must call this."""
        own = comm.Dup()
        machine = cast(MPI.Intracomm, own.Split_type(MPI.COMM_TYPE_SHARED))
        part = _virtual_node(machine) if ranks_per_node is None else machine.rank // ranks_per_node
        local = cast(MPI.Intracomm, machine.Split(part))
        lowest = np.array([machine.bcast(own.rank), local.bcast(own.rank)], np.int64)
        both = np.empty((own.size, 2), np.int64)
        own.Allgather(lowest, both)
        leaders, nodes = np.unique(both[:, 1], return_inverse=True)
        nodes = nodes.reshape(-1).astype(np.int64)
        return cls(own, machine, local, int(nodes[own.rank]), nodes, leaders, both[:, 0].copy())

    @property
    def members(self) -> Ints:
        """Ranks of this rank's node, rising."""
        members: Ints = np.flatnonzero(self.nodes == self.node)
        return members

    @property
    def counts(self) -> Ints:
        """Number of ranks per node."""
        counts: Ints = np.bincount(self.nodes, minlength=len(self.leaders))
        return counts

    def free(self) -> None:
        """Free the communicators; all ranks must call this."""
        for comm in (self.local, self.machine, self.comm):
            comm.Free()


def _virtual_node(machine: MPI.Intracomm) -> int:
    """Return the number of this rank's node among those of its machine; 0 where Slurm has one a machine."""
    names = machine.allgather(os.environ.get(_NODE, ""))
    return sorted(set(names)).index(names[machine.rank])


ROUNDS = 20
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
        result: Floats = readings - (before + (after - before) * share)
        return result


def _measure(layout: Layout) -> tuple[float, float]:
    """Return a reading of this machine's clock and its offset to rank 0's clock at that time, in s."""
    comm, result = layout.comm, (now(), 0.0)
    others = [rank for rank in np.unique(layout.machines).tolist() if rank != layout.machines[0]]
    if not others:
        return result  # one machine, one clock
    for rank in others:
        if comm.rank == 0:
            _answer(comm, rank)
        elif comm.rank == rank:
            result = _ask(comm)
    measured: tuple[float, float] = layout.machine.bcast(result)
    return measured


def _answer(comm: MPI.Intracomm, rank: int) -> None:
    reading = np.zeros(1)
    for _ in range(ROUNDS):
        comm.Recv(reading, rank, _TAG)
        reading[0] = now()
        comm.Send(reading, rank, _TAG)


def _ask(comm: MPI.Intracomm) -> tuple[float, float]:
    best, at, offset = float("inf"), 0.0, 0.0
    reading = np.zeros(1)
    for _ in range(ROUNDS):
        sent = now()
        comm.Send(reading, 0, _TAG)
        comm.Recv(reading, 0, _TAG)
        received = now()
        if received - sent < best:
            best, at = received - sent, (sent + received) / 2
            offset = at - float(reading[0])
    return at, offset
