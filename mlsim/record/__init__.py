"""What happened: tables of plain columns, and the writers that turn them into files."""

from mlsim.record.tables import (
    Chunks,
    Jobs,
    JobState,
    Loops,
    MessageKind,
    Messages,
    Nodes,
    Occupancy,
    PEs,
    Records,
    Rejections,
    Solves,
    SolveStatus,
    empty,
)

__all__ = [
    "Chunks",
    "JobState",
    "Jobs",
    "Loops",
    "MessageKind",
    "Messages",
    "Nodes",
    "Occupancy",
    "PEs",
    "Records",
    "Rejections",
    "SolveStatus",
    "Solves",
    "empty",
]
