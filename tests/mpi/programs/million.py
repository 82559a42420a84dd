"""A million chunks of SS; prints by how much memory grew from the first tenth to the end, in kB."""

from __future__ import annotations

import resource

from mpi4py import MPI

from mlsim.mpi import LoopScheduler

comm = MPI.COMM_WORLD
early = 0
with LoopScheduler(comm, n=1_000_000, technique="SS", model="dca", wait="spin") as loop:
    for start, _ in loop:
        if early == 0 and start > 100_000:
            early = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - early
most = comm.allreduce(grown if early else 0, MPI.MAX)
if comm.rank == 0:
    print(loop.report().loop.steps, most)
