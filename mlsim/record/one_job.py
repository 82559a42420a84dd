"""The record of a job that had the machine to itself."""

from __future__ import annotations

import numpy as np

from mlsim.record.codes import JobState
from mlsim.record.tables import Jobs

__all__ = ["one_job"]


def one_job(job_id: int, end: float, pes: int, cores: int) -> Jobs:
    """Return the row of a job of nobody that ran from 0 to ``end`` [s] on the whole machine."""
    unknown = np.full(1, -1, np.int64)
    return Jobs(
        job_id=np.array([job_id]),
        submit_time=np.zeros(1),
        start_time=np.zeros(1),
        end_time=np.array([end]),
        walltime=np.array([end]),
        prediction=np.array([end]),
        log_run_time=np.array([end]),
        processors=np.array([pes]),
        cores=np.array([cores]),
        working=np.array([pes]),
        state=np.array([JobState.COMPLETED], np.int8),
        backfilled=np.zeros(1, np.bool_),
        user=unknown,
        group=unknown.copy(),
        executable=unknown.copy(),
        queue=unknown.copy(),
        partition=unknown.copy(),
    )
