"""What a request for a chunk was seen to take, as a cost of simulated loops."""

from __future__ import annotations

from mlsim.scenario import ExecutionModel

__all__ = ["charge_of", "has_masters"]


def has_masters(model: str) -> bool:
    """Whether PEs ask a master for chunks, under one of our models."""
    return any(model == known and known.properties.masters for known in ExecutionModel)


def charge_of(model: str, seconds: float) -> tuple[str, float]:
    """Return the key of ``application.execution`` that is charged, and with what [s].

    Parameters
    ----------
    model
        Execution model of the loop.
    seconds
        From a request to the start of its chunk [s]: the master's work for it, or the two atomics of a chunk.
    """
    if has_masters(model):
        return "chunk_assignment", seconds
    return "atomic_service", seconds / 2.0
