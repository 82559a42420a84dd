"""Loops of all models with fewer and more iterations than ranks, under a thread level of MPI.

MPI4PY_RC_THREAD_LEVEL names the level. Bodies use threads of their own; under `multiple` the last loops are
in one.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from mpi4py import MPI

from mlsim.mpi import LoopScheduler

LEVELS = ("single", "funneled", "serialized", "multiple")
comm = MPI.COMM_WORLD


def each_once(n: int, technique: str, model: str) -> bool:
    """Execute a loop; return whether each iteration was executed once."""
    seen = np.zeros(n, np.int64)

    def visit(k: int) -> None:
        seen[k] += 1

    with ThreadPoolExecutor(2) as pool, LoopScheduler(comm, n=n, technique=technique, model=model) as loop:
        for first, size in loop:
            list(pool.map(visit, range(first, first + size)))
    return bool((comm.allreduce(seen) == 1).all())


def all_models(counts: tuple[int, ...]) -> bool:
    """Execute loops of all models."""
    return all(
        each_once(n, "GSS+SS" if model in ("hdca", "hmw") else "SS", model)
        for model in ("cca", "dca", "hdca", "hmw")
        for n in counts
    )


right = all_models((0, 1, 31))
if os.environ["MPI4PY_RC_THREAD_LEVEL"] == "multiple":
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(all_models((5,))))
    thread.start()
    thread.join()
    right = right and found == [True]
with LoopScheduler(comm, n=1 << 50, technique="STATIC", model="dca") as huge:
    executed = sum(size for _, size in huge)
right = right and comm.allreduce(executed) == 1 << 50
if comm.rank == 0:
    print(right, LEVELS[MPI.Query_thread()])
