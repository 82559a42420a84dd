"""What the coordination between the levels did: messages, and nodes given back early."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlsim.record import Attempts, Jobs, Occupancy, Records
from mlsim.record.derived import away_until

__all__ = ["coordination_metrics", "released_nodes", "released_seconds"]


def released_nodes(occupancy: Occupancy) -> int:
    """Nodes given back before their job's end; one that two jobs gave back counts twice."""
    return int(occupancy.count[occupancy.released].sum())


def released_seconds(
    occupancy: Occupancy, jobs: Jobs, attempts: Attempts | None = None
) -> tuple[float, float]:
    """Node-seconds and core-seconds given back: Σ (return or end of the job - release), nodes and cores."""
    row = occupancy.released
    if not row.any():
        return 0.0, 0.0
    early = (away_until(occupancy, jobs, attempts) - occupancy.end)[row]
    nodes = early * occupancy.count[row]
    return float(np.sum(nodes)), float(np.sum(nodes * occupancy.cores[row]))


def coordination_metrics(records: Records) -> dict[str, Any]:
    """Messages, releases and what they gave back.

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
