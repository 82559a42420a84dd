"""Measurement of messages, atomics, chunk calculations and loops, for simulations of the same machine.

Run it by ``mlsim mpi calibrate``, or on a cluster as ``srun -N 2 -n 2 python -m mlsim.mpi.calibrate``.
``mlsim mpi validate`` runs it with a plan of loops: ``python -m mlsim.mpi.calibrate PLAN.json``.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI

from mlsim.mpi.apps.synthetic import Synthetic
from mlsim.mpi.chunk_rules import DONE, RecursiveRule, RuleState, StraightforwardRule
from mlsim.mpi.loop_context import Context, library_version
from mlsim.mpi.loop_options import LoopOptions, chosen
from mlsim.mpi.masters import Desk, Worker
from mlsim.mpi.rank_waiting import Patience
from mlsim.mpi.real_validation import unsureness
from mlsim.mpi.scheduler import LoopScheduler

_ROUNDS = 1000
_SLOW_ROUNDS = 40
_PAUSE = 3e-3
_BIG = 1 << 20
_TAG = 900


def calibrate(comm: MPI.Intracomm) -> dict[str, Any]:
    """Measure times in s, the same result on every rank; all ranks must call this.

    ``message``: one way of a message of 16 B, half a round trip. ``noticed``: from sending a message to a
    rank that waits for it as the library does, until that rank has it. ``request``: to make and send a
    request; ``service``: to receive one and reply, without a chunk calculation. ``atomic``: a
    fetch-and-add with its flush. ``atomic_service``: the same with all ranks at once, per atomic.
    ``straightforward``, ``recursive``: one chunk calculation. ``break``: from the end of a piece of a
    master's chunk to the beginning of the next one, if no request waits (0 on a rank alone). ``bandwidth`` in
    B/s. Messages and atomics are between rank 0 and the last rank; ``machines`` is their number.
    """
    context = Context.of(comm, None)
    own = context.layout.comm
    patience = context.patience("auto")
    other = own.size - 1
    result: dict[str, Any] = {
        "library": library_version(),
        "ranks": own.size,
        "machines": len(np.unique(context.layout.machines)),
    }
    if own.size > 1:
        result["message"] = _ping_pong(own, other, patience, 16, _ROUNDS) / 2
        result["bandwidth"] = _BIG / (_ping_pong(own, other, patience, _BIG, 50) / 2)
        result["noticed"] = _noticed(own, other, patience)
        result["request"], result["service"] = _requests(own, other, patience)
    window = context.window(2)
    patience.until(own.Ibarrier().Test)
    alone = _timed(lambda: window.fetch_add(0, 1), _ROUNDS) if own.rank == other else 0.0
    patience.until(own.Ibarrier().Test)
    together = _timed(lambda: window.fetch_add(0, 1), _ROUNDS)
    patience.until(own.Ibarrier().Test)
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
    patience.until(comm.Ibarrier().Test)
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
    patience.until(comm.Ibarrier().Test)
    return float(comm.bcast(max(total, 0.0) / _SLOW_ROUNDS / 2))


def _requests(comm: MPI.Intracomm, other: int, patience: Patience) -> tuple[float, float]:
    """Return the time to make a request, and that of a master to receive one and reply, in s: medians."""
    desk, worker = Desk(comm, _TAG, "fifo", DONE, [other]), Worker(comm, 0, _TAG)
    numbers, times = np.zeros(DONE), []
    for _ in range(_ROUNDS if comm.rank in (0, other) else 0):
        if comm.rank == 0:
            patience.until(lambda: comm.Iprobe(other, MPI.ANY_TAG))
            begin = time.perf_counter()
            desk.look()
            desk.reply(desk.next()[0], (0, 1, 0))
            times.append(time.perf_counter() - begin)
        else:
            begin = time.perf_counter()
            worker.ask(numbers)
            times.append(time.perf_counter() - begin)
            patience.until(worker.has_reply)
            worker.reply()
    patience.until(comm.Ibarrier().Test)
    own = float(np.median(times)) if times else 0.0
    return float(comm.bcast(own, other)), float(comm.bcast(own, 0))


def _pause() -> float:
    begin = time.perf_counter()
    time.sleep(_PAUSE)
    return time.perf_counter() - begin


def _calculations() -> dict[str, float]:
    """Time one chunk calculation of either form, of GSS."""
    n, p = 1_000_000, 64
    choice, _ = chosen(LoopOptions(n=n, technique="GSS", model="cca"), p)
    straightforward = StraightforwardRule(choice, n, p, np.ones(p), 0)
    state = RuleState(np.zeros(RuleState.words(choice, p), np.int64), choice, p)
    recursive = RecursiveRule(choice, state, n, p)
    recursive.begin(n, p, np.ones(p))
    steps = iter(range(1 << 30))
    return {
        "straightforward": _timed(lambda: straightforward.size(next(steps) % 500), _ROUNDS),
        "recursive": _timed(lambda: recursive.size(3, 1000, 0), _ROUNDS),
    }


_PIECE = 100e-6
_SURE = 0.02  # required precision of the mean of a loop's times, as a share
_PARTS, _BATCHES, _LOOPS = 2000, 25, 101


def execute_plan(comm: MPI.Intracomm, plan: dict[str, Any]) -> dict[str, Any]:
    """Execute every loop of a plan; all ranks must call this.

    ``plan`` has ``costs``, the path of an .npy file with the iteration costs (s); ``spins``, whether to
    compute and not to sleep (None: if each rank has a core); ``repetitions`` of each loop at least, and
    ``most`` of those whose times differ; and the options of the ``loops``.

    Of the result, ``machine`` has the measurements of :func:`calibrate`, with ``break`` for the loops' body
    instead of an empty one, and ``spins``; with computing iterations also ``piece``, the time of a part of a
    chunk besides them, and ``first``, the further time of a master's first one, else ``body``, the least time
    of a part (s). ``loops`` has for each the facts of every repetition.
    """
    spins = plan["spins"]
    if spins is None:  # with a core for every rank, where ranks that wait would poll
        ranks_here = Context.of(comm, None).layout.machine.size
        spins = bool(comm.allreduce(not Patience("auto", ranks_here).sleeps, MPI.LAND))
    application = Synthetic(np.concatenate([[0.0], np.cumsum(np.load(plan["costs"]))]), spins)
    machine = calibrate(comm) | (_computing(comm) if spins else _sleeping(comm))
    runs: list[list[dict[str, Any]]] = [[] for _ in plan["loops"]]
    # Repetitions go round, so that a disturbance of some seconds does not hit all those of one loop.
    done, again = 0, list(range(len(runs)))
    while again and done < plan["most"]:
        for row in again:
            application.begin()
            with LoopScheduler(comm, n=application.n, **plan["loops"][row]) as loop:
                for first, size in loop:
                    application.execute(first, size)
            totals = loop.report().loop
            if totals is not None:
                runs[row].append(totals.facts())
        done += 1
        if done >= plan["repetitions"]:
            again = comm.bcast([row for row in again if _is_unsure(runs[row])])
    return {"machine": machine, "loops": runs}


def _is_unsure(runs: list[dict[str, Any]]) -> bool:
    """Return whether a loop's times differ too much for what is known of their mean; on rank 0."""
    times = [run["t_loop"] for run in runs]
    return len(times) >= 4 and unsureness(times) > _SURE


def _computing(comm: MPI.Intracomm) -> dict[str, Any]:
    """Measure what parts take besides their iterations that compute, and a master's breaks besides both."""
    application = Synthetic(np.zeros(_PARTS + 1), True)
    times = []
    for _ in range(_BATCHES):
        with LoopScheduler(MPI.COMM_SELF, n=_PARTS, technique="AF", pieces=0) as loop:
            begin = time.perf_counter()
            for first, size in loop:
                application.execute(first, size)
            times.append((time.perf_counter() - begin) / _PARTS)
    part = float(comm.bcast(min(times)))
    broken = piece_time(comm, lambda: application.execute(0, 1))
    longer = max(_first_part(comm, application) - part, 0.0)
    return {"break": max(broken - part, 0.0), "piece": part, "first": longer, "spins": True}


def _first_part(comm: MPI.Intracomm, application: Synthetic) -> float:
    """Return how long a master's first part takes: what it needs is in no cache, and cores have slept."""
    times = []
    for _ in range(_LOOPS):
        with LoopScheduler(comm, n=comm.size, technique="SS", model="cca", record=True) as loop:
            for first, size in loop:
                application.execute(first, size)
        if loop.records is not None:
            chunks = loop.records.chunks
            times += (chunks.end - chunks.start)[chunks.first == 0].tolist()
    return float(comm.bcast(float(np.median(times)) if times else 0.0))


def _sleeping(comm: MPI.Intracomm) -> dict[str, Any]:
    """Measure breaks between parts that sleep, and the shortest of these."""
    application = Synthetic(np.array([0.0, _PIECE, _PIECE]), False)
    broken = max(piece_time(comm, lambda: application.execute(0, 1)) - _PIECE, 0.0)
    shortest = piece_time(comm, lambda: application.execute(1, 1))
    return {"break": broken, "body": max(shortest - broken, 0.0), "spins": False}


if __name__ == "__main__":
    if len(sys.argv) > 1:
        the_plan = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
        result = execute_plan(MPI.COMM_WORLD, the_plan)
    else:
        result = calibrate(MPI.COMM_WORLD)
    if MPI.COMM_WORLD.rank == 0:
        text = json.dumps(result)
        if len(sys.argv) > 1:
            Path(the_plan["out"]).write_text(text, encoding="utf-8")
        else:
            print(text, flush=True)
