"""Loops of fine chunks under HDCA; rank 0 prints `ok` and the number of ranks in the end."""

from __future__ import annotations

from typing import Any

import numpy as np
from mpi4py import MPI

from mlsim.mpi import LoopScheduler
from mlsim.mpi.rma_models import HierarchicalModel

N = 3_000
comm = MPI.COMM_WORLD


def executed(technique: str, **options: Any) -> None:
    """Execute a loop; check its iterations, and the chunks that it has recorded."""
    hits = np.zeros(N, np.int64)
    with LoopScheduler(comm, n=N, technique=technique, model="hdca", record=True, **options) as loop:
        for start, size in loop:
            hits[start : start + size] += 1
    total = np.zeros_like(hits)
    comm.Allreduce(hits, total)
    assert (total == 1).all(), (technique, options)
    if comm.rank == 0:
        chunks = loop.records.chunks
        order = np.argsort(chunks.first)
        assert chunks.size.sum() == N
        assert (np.diff(chunks.first[order]) == chunks.size[order][:-1]).all()
        # Each chunk of the node begins with step 0, and its parts are in order of their steps.
        steps = chunks.step[order]
        assert ((np.diff(steps) == 1) | (steps[1:] == 0)).all(), (technique, options)


for technique in ("SS+SS", "GSS+SS", "AF+SS", "SS+AF"):
    for options in ({}, {"ranks_per_node": 2}, {"lock": "polling"}):
        executed(technique, **options)

# Every rank that had to wait draws a ticket.
original = HierarchicalModel.__init__


def patient(self: HierarchicalModel, setting: Any) -> None:
    original(self, setting)
    self._relay._draws_at = 0


HierarchicalModel.__init__ = patient  # type: ignore[method-assign]
executed("SS+SS")
executed("GSS+SS", ranks_per_node=2)
comm.Barrier()
if comm.rank == 0:
    print("ok", comm.size)
