"""Executes a loop on nodes of two ranks, and writes it to a directory if one is named."""

from __future__ import annotations

import sys
import time

from mpi4py import MPI

from mlsim.mpi import LoopScheduler

comm = MPI.COMM_WORLD
record = sys.argv[1] if len(sys.argv) > 1 else False
with LoopScheduler(
    comm, n=120, technique="GSS", model="hdca", ranks_per_node=2, record=record, name="recorded", last=True
) as loop:
    for _, size in loop:
        time.sleep(size * 1e-3)
if comm.rank == 0:
    print("ok", loop.report().loop.steps)
