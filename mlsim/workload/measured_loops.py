"""Parallel loops that tools measured in real programs, written as a workload directory."""

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np

from mlsim._runtime.arrays import Floats
from mlsim.workload.parquet_log import write_parquet_blocks
from mlsim.workload.run_log import JOBS_FILE, keep_costs
from mlsim.workload.workload_jobs import NamedColumns

_WALLTIME = 2.0  # times the run time: programs have none, and a loop may take longer in a simulation


@dataclass(frozen=True)
class MeasuredLoop:
    """One execution of a parallel loop."""

    name: str  # its place in the program
    process: str
    threads: int
    start: float  # s from the start of the record
    seconds: float  # until its last thread finished
    iterations: int
    technique: str = ""  # empty where it is unknown
    costs: Floats | None = None  # of each iteration [s]


def write_loops(directory: Path, loops: Sequence[MeasuredLoop]) -> dict[str, int]:
    """Write a workload directory with one job per loop; return counts of jobs and of unknown facts.

    The executions of a loop by one process, on as many threads, with as many iterations and one technique are
    time steps of one job; its costs are the means over them.
    """
    of: dict[tuple[object, ...], list[MeasuredLoop]] = {}
    for loop in loops:
        key = (loop.process, loop.name, loop.threads, loop.iterations, loop.technique)
        of.setdefault(key, []).append(loop)
    jobs = sorted(of.values(), key=lambda steps: min(step.start for step in steps))
    run_time = np.array([sum(step.seconds for step in steps) for steps in jobs])
    first = [steps[0] for steps in jobs]
    columns: NamedColumns = {
        "job_id": np.arange(1, len(jobs) + 1),
        "submit_time": np.array([min(step.start for step in steps) for steps in jobs]),
        "run_time": run_time,
        "walltime": _WALLTIME * run_time,
        "processors": np.array([loop.threads for loop in first]),
        "group": [loop.process for loop in first],
        "executable": [loop.name for loop in first],
        "technique": [loop.technique for loop in first],
        "steps": np.array([len(steps) for steps in jobs]),
        "iterations": np.array([loop.iterations for loop in first]),
        "costs": [keep_costs(directory, _mean(steps), ".npy") for steps in jobs],
    }
    kept = {name: cells for name, cells in columns.items() if not isinstance(cells, list) or any(cells)}
    with (directory / JOBS_FILE).open("wb") as file:
        write_parquet_blocks(file, {}, [kept])
    lacking = {
        "without_costs": sum(not text for text in columns["costs"]),
        "without_technique": sum(not loop.technique for loop in first),
    }
    return {"jobs": len(jobs), "executions": len(loops)} | {key: n for key, n in lacking.items() if n}


def _mean(steps: Sequence[MeasuredLoop]) -> bytes:
    """Return the mean costs over the executions that know them, as a file; empty if none does."""
    known = [step.costs for step in steps if step.costs is not None]
    file = BytesIO()
    if known:
        np.save(file, np.mean(known, axis=0))
    return file.getvalue()
