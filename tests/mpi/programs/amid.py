"""A loop amid which techniques are chosen. Usage: amid.py MASTER PORTFOLIO"""

from __future__ import annotations

import sys
import time

import numpy as np
from mpi4py import MPI

from mlsim.errors import InputError
from mlsim.mpi import LoopScheduler

comm = MPI.COMM_WORLD
master, portfolio = sys.argv[1], sys.argv[2].split(",")
selection = {"method": "simulation", "portfolio": portfolio, "every": 0.1, "share": 1.0}
N = 120
before = None
for step in range(2):
    with LoopScheduler(
        comm,
        n=N,
        technique="auto",
        model="cca",
        master=master,
        after=before,
        selection=selection,
        wait="sleep",
        record=True,
        last=step == 1,
    ) as loop:
        counts = np.zeros(N, np.int64)
        for first, size in loop:
            time.sleep(size * (0.006 if comm.rank == comm.size - 1 else 0.002))
            counts[first : first + size] += 1
    assert (comm.allreduce(counts) == 1).all()
    before = loop
    if comm.rank == 0:
        chunks = loop.records.chunks
        assert len(set(chunks.step.tolist())) == len(chunks.step)
selected = loop.selected
if comm.rank == 0:
    starts = [row for row, one in enumerate(selected) if one.iterations == 0]
    assert len(starts) == 2
    assert loop.selection_time == sum(one.spent for one in selected[starts[1] :])
    assert all(one.technique in portfolio for one in selected)
    assert [one.begin for one in selected] == sorted(one.begin for one in selected)
    for row, one in enumerate(selected[1:], 1):
        assert one.iterations == 0 or one.iterations >= selected[row - 1].iterations
    print(*(f"{one.technique}:{one.iterations}" for one in selected), flush=True)
problem = ""
for model, options in (("dca", {}), ("cca", {"compat": "lb4mpi"})):
    try:
        LoopScheduler(comm, n=N, technique="auto", model=model, selection=selection, **options)
    except InputError as error:
        problem += str(error) + "\n"
if comm.rank == 0:
    print(problem, end="", flush=True)
