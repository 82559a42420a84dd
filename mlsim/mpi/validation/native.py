"""Executes a plan of loops for real: ``python -m mlsim.mpi.validation.native PLAN.json``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI

from mlsim.mpi.apps.common import facts
from mlsim.mpi.apps.synthetic import Synthetic
from mlsim.mpi.calibrate import calibrate, piece_time
from mlsim.mpi.scheduler import LoopScheduler

__all__ = ["execute_plan"]

_PIECE = 100e-6


def execute_plan(comm: MPI.Intracomm, plan: dict[str, Any]) -> dict[str, Any]:
    """Execute every loop of a plan; all ranks must call this.

    Parameters
    ----------
    comm
        The ranks.
    plan
        ``costs``: path of an .npy file with the iteration costs in s; ``spins``: whether to compute and not
        to sleep; ``repetitions``; ``loops``: the options of each.

    Returns
    -------
    dict
        ``machine``: what :func:`calibrate` measured, with ``break`` for the loops' body instead of an empty
        one, and besides ``body``, what that takes at least, in s, and ``spins``; ``loops``: for each the
        facts of every repetition.
    """
    application = Synthetic(np.concatenate([[0.0], np.cumsum(np.load(plan["costs"]))]), plan["spins"])
    machine = calibrate(comm) | _body(comm, plan["spins"])
    runs: list[list[dict[str, Any]]] = [[] for _ in plan["loops"]]
    # Repetitions go round, so that a disturbance of some seconds does not hit all those of one loop.
    for _ in range(plan["repetitions"]):
        for row, options in enumerate(plan["loops"]):
            application.begin()
            with LoopScheduler(comm, n=application.n, **options) as loop:
                for first, size in loop:
                    application.execute(first, size)
            totals = loop.report().loop
            if totals is not None:
                runs[row].append(facts(totals))
    return {"machine": machine, "loops": runs}


def _body(comm: MPI.Intracomm, spins: bool) -> dict[str, Any]:
    """Measure breaks between pieces of the synthetic application, and its shortest piece."""
    application = Synthetic(np.array([0.0, _PIECE, _PIECE]), spins)
    broken = max(piece_time(comm, lambda: application.execute(0, 1)) - _PIECE, 0.0)
    shortest = piece_time(comm, lambda: application.execute(1, 1))
    return {"break": broken, "body": max(shortest - broken, 0.0), "spins": spins}


if __name__ == "__main__":
    the_plan = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    outcome = execute_plan(MPI.COMM_WORLD, the_plan)
    if MPI.COMM_WORLD.rank == 0:
        Path(the_plan["out"]).write_text(json.dumps(outcome), encoding="utf-8")
