"""Load balance of the loops inside jobs, from their PEs' finish times.

μ, σ and max are over the finish times of one loop's PEs. Undefined where they are all 0: NaN.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from mlsim._arrays import Floats
from mlsim.analysis.metrics.aggregate import aggregate
from mlsim.record import Loops, Selections

__all__ = [
    "coefficient_of_variation",
    "loop_metrics",
    "max_over_mean",
    "percent_imbalance",
    "selection_metrics",
]


def coefficient_of_variation(loops: Loops) -> Floats:
    """Return c.o.v. = σ / μ, without unit; 0 is balanced (Eleliemy 2021, Eq. 2.15)."""
    return _ratio(loops.std_finish, loops.mean_finish)


def percent_imbalance(loops: Loops) -> Floats:
    """Return (1 - μ / max) · 100, in percent; 0 is balanced (Eleliemy 2021, Eq. 2.16)."""
    return (1.0 - _ratio(loops.mean_finish, loops.max_finish)) * 100.0


def max_over_mean(loops: Loops) -> Floats:
    """Return max / μ, without unit; 1 is balanced (Eleliemy 2021, §2.1.3)."""
    return _ratio(loops.max_finish, loops.mean_finish)


def loop_metrics(loops: Loops) -> dict[str, Any]:
    """Sum counts and PE-seconds over all loops, and aggregate what each loop has one value of.

    Returns
    -------
    dict
        ``count``, ``iterations``, ``steps``: loops, their iterations, the chunks handed out.
        ``t_loop`` (s), ``cov``, ``imbalance`` (percent), ``max_over_mean``: aggregates over the loops.
        ``busy``, ``overhead``, ``idle``: PE-seconds, summed over the loops.
    """
    return {
        "count": len(loops.job),
        "iterations": int(loops.iterations.sum()),
        "steps": int(loops.steps.sum()),
        "t_loop": aggregate(loops.t_loop),
        "cov": aggregate(coefficient_of_variation(loops)),
        "imbalance": aggregate(percent_imbalance(loops)),
        "max_over_mean": aggregate(max_over_mean(loops)),
        "busy": float(loops.busy.sum()),
        "overhead": float(loops.overhead.sum()),
        "idle": float(loops.idle.sum()),
    }


def selection_metrics(selections: Selections) -> dict[str, Any]:
    """Count which techniques were chosen; empty where none were.

    Returns
    -------
    dict
        ``selected``: technique -> how often it was chosen, the most frequent first; ``selection_time``: what
        the choices took, summed (s).
    """
    counts = Counter(selections.technique)
    if not counts:
        return {}
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return {"selected": dict(ordered), "selection_time": float(selections.spent.sum())}


def _ratio(above: Floats, below: Floats) -> Floats:
    """Divide; NaN where the divisor is 0."""
    return above / np.where(below > 0, below, np.nan)
