"""Repetitions of loops, of which the times of none, or of all, differ too much. Usage: repeated.py SURE"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
from mpi4py import MPI

from mlsim.mpi import calibrate as native

comm = MPI.COMM_WORLD
with tempfile.TemporaryDirectory() as directory:
    costs = Path(directory) / "costs.npy"
    np.save(costs, np.full(40, 1e-5))
    native._SURE = float(sys.argv[1])
    plan = {"costs": str(costs), "spins": False, "repetitions": 5, "most": 9}
    plan["loops"] = [{"technique": name, "model": "dca"} for name in ("STATIC", "SS")]
    loops = native.execute_plan(comm, plan)["loops"]
if comm.rank == 0:
    print("repetitions", *map(len, loops))
