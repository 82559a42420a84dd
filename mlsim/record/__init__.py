"""Records of a run: tables of plain columns, and the writers of files."""

from mlsim.record.chunk_store import ChunkStore, LoopChunks, StoredChunks
from mlsim.record.codes import JobState, MessageKind, OutageKind, SolveStatus
from mlsim.record.columns import empty
from mlsim.record.tables import (
    Attempts,
    Chunks,
    Jobs,
    Loops,
    Messages,
    Names,
    NodePower,
    Nodes,
    Occupancy,
    Outages,
    OwnColumns,
    Passes,
    PEs,
    Records,
    Rejections,
    Selections,
    Shared,
    Solves,
)

__all__ = [
    "Attempts",
    "ChunkStore",
    "Chunks",
    "JobState",
    "Jobs",
    "LoopChunks",
    "Loops",
    "MessageKind",
    "Messages",
    "Names",
    "NodePower",
    "Nodes",
    "Occupancy",
    "OutageKind",
    "Outages",
    "OwnColumns",
    "PEs",
    "Passes",
    "Records",
    "Rejections",
    "Selections",
    "Shared",
    "SolveStatus",
    "Solves",
    "StoredChunks",
    "empty",
]
