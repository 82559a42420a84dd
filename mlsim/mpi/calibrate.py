"""Measurement of messages, atomics and chunk calculations, for simulations of the same machine.

Run it by ``mlsim mpi calibrate``, or on a cluster as ``srun -N 2 -n 2 python -m mlsim.mpi.calibrate``.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from mpi4py import MPI

from mlsim.application.techniques import Choice
from mlsim.mpi.chunk_rules import RecursiveRule, RuleState, StraightforwardRule
from mlsim.mpi.loop_context import Context
from mlsim.mpi.rank_waiting import Patience
from mlsim.mpi.scheduler import LoopScheduler

_ROUNDS = 1000
_SLOW_ROUNDS = 40
_PAUSE = 3e-3
_BIG = 1 << 20
_TAG = 900


def calibrate(comm: MPI.Intracomm) -> dict[str, Any]:
    """Measure; all ranks must call this.

    Returns
    -------
    dict
        In s, on every rank. ``message``: one way of a message of 16 B, half a round trip. ``noticed``: from
        sending a message to a rank that waits for it as the library does, until that rank has it. ``atomic``:
        a fetch-and-add with its flush. ``atomic_service``: the same with all ranks at once, per atomic.
        ``straightforward``, ``recursive``: one chunk calculation. ``break``: from the end of a piece of a
        master's chunk to the beginning of the next one, if no request waits (0 on a rank alone).
        ``bandwidth`` in B/s. Messages and atomics are between rank 0 and the last rank; ``machines`` is
        their number.
    """
    context = Context.of(comm, None)
    own = context.layout.comm
    patience = context.patience("auto")
    other = own.size - 1
    result: dict[str, Any] = {
        "library": MPI.Get_library_version().split("\n")[0].strip("\0 "),
        "ranks": own.size,
        "machines": len(np.unique(context.layout.machines)),
    }
    if own.size > 1:
        result["message"] = _ping_pong(own, other, patience, 16, _ROUNDS) / 2
        result["bandwidth"] = _BIG / (_ping_pong(own, other, patience, _BIG, 50) / 2)
        result["noticed"] = _noticed(own, other, patience)
    window = context.window(2)
    _meet(own, patience)
    alone = _timed(lambda: window.fetch_add(0, 1), _ROUNDS) if own.rank == other else 0.0
    _meet(own, patience)
    together = _timed(lambda: window.fetch_add(0, 1), _ROUNDS)
    _meet(own, patience)
    result["atomic"] = own.bcast(alone, other)
    result["atomic_service"] = own.allreduce(together) / own.size**2
    context.put_back(window)
    for name, seconds in _calculations().items():
        result[name] = own.bcast(seconds)
    result["break"] = piece_time(own, lambda: None)
    measured: dict[str, Any] = own.bcast(result)
    return measured


def piece_time(comm: MPI.Intracomm, body: Callable[[], object], pieces: int = 200) -> float:
    """Return the time of a piece of a master's chunk and the break after it [s]; all ranks must call this.

    Rank 0 executes ``body`` in each piece. On one rank there are no breaks, and the result is 0. The quickest
    of five batches of ``pieces`` counts: in the others another process may have had the core.
    """
    means = []
    for _ in range(5 if comm.size > 1 else 0):
        begin = end = 0.0
        with LoopScheduler(
            comm, n=pieces * comm.size, technique="STATIC", model="cca", break_after=1
        ) as loop:
            for first, _ in loop:
                if comm.rank == 0:
                    end = time.perf_counter()
                    begin = begin if first else end
                    body()
        means.append((end - begin) / (pieces - 1))
    return float(comm.bcast(min(means, default=0.0)))


def _meet(comm: MPI.Intracomm, patience: Patience) -> None:
    patience.until(comm.Ibarrier().Test)


def _timed(action: Callable[[], object], rounds: int) -> float:
    """Return the time of a call, the median of ten batches, in s."""
    times = []
    for _ in range(10):
        begin = time.perf_counter()
        for _ in range(rounds // 10):
            action()
        times.append((time.perf_counter() - begin) / (rounds // 10))
    return float(np.median(times))


def _ping_pong(comm: MPI.Intracomm, other: int, patience: Patience, size: int, rounds: int) -> float:
    """Return the round-trip time between rank 0 and another rank, in s: the first quartile.

    In the slower ones another process may have had the core.
    """
    sent, got, times = np.zeros(size, np.uint8), np.zeros(size, np.uint8), []
    takes_part, peer = comm.rank in (0, other), 0 if comm.rank else other
    for _ in range(rounds if takes_part else 0):
        begin = time.perf_counter()
        request = comm.Irecv(got, peer, _TAG)
        if comm.rank == 0:
            comm.Send(sent, other, _TAG)
        patience.until(request.Test)
        if comm.rank != 0:
            comm.Send(sent, 0, _TAG)
        times.append(time.perf_counter() - begin)
    _meet(comm, patience)
    return float(comm.bcast(float(np.percentile(times, 25)) if times else 0.0))


def _noticed(comm: MPI.Intracomm, other: int, patience: Patience) -> float:
    """Return the time from sending a message until a rank that waits as the library does has it, in s.

    Half of a round trip in which both ranks pause before they answer, less the pauses.
    """
    buffer, total = np.zeros(16, np.uint8), 0.0
    for _ in range(_SLOW_ROUNDS):
        if comm.rank not in (0, other):
            break
        peer = other if comm.rank == 0 else 0
        paused = 0.0
        begin = time.perf_counter()
        if comm.rank == 0:
            paused = _pause()
            comm.Send(buffer, peer, _TAG)
        request = comm.Irecv(buffer, peer, _TAG)
        patience.until(request.Test)
        end = time.perf_counter()
        if comm.rank == other:
            paused = _pause()
            comm.Send(np.full(2, paused).view(np.uint8), peer, _TAG)
        else:
            total += end - begin - paused - float(buffer.view(np.float64)[0])
    _meet(comm, patience)
    return float(comm.bcast(max(total, 0.0) / _SLOW_ROUNDS / 2))


def _pause() -> float:
    begin = time.perf_counter()
    time.sleep(_PAUSE)
    return time.perf_counter() - begin


def _calculations() -> dict[str, float]:
    """Time one chunk calculation of either form, of GSS."""
    from mlsim.techniques import TECHNIQUES
    from mlsim.techniques.technique_entry import PARAMETERS

    n, p = 1_000_000, 64
    choice = Choice("GSS", TECHNIQUES["GSS"].code, 1, np.zeros(PARAMETERS), np.ones(p))
    straightforward = StraightforwardRule(choice, n, p, np.ones(p), 0)
    state = RuleState(np.zeros(RuleState.words(choice, p), np.int64), choice, p)
    recursive = RecursiveRule(choice, state, n, p)
    recursive.begin(n, p, np.ones(p))
    steps = iter(range(1 << 30))
    return {
        "straightforward": _timed(lambda: straightforward.size(next(steps) % 500), _ROUNDS),
        "recursive": _timed(lambda: recursive.size(3, 1000, 0), _ROUNDS),
    }


if __name__ == "__main__":
    measured = calibrate(MPI.COMM_WORLD)
    if MPI.COMM_WORLD.rank == 0:
        json.dump(measured, sys.stdout)
        print(flush=True)
