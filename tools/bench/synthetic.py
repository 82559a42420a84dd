"""A workload in the manner of Lublin and Feitelson's model: what benchmarks simulate where no log is at hand.

Sizes and run times are drawn as in the model (Lublin and Feitelson 2003, jobs without a kind), the run times
up to three days. Arrivals are not: they are exponential, without a daily cycle, and scaled so that the
machine is offered the load that is asked for. Walltimes are one to five times the run time.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from mlsim.workload import Field, write_swf
from mlsim.workload.models.lublin_model import PARAMETERS, JobKind, moved, run_times_of, sizes_of
from mlsim.workload.workload_jobs import JobBlock

_LONGEST = 3 * 86_400.0


def workload(jobs: int, units: int, load: float, seed: int = 1) -> JobBlock:
    """Draw jobs for a machine of so many units; times are whole seconds."""
    rng = np.random.default_rng(seed)
    of = moved(PARAMETERS[JobKind.TYPELESS], units)
    of = replace(of, umed=max(of.umed, of.ulow))  # small machines have no lower stage
    processors = sizes_of(of, rng, jobs)
    run = np.minimum(run_times_of(of, rng, processors), _LONGEST)
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
