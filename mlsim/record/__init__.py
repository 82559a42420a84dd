"""What happened: tables of plain columns, and the writers that turn them into files."""

from mlsim.record.tables import (
    Attempts,
    Chunks,
    Jobs,
    JobState,
    Loops,
    MessageKind,
    Messages,
    NodePower,
    Nodes,
    Occupancy,
    OutageKind,
    Outages,
    PEs,
    Records,
    Rejections,
    empty,
)

__all__ = [
    "Attempts",
    "Chunks",
    "JobState",
    "Jobs",
    "Loops",
    "MessageKind",
    "Messages",
    "NodePower",
    "Nodes",
    "Occupancy",
    "OutageKind",
    "Outages",
    "PEs",
    "Records",
    "Rejections",
    "empty",
]
