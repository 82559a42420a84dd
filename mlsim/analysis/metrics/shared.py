"""Use of what the machine has as a whole: licences, a burst buffer."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlsim.analysis.metrics.system import makespan
from mlsim.record import Records
from mlsim.record.derived import running_spans
from mlsim.record.timeline import Spans, step_function

__all__ = ["shared_metrics", "shared_spans"]


def shared_spans(records: Records, name: str) -> Spans:
    """Return from when to when jobs held how much of it, each attempt by itself [s]; NaN where none ran."""
    asked: NDArray[np.float64] = records.own.of[f"request_{name}"].astype(np.float64)
    begin, end = running_spans(records.jobs, records.attempts)
    return begin, end, np.concatenate([asked, asked[records.attempts.job]])


def shared_metrics(records: Records) -> dict[str, Any]:
    """Return how much of each there is, and how it was used, by name.

    ``utilization``: ∫ held dt / (capacity · T_batch), in [0, 1]. ``max``: the most that was held at a time.
    """
    shared, span = records.shared, makespan(records.jobs)
    metrics = {}
    for name, unit, capacity in zip(shared.name, shared.unit, shared.capacity.tolist(), strict=True):
        times, held = step_function(*shared_spans(records, name))
        used = float(np.sum(held[:-1] * np.diff(times)))
        metrics[name] = {
            "capacity": capacity,
            "unit": unit,
            "utilization": used / (capacity * span) if capacity and span else None,
            "max": round(float(held.max(initial=0.0))),
        }
    return metrics
