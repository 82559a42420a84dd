"""Metrics of coordination between the levels: messages, and nodes released early."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlsim.record import Attempts, Jobs, Occupancy, Records
from mlsim.record.derived import away_until

__all__ = ["coordination_metrics", "released_nodes", "released_seconds"]


def released_nodes(occupancy: Occupancy) -> int:
    """Return the number of nodes released before their job's end; one that two jobs released counts twice."""
    return int(occupancy.count[occupancy.released].sum())


def released_seconds(
    occupancy: Occupancy, jobs: Jobs, attempts: Attempts | None = None
) -> tuple[float, float]:
    """Return released node-seconds and core-seconds: Σ (return or end of the job - release)."""
    row = occupancy.released
    if not row.any():
        return 0.0, 0.0
    early = (away_until(occupancy, jobs, attempts) - occupancy.end)[row]
    nodes = early * occupancy.count[row]
    return float(np.sum(nodes)), float(np.sum(nodes * occupancy.cores[row]))


def coordination_metrics(records: Records) -> dict[str, Any]:
    """Return the metrics of coordination: messages, releases, released node-seconds.

    Returns
    -------
    dict
        ``messages``, ``releases`` (nodes given back early), ``jobs_releasing`` (jobs that gave back at
        least one), ``released_node_seconds``, ``released_core_seconds``.
    """
    occupancy = records.occupancy
    node_seconds, core_seconds = released_seconds(occupancy, records.jobs, records.attempts)
    return {
        "messages": len(records.messages.kind),
        "releases": released_nodes(occupancy),
        "jobs_releasing": len(np.unique(occupancy.job[occupancy.released])),
        "released_node_seconds": node_seconds,
        "released_core_seconds": core_seconds,
    }
