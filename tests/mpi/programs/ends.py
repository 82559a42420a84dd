"""Ends a loop in a bad way: `raise`, `kill`, `technique`; on the rank, under the model that are named.

`hold`: the rank is killed while it holds the queue of its node; `interrupt`: it holds that for ever, and
interrupts the next rank, which waits.
"""

from __future__ import annotations

import os
import signal
import sys
import time

from mpi4py import MPI

from mlsim.mpi import LoopScheduler
from mlsim.mpi.rma_models import enter

what, model, who = sys.argv[1], sys.argv[2], int(sys.argv[3])
comm = MPI.COMM_WORLD
technique = sys.argv[4] if what == "technique" else "SS"
processes = comm.allgather(os.getpid())
began = time.time()
if comm.rank == 0 and what == "technique":
    print("now", began, flush=True)
with LoopScheduler(comm, n=100_000, technique=technique, model=model) as loop:
    for start, _ in loop:
        time.sleep(1e-3)
        if start > 50 and comm.rank == who and what != "technique":
            print("now", time.time(), flush=True)
            if what == "raise":
                raise ValueError("the body broke")
            if what in ("hold", "interrupt"):
                enter(loop._model._relay)
            if what == "interrupt":
                os.kill(processes[(who + 1) % comm.size], signal.SIGINT)
                time.sleep(60.0)
            os.kill(os.getpid(), signal.SIGKILL)
