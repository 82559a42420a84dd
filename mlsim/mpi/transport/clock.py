"""One time for all ranks of a loop.

Ranks of one machine read one clock (``time.perf_counter``, Linux's CLOCK_MONOTONIC), so only machines
differ. The lowest rank of each measures its offset to rank 0 by ping-pong, when the loop begins and when it
has ended: of ``ROUNDS`` rounds, the one with the shortest round trip counts, with rank 0's reading taken for
the middle of it (Cristian 1989), which is wrong by half the round trip at most. In between, the offset is
interpolated linearly, which takes out a constant drift.
"""

from __future__ import annotations

import time

import numpy as np
from mpi4py import MPI

from mlsim._arrays import Floats
from mlsim.mpi.transport.layout import Layout

__all__ = ["ROUNDS", "Clock"]


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
