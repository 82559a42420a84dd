"""Solves of a dispatcher that plans by constraint programming."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlsim.record import Solves, SolveStatus

__all__ = ["solve_counts"]


def solve_counts(solves: Solves) -> dict[str, Any]:
    """Count passes by the status of their plans, and average their solve time.

    Returns
    -------
    dict
        ``passes``; ``status``: passes by word of :class:`SolveStatus`; ``fallbacks``: passes in which EASY
        decided; ``unplaced`` jobs; ``solved``: passes with a model; ``variables``, ``constraints`` and
        ``branches``, means over those; ``build_ms``, ``solve_ms``: means over all passes. Means of nothing
        are None.
    """
    modelled = solves.variables > 0
    return {
        "passes": len(solves.time),
        "status": {status.name.lower(): int((solves.status == status).sum()) for status in SolveStatus},
        "fallbacks": int(solves.fallback.sum()),
        "unplaced": int(solves.unplaced.sum()),
        "solved": int(modelled.sum()),
        "variables": _mean(solves.variables[modelled]),
        "constraints": _mean(solves.constraints[modelled]),
        "branches": _mean(solves.branches[modelled]),
        "build_ms": _mean(solves.build_seconds * 1e3),
        "solve_ms": _mean(solves.solve_seconds * 1e3),
    }


def _mean(values: NDArray[Any]) -> float | None:
    return float(np.mean(values)) if len(values) else None
