"""Executes a plan of loops for real: ``python -m mlsim.mpi.native_plan PLAN.json``."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI

from mlsim.mpi.apps.common import facts
from mlsim.mpi.apps.synthetic import Synthetic
from mlsim.mpi.calibrate import calibrate, piece_time
from mlsim.mpi.loop_context import Context
from mlsim.mpi.rank_waiting import Patience
from mlsim.mpi.real_validation import unsureness
from mlsim.mpi.scheduler import LoopScheduler

_PIECE = 100e-6
_SURE = 0.02
"""Required precision of the mean of a loop's times, as a share."""
_PARTS, _BATCHES, _LOOPS = 2000, 25, 101


def execute_plan(comm: MPI.Intracomm, plan: dict[str, Any]) -> dict[str, Any]:
    """Execute every loop of a plan; all ranks must call this.

    Parameters
    ----------
    plan
        ``costs``: path of an .npy file with the iteration costs [s]; ``spins``: whether to compute and not
        to sleep, None: if each rank has a core; ``repetitions``: of each loop at least; ``most``: of those
        whose times differ; ``loops``: the options of each.

    Returns
    -------
    dict
        ``machine``: measurements of :func:`calibrate`, with ``break`` for the loops' body instead of an empty
        one, and ``spins``. With computing iterations also ``piece``, the time of a part of a chunk besides
        them, and ``first``, the further time of a master's first one; else ``body``, the least time of a part
        [s]. ``loops``: for each the facts of every repetition.
    """
    spins = _has_cores(comm) if plan["spins"] is None else bool(plan["spins"])
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
                runs[row].append(facts(totals))
        done += 1
        if done >= plan["repetitions"]:
            again = comm.bcast([row for row in again if _is_unsure(runs[row])])
    return {"machine": machine, "loops": runs}


def _is_unsure(runs: list[dict[str, Any]]) -> bool:
    """Return whether a loop's times differ too much for what is known of their mean; on rank 0."""
    times = [run["t_loop"] for run in runs]
    return len(times) >= 4 and unsureness(times) > _SURE


def _has_cores(comm: MPI.Intracomm) -> bool:
    """Return whether every rank has a core to itself: whether ranks that wait would poll."""
    machine = Context.of(comm, None).layout.machine
    return bool(comm.allreduce(not Patience("auto", machine.size).sleeps, MPI.LAND))


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
    the_plan = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    outcome = execute_plan(MPI.COMM_WORLD, the_plan)
    if MPI.COMM_WORLD.rank == 0:
        Path(the_plan["out"]).write_text(json.dumps(outcome), encoding="utf-8")
