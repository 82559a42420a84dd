"""A workload in the manner of Lublin and Feitelson's model: what benchmarks simulate where no log is at hand.

Sizes and run times are drawn as in the model (Lublin and Feitelson 2003, batch jobs): two-stage uniform
sizes, many of them serial or powers of two, and hyper-gamma run times that depend on the size. Arrivals are
not: they are exponential, without a daily cycle, and scaled so that the machine is offered the load that is
asked for. Walltimes are one to five times the run time.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mlsim.workload import Field, write_swf
from mlsim.workload.jobs import JobBlock

_SERIAL, _POWER_OF_TWO = 0.244, 0.576  # shares of jobs
_LOWEST, _SMALL = 0.8, 0.86  # log2 of the smallest size; share of jobs in the lower stage
_FIRST, _SECOND = (4.2, 0.94), (312.0, 0.03)  # shape and scale of the two gammas of ln(run time)
_SLOPE, _BASE = -0.0054, 0.78  # share of the first gamma, linear in the size
_LONGEST = 3 * 86_400.0


def workload(jobs: int, units: int, load: float, seed: int = 1) -> JobBlock:
    """Draw jobs for a machine of so many units; times are whole seconds."""
    rng = np.random.default_rng(seed)
    high = np.log2(units)
    middle = max(high - 2.5, _LOWEST)
    small = rng.random(jobs) < _SMALL
    log_size = np.where(small, rng.uniform(_LOWEST, middle, jobs), rng.uniform(middle, high, jobs))
    kind = rng.random(jobs)
    log_size = np.where(kind < _SERIAL + _POWER_OF_TWO, np.round(log_size), log_size)
    processors = np.where(kind < _SERIAL, 1, np.clip(np.rint(2**log_size), 1, units)).astype(np.int64)
    first = rng.random(jobs) < np.clip(_SLOPE * processors + _BASE, 0.0, 1.0)
    log_run = np.where(first, rng.gamma(*_FIRST, jobs), rng.gamma(*_SECOND, jobs))
    run = np.ceil(np.minimum(np.exp(np.minimum(log_run, 20.0)), _LONGEST))
    walltime = np.ceil(run * rng.uniform(1.0, 5.0, jobs))
    gap = float((processors * run).sum()) / (units * load * jobs)
    submit = np.floor(np.cumsum(rng.exponential(gap, jobs)))
    return block(submit - submit[0], run, walltime, processors)


def block(submit: np.ndarray, run: np.ndarray, walltime: np.ndarray, processors: np.ndarray) -> JobBlock:
    """Make jobs of which nothing else is known."""
    unknown = [np.full(len(run), -1, np.int64) for _ in range(9)]
    return JobBlock(np.arange(1, len(run) + 1), submit, run, walltime, processors, *unknown)


def write(jobs: JobBlock, units: int, path: Path) -> None:
    """Write jobs as SWF."""
    columns = {
        Field.JOB_ID: jobs.job_id,
        Field.SUBMIT_TIME: jobs.submit_time,
        Field.RUN_TIME: jobs.run_time,
        Field.ALLOCATED_PROCESSORS: jobs.processors,
        Field.REQUESTED_PROCESSORS: jobs.processors,
        Field.REQUESTED_TIME: jobs.walltime,
        Field.STATUS: np.ones(len(jobs.job_id), np.int64),
    }
    header = {"MaxJobs": str(len(jobs.job_id)), "MaxNodes": str(units), "MaxProcs": str(units)}
    write_swf(path, header, columns)
