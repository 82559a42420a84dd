"""Records loops under CCA with a slow master, until one has requests that meet it at work."""

from __future__ import annotations

import json
import sys
import time

from mpi4py import MPI

from mlsim.mpi import LoopScheduler
from mlsim.mpi.loop_report import iterations_begun


def met_at_work(loop):
    """Tell whether a request was sent while the master executed a chunk."""
    chunks, sent = loop.records.chunks, loop.requests.sent[:, None]
    own = chunks.pe == 0
    return bool(((sent > chunks.start[own]) & (sent < chunks.end[own])).any())


comm = MPI.COMM_WORLD
met = False
while not met:  # a loop whose workers lose their cores for long may have none
    own = []
    with LoopScheduler(
        comm, n=300, technique="FAC2", model="cca", break_after=int(sys.argv[1]), record=True
    ) as loop:
        for _, size in loop:
            own.append(size)
            time.sleep(size * (2e-3 if comm.rank == 0 else 1e-4))
    met = comm.bcast(comm.rank == 0 and met_at_work(loop))
chunks = comm.gather(loop.report().chunks)
if comm.rank == 0:
    loop.write(sys.argv[2])
    log = loop._model.request_log
    (received, who), (answered, whom), (begun, sizes) = (
        moments.columns() for moments in (log.received, log.answered, log.begun)
    )
    kept = [
        int(iterations_begun(received[who == rank], answered[whom == rank], begun, sizes).sum())
        for rank in range(1, comm.size)
    ]
    print(json.dumps({"pieces": own, "noted": sizes.tolist(), "chunks": chunks, "kept": kept}))
