"""What failures and drains cost: work lost, jobs started again, nodes out of use."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlsim.record import OutageKind, Outages, Records
from mlsim.record.derived import lost_core_seconds
from mlsim.record.timeline import step_function

__all__ = ["failure_metrics", "out_of_use_seconds"]

Floats = NDArray[np.float64]


def out_of_use_seconds(outages: Outages, begin: float, end: float) -> float:
    """Node-seconds between two times in which nodes were out of use; overlaps count once."""
    start = np.clip(outages.start, begin, end)
    # One that did not end lasts to the end of the run.
    stop = np.clip(np.nan_to_num(outages.end, nan=np.inf), begin, end)
    total = 0.0
    order = np.argsort(outages.node, kind="stable")
    nodes, first = np.unique(outages.node[order], return_index=True)
    for rows in np.split(order, first[1:]) if len(nodes) else ():
        times, reasons = step_function(start[rows], stop[rows])
        total += float(np.diff(times) @ (reasons[:-1] > 0)) if len(times) else 0.0
    return total


def failure_metrics(records: Records) -> dict[str, Any]:
    """Count failures and drains, and sum up what they cost.

    Returns
    -------
    dict
        ``node_failures``, ``node_drains``: outages that began before the last job ended, of either kind.
        ``restarts``: how often jobs started again, in sum; ``jobs_restarted``: how many jobs did.
        ``lost_core_seconds``: see :func:`mlsim.record.derived.lost_core_seconds`.
        ``node_downtime``: node-seconds out of use, from the first submission to the last end of a job.
        ``availability``: 1 - downtime / (nodes · that time); None where that has no length.
    """
    jobs, outages, attempts = records.jobs, records.outages, records.attempts
    ended = jobs.end_time[np.isfinite(jobs.end_time)]
    begin = float(np.min(jobs.submit_time, initial=np.inf)) if len(ended) else 0.0
    end = float(np.max(ended)) if len(ended) else 0.0
    within = outages.start <= end
    downtime = out_of_use_seconds(outages, begin, end)
    capacity = len(records.nodes.name) * (end - begin)
    return {
        "node_failures": int(np.count_nonzero(within & (outages.kind == OutageKind.FAILED))),
        "node_drains": int(np.count_nonzero(within & (outages.kind == OutageKind.DRAINED))),
        "restarts": len(attempts.job),
        "jobs_restarted": len(np.unique(attempts.job)),
        "lost_core_seconds": float(np.sum(lost_core_seconds(records))),
        "node_downtime": downtime,
        "availability": 1.0 - downtime / capacity if capacity > 0 else None,
    }
