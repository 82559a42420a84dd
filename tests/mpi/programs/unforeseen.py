"""Rank 0 cannot load the kernels: nobody has foreseen that, and the others wait for it."""

from __future__ import annotations

import time

from mpi4py import MPI

from mlsim.mpi import LoopScheduler, loop_context

comm = MPI.COMM_WORLD


def fail() -> None:
    raise RuntimeError("no kernel can be read")


if comm.rank == 0:
    loop_context.warm_up = fail
    print("now", time.time(), flush=True)
with LoopScheduler(comm, n=10) as loop:
    for _ in loop:
        pass
