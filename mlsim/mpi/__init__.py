"""Real runs: the simulator's techniques and execution models on MPI, with mpi4py.

Names are loaded on first use: importing mpi4py starts MPI, and the agent of ``mlsim rca listen`` needs none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlsim.mpi.results.report import LoopReport
    from mlsim.mpi.scheduler import LoopScheduler

__all__ = ["LoopReport", "LoopScheduler"]

_HOMES = {"LoopReport": "mlsim.mpi.results.report", "LoopScheduler": "mlsim.mpi.scheduler"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'mlsim.mpi' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
