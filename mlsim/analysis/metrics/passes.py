"""Passes of the dispatcher."""

from __future__ import annotations

from typing import Any

from mlsim.analysis.metrics.queue import queue_length_at_passes
from mlsim.record import Passes

__all__ = ["pass_metrics"]


def pass_metrics(passes: Passes) -> dict[str, Any] | None:
    """Count passes and aggregate the queue length that they met.

    Their wall time is not among it: it differs from run to run, and is in the key ``self`` of the summary.

    Returns
    -------
    dict or None
        ``count``; ``queue_length``: the aggregate over passes. None where the run recorded none.
    """
    if not len(passes.time):
        return None
    return {"count": len(passes.time), "queue_length": queue_length_at_passes(passes)}
