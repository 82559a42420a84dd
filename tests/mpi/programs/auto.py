"""Loops whose techniques are chosen. Usage: auto.py METHOD MODEL"""

from __future__ import annotations

import sys
import time

import numpy as np
import pytest
from mpi4py import MPI

from mlsim.errors import InputError
from mlsim.mpi import LoopScheduler

comm = MPI.COMM_WORLD
method, model = sys.argv[1:3]
selection = {"method": method, "portfolio": ["STATIC", "GSS", "SS"], "share": 1.0}
before = None
names = []
for step in range(5):
    with LoopScheduler(
        comm,
        n=24,
        technique="auto",
        model=model,
        after=before,
        selection=selection,
        wait="sleep",
        last=step == 4,
    ) as loop:
        done = 0
        for first, size in loop:
            # The first iterations are dear, so that equal chunks are not equal work.
            time.sleep(sum(0.008 if i < 8 else 0.0005 for i in range(first, first + size)))
            done += size
    assert comm.allreduce(done) == 24
    names.append(loop.options.technique)
    assert len(set(comm.allgather(loop.options.technique))) == 1
    before = loop
selected = loop.selected
if comm.rank == 0:
    assert [one.technique for one in selected] == names
    assert all(one.t_loop > 0.0 for one in selected)
    assert loop.selection_time == selected[-1].spent
    print(*names, flush=True)
else:
    assert not selected
if method == "simulation":
    # Known costs, which only rank 0 needs.
    known = np.where(np.arange(24) < 8, 0.008, 0.0005) if comm.rank == 0 else None
    for step in range(2):
        with LoopScheduler(
            comm,
            n=24,
            technique="auto",
            model=model,
            after=before if step else None,
            selection={**selection, "costs": "profile"},
            profile=known,
            wait="sleep",
        ) as loop:
            for first, size in loop:
                time.sleep(sum(0.008 if i < 8 else 0.0005 for i in range(first, first + size)))
        before = loop
    assert comm.bcast(loop.options.technique) == loop.options.technique
    for costs, given in (("profile", None), ("profile", [1.0]), ("measured", [1.0] * 24)):
        chosen = {**selection, "costs": costs}
        with pytest.raises(InputError, match="profile"):
            LoopScheduler(comm, n=24, technique="auto", selection=chosen, profile=given)
try:
    LoopScheduler(comm, n=24, technique="GSS", selection=selection)
except InputError as error:
    problem = str(error)
try:
    LoopScheduler(comm, n=24, technique="auto", selection={"method": "guess"})
except InputError as error:
    problem += "\n" + str(error)
if comm.rank == 0:
    print(problem, flush=True)
