"""Metrics of failures and drains: lost work, restarts, downtime of nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mlsim.analysis.metrics.streamed import total
from mlsim.record import OutageKind, Outages, Records
from mlsim.record.blocks import rows_of
from mlsim.record.derived import lost_core_seconds
from mlsim.record.energy import run_span
from mlsim.record.outages import out_of_use_spans

__all__ = ["failure_metrics", "out_of_use_seconds"]


def out_of_use_seconds(outages: Outages, begin: float, end: float) -> float:
    """Return the node-seconds between two times in which nodes were out of use; overlaps count once."""
    _, start, stop = out_of_use_spans(outages, begin, end)
    return float(np.sum(stop - start))


def failure_metrics(records: Records) -> dict[str, Any]:
    """Count failures, drains and restarts, and sum up lost work and downtime; not those of the safeguard.

    Returns
    -------
    dict
        ``node_failures``, ``node_drains``: outages that began before the last job ended, of either kind;
        announced drains are drains.
        ``restarts``: how often jobs started again, in sum; ``jobs_restarted``: how many jobs did.
        ``lost_core_seconds``: see :func:`mlsim.record.derived.lost_core_seconds`.
        ``node_downtime``: node-seconds out of use, from the first submission to the last end of a job.
        ``availability``: 1 - downtime / (nodes · that time); None where that has no length.
    """
    records = replace(records, attempts=rows_of(records.attempts, np.flatnonzero(records.attempts.node >= 0)))
    outages, attempts = records.outages, records.attempts
    begin, end = run_span(records)
    within = outages.start <= end
    downtime = out_of_use_seconds(outages, begin, end)
    capacity = len(records.nodes.name) * (end - begin)
    return {
        "node_failures": int(np.count_nonzero(within & (outages.kind == OutageKind.FAILED))),
        "node_drains": int(np.count_nonzero(within & (outages.kind != OutageKind.FAILED))),
        "restarts": len(attempts.job),
        "jobs_restarted": len(np.unique(attempts.job)),
        "lost_core_seconds": total(lost_core_seconds(records)),
        "node_downtime": downtime,
        "availability": 1.0 - downtime / capacity if capacity > 0 else None,
    }
