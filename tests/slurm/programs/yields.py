"""A loop of many short iterations, which can go on with fewer nodes."""

from __future__ import annotations

import sys
import time

from mpi4py import MPI

from mlsim.mpi import LoopScheduler

comm = MPI.COMM_WORLD
done = 0
with LoopScheduler(comm, n=400, technique="SS", model="dca", last=True) as loop:
    for _, size in loop:
        for _ in range(size):
            time.sleep(float(sys.argv[1]))
        done += size
total = comm.allreduce(done)
print(f"rank {comm.rank} did {done} of {total}", flush=True)
