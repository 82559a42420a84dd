"""Each rank executes an iteration of a loop, as long as it is told; tells its end, and the CPU time after it.

Usage: sleeps.py LOOPS SECONDS... (of the ranks, in every loop)
"""

from __future__ import annotations

import sys
import time

from mpi4py import MPI

from mlsim.mpi import LoopScheduler

comm = MPI.COMM_WORLD
loops, seconds = int(sys.argv[1]), [float(word) for word in sys.argv[2:]]
ended = used = 0.0
with LoopScheduler(comm, n=comm.size, technique="STATIC") as loop:
    assert sum(size for _, size in loop) <= comm.size  # all that is done once in a process is done here
for number in range(loops):
    with LoopScheduler(comm, n=comm.size, technique="STATIC", last=number == loops - 1) as loop:
        for first, size in loop:
            time.sleep(sum(seconds[first : first + size]))
        ended, used = time.time(), time.process_time()
idle = time.time() - ended
comm.Barrier()
print(f"rank {comm.rank} ended {ended:.6f} idle {idle:.6f} used {time.process_time() - used:.6f}", flush=True)
