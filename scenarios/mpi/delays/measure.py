"""Loops under delayed chunk calculations, executed for real (Eleliemy 2021, §7.1.1).

Usage: mpiexec -n RANKS python scenarios/mpi/delays/measure.py WORK --out FILE.csv [--repetitions 20]

WORK is ``compute``, for ranks that have a core each: PSIA and Mandelbrot, all steps of every pixel done; or
``sleep``, for more ranks than cores: iterations sleep for what those of the two profiles cost. Every
technique is executed under CCA and DCA with delays of 0, 10 and 100 µs. Repetitions go round all of these, in
another order each time, so that a disturbance of some seconds does not hit all repetitions of one loop.
What FILE.csv has already is not measured again.
"""

from __future__ import annotations

import argparse
import csv
import itertools
from pathlib import Path
from typing import NamedTuple

import numpy as np
from mpi4py import MPI

from mlsim.application.profiles.counted_costs import MandelbrotImage, SpinImage
from mlsim.mpi import LoopScheduler
from mlsim.mpi.apps.common import Application, in_turns
from mlsim.mpi.apps.mandelbrot import Mandelbrot
from mlsim.mpi.apps.psia import Psia
from mlsim.mpi.apps.synthetic import Synthetic

TECHNIQUES = ("STATIC", "SS", "mFSC", "GSS", "TSS", "FAC2", "TFSS", "FISS", "VISS", "RND", "PLS", "AF")
MODELS = ("cca", "dca")
DELAYS = (0.0, 10e-6, 100e-6)
COLUMNS = ("application", "technique", "model", "delay", "repetition", "t_loop", "chunks")
SPIN_IMAGES, PIXELS, STEPS = 4000, 128, 20000
SLEEPERS, WIDTH, SLEEP = 2048, 45, 1e-3


class Case(NamedTuple):
    """One loop."""

    application: str
    technique: str
    model: str
    delay: float


def computing(name: str) -> Application:
    """Make an application that computes."""
    if name == "psia":
        return Psia(SPIN_IMAGES, 2000, 0, SpinImage(bin_size=0.05))
    return Mandelbrot(MandelbrotImage(PIXELS), STEPS, every_step=True)


def sleeping(name: str) -> Application:
    """Make a loop that sleeps for what an application's iterations cost, 1 ms on average."""
    from mlsim.cosim.simulation import loop_costs
    from mlsim.experiment import loop_from_mapping

    costs: dict[str, object] = {"profile": name, "mean": f"{SLEEP} s"}
    psia = {"points": SLEEPERS, "bin_size": 0.05}
    costs["parameters"] = psia if name == "psia" else {"size": WIDTH, "limit": STEPS}
    platform = {"nodes": [{"name": "n", "count": 1, "cores": 1}]}
    application = {"model": "loop", "technique": "SS", "costs": costs}
    if name == "psia":
        application["iterations"] = {"count": SLEEPERS}
    scenario = {"platform": platform, "application": application}
    return Synthetic(loop_costs(loop_from_mapping(scenario, {})), spins=False)


def measure(application: Application, case: Case, comm: MPI.Intracomm) -> tuple[float, int] | None:
    """Execute a loop; return T_loop and the number of chunks on rank 0."""
    application.begin()
    options = {"technique": case.technique, "model": case.model, "injected_delay": case.delay}
    with LoopScheduler(comm, n=application.n, **options) as loop:
        for first, size in loop:
            application.execute(first, size)
    totals = loop.report().loop
    return None if totals is None else (totals.t_loop, totals.steps)


def begun(out: Path, comm: MPI.Intracomm) -> int:
    """Return how many repetitions a file has; make it with its header if it is not there."""
    if comm.rank != 0:
        return int(comm.bcast(None))
    if not out.exists():
        with out.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerow(COLUMNS)
    with out.open(newline="", encoding="utf-8") as file:
        return int(comm.bcast(1 + max((int(row["repetition"]) for row in csv.DictReader(file)), default=-1)))


def main() -> None:
    """Read the options, execute, write a row a loop."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("work", choices=("compute", "sleep"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--technique", default=",".join(TECHNIQUES))
    given = parser.parse_args()
    comm = MPI.COMM_WORLD
    make = computing if given.work == "compute" else sleeping
    made = {name: in_turns(comm, lambda name=name: make(name)) for name in ("psia", "mandelbrot")}
    cases = list(itertools.starmap(Case, itertools.product(made, given.technique.split(","), MODELS, DELAYS)))
    for case in cases[:: len(DELAYS)]:
        measure(made[case.application], case, comm)  # windows are made, kernels loaded
    for repetition in range(begun(given.out, comm), given.repetitions):
        order = np.random.default_rng(repetition).permutation(len(cases))
        rows = []
        for case in (cases[row] for row in order):
            found = measure(made[case.application], case, comm)
            if found is not None:
                rows.append((*case, repetition, *found))
        if comm.rank == 0:
            with given.out.open("a", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows(rows)


if __name__ == "__main__":
    main()
