"""Ranks that come late, or are stopped: the others say so, and go on when they are there.

Rank 1 goes on when rank 0 has warned. Usage: late.py MODEL
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from typing import Any

from mpi4py import MPI

from mlsim.errors import InputError
from mlsim.mpi import LoopScheduler

comm = MPI.COMM_WORLD
process = comm.bcast(os.getpid(), 1)
said: list[str] = []


def go_on(message: object, *_: object) -> None:
    """Take a warning of rank 0 as the sign for rank 1."""
    said.append(str(message))
    if comm.rank == 0:
        if "stopped" in said[-1]:
            os.kill(process, signal.SIGCONT)
        else:
            comm.isend(None, 1, 77).wait()


warnings.showwarning = go_on
options: dict[str, Any] = {"n": 60, "technique": "SS", "model": sys.argv[1], "wait": "sleep"}


def executed(loop: LoopScheduler, *, stops: bool = False) -> int:
    """Execute a loop; rank 1 stops itself amid its first chunk if told to."""
    total = 0
    for _, size in loop:
        if stops and comm.rank == 1 and not total:
            os.kill(os.getpid(), signal.SIGSTOP)
        total += size
    return total


if comm.rank == 1:
    comm.recv(source=0, tag=77)
with LoopScheduler(comm, name="late", warn_after=0.2, **options) as loop:
    done = executed(loop)
assert comm.allreduce(done) == 60
loop = LoopScheduler(comm, name="outside", warn_after=0.2, **options)
if comm.rank == 1:
    comm.recv(source=0, tag=77)
with loop:
    done = executed(loop)
assert comm.allreduce(done) == 60
options["technique"] = "STATIC"  # every rank has a chunk
with LoopScheduler(comm, warn_after=0.2, **options) as loop:
    done = executed(loop, stops=True)
assert comm.allreduce(done) == 60
if comm.rank == 0:
    print("\n".join(said), flush=True)

problems = []
loop = LoopScheduler(comm, **options)
try:
    executed(loop)
except InputError as error:
    problems.append(str(error))
with loop:
    executed(loop)
half = comm.Split(comm.rank % 2)
both = half.Create_intercomm(0, comm, 1 - comm.rank % 2)
try:
    LoopScheduler(both, **options)
except InputError as error:
    problems.append(str(error))
if comm.rank == 0:
    print("\n".join(problems), flush=True)
