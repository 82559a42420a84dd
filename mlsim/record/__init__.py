"""Records of a run: tables of plain columns, and the writers of files."""

from mlsim.record.calendar import Calendar
from mlsim.record.chunk_store import ChunkStore, LoopChunks, StoredChunks
from mlsim.record.column_types import JobState, MessageKind, OutageKind, SolveStatus, empty
from mlsim.record.message_store import MessageStore
from mlsim.record.record_tables import (
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
    PowerSteps,
    Records,
    Rejections,
    Selections,
    Shared,
    Solves,
)

__all__ = [
    "Attempts",
    "Calendar",
    "ChunkStore",
    "Chunks",
    "JobState",
    "Jobs",
    "LoopChunks",
    "Loops",
    "MessageKind",
    "MessageStore",
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
    "PowerSteps",
    "Records",
    "Rejections",
    "Selections",
    "Shared",
    "SolveStatus",
    "Solves",
    "StoredChunks",
    "empty",
]
