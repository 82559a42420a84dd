"""Records a loop under CCA whose master has long chunks, with a log of the master's own iterations."""

from __future__ import annotations

import json
import sys
import time

from mpi4py import MPI

from mlsim.mpi import LoopScheduler

comm = MPI.COMM_WORLD
starts = []
with LoopScheduler(
    comm, n=240, technique="FAC2", model="cca", break_after=int(sys.argv[1]), record=True
) as loop:
    origin = time.perf_counter()
    for _, size in loop:
        if comm.rank == 0:
            starts.append((time.perf_counter(), size))
        time.sleep(size * 5e-3)
if comm.rank == 0:
    chunks = loop.records.chunks
    begin = chunks.start[chunks.pe == 0][0]
    print(
        json.dumps(
            {
                "iterations": [[t - starts[0][0] + begin, size] for t, size in starts],
                "requests": [
                    [int(pe), float(asked)] for pe, asked in zip(chunks.pe, chunks.requested, strict=True)
                ],
                "replies": loop.replies,
            }
        )
    )
