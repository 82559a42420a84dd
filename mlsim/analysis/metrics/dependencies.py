"""Metrics of jobs that waited for other jobs before they entered the queue."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlsim.analysis.metrics.streamed import aggregate_values
from mlsim.record import Jobs

__all__ = ["dependency_metrics"]


def dependency_metrics(jobs: Jobs) -> dict[str, Any]:
    """Count the jobs that were held by dependencies, and aggregate for how long.

    Parameters
    ----------
    jobs
        With the times at which they became eligible.

    Returns
    -------
    dict
        ``held``: jobs that came to the queue at another time than they were submitted; ``held_time``:
        aggregate of eligible - submit over these, in s (below 0 where feedback let them come earlier than in
        the log); ``never``: jobs that never came to it.
    """
    assert jobs.eligible_time is not None
    later = jobs.eligible_time - jobs.submit_time
    held = later[(later != 0) & ~np.isnan(later)]
    return {"held": len(held), "never": int(np.isnan(later).sum()), "held_time": aggregate_values(held)}
