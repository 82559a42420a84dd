"""Records of small runs, made by hand: the least a test has to say, and defaults for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from mlsim.record import Chunks, Jobs, JobState, Loops, Messages, Nodes, Occupancy, PEs, Records, empty

NAN = float("nan")


class Job(NamedTuple):
    submit: float
    start: float = NAN
    end: float = NAN
    processors: int = 1
    cores: int = 1
    state: JobState = JobState.COMPLETED
    backfilled: bool = False
    job_id: int | None = None


class Stay(NamedTuple):
    job: int
    node: int
    count: int
    cores: int
    start: float
    end: float
    released: bool = False


def rejected(submit: float) -> Job:
    return Job(submit, state=JobState.REJECTED, cores=0)


def jobs_of(rows: Sequence[Job]) -> Jobs:
    """Jobs in order of submission; whatever a row does not say is -1 or follows from the times."""
    ids = [number + 1 if row.job_id is None else row.job_id for number, row in enumerate(rows)]
    start, end = (np.array([getattr(row, name) for row in rows], np.float64) for name in ("start", "end"))
    unknown = np.full(len(rows), -1, np.int64)
    return Jobs(
        job_id=np.array(ids, np.int64),
        submit_time=np.array([row.submit for row in rows], np.float64),
        start_time=start,
        end_time=end,
        walltime=np.nan_to_num(end - start) * 2,
        prediction=np.nan_to_num(end - start) * 2,
        log_run_time=np.nan_to_num(end - start),
        processors=np.array([row.processors for row in rows], np.int64),
        cores=np.array([row.cores for row in rows], np.int64),
        working=np.array([min(row.processors, row.cores) for row in rows], np.int64),
        state=np.array([row.state for row in rows], np.int8),
        backfilled=np.array([row.backfilled for row in rows], np.bool_),
        user=unknown,
        group=unknown.copy(),
        executable=unknown.copy(),
        queue=unknown.copy(),
        partition=unknown.copy(),
    )


def stays_of(rows: Sequence[Stay]) -> Occupancy:
    whole = {
        name: np.array([getattr(row, name) for row in rows], np.int64) for name in ("job", "node", "count")
    }
    return Occupancy(
        **whole,
        cores=np.array([row.cores for row in rows], np.int64),
        start=np.array([row.start for row in rows], np.float64),
        end=np.array([row.end for row in rows], np.float64),
        released=np.array([row.released for row in rows], np.bool_),
    )


def nodes_of(cores: Sequence[int]) -> Nodes:
    names = [f"n{number}" for number in range(len(cores))]
    return Nodes(names, ["g"] * len(cores), np.array(cores, np.int64), np.ones(len(cores)))


def records_of(
    jobs: Sequence[Job] = (), stays: Sequence[Stay] = (), cores: Sequence[int] = (1,), **tables: Any
) -> Records:
    """Records of a run; further tables by name, the others empty."""
    nothing = Records(
        nodes_of(cores),
        jobs_of(jobs),
        stays_of(stays),
        empty(Loops),
        empty(Chunks),
        empty(PEs),
        empty(Messages),
    )
    return replace(nothing, **tables)


def loops_of(rows: Sequence[dict[str, float]]) -> Loops:
    """Loops; a column that no row names is 0."""
    table = empty(Loops)
    return Loops(
        **{
            name: np.array([row.get(name, 0) for row in rows], getattr(table, name).dtype)
            for name in Loops.__dataclass_fields__
        }
    )


# Two nodes of two cores. Job 1 takes one node, job 2 both after it, job 3 waits for job 2.
JOBS = [
    Job(0, 0, 10, processors=2, cores=2),
    Job(0, 10, 30, processors=3, cores=4),
    Job(5, 30, 34, processors=1, cores=2, state=JobState.KILLED, backfilled=True),
    rejected(6),
    Job(7, 30, 30, processors=1, cores=1, state=JobState.FAILED),
]
STAYS = [
    Stay(0, 0, 1, 2, 0, 10),
    Stay(1, 0, 1, 2, 10, 30),
    Stay(1, 1, 1, 2, 10, 25, released=True),
    Stay(2, 0, 1, 2, 30, 34),
    Stay(4, 1, 1, 1, 30, 30),
]
