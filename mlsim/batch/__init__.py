"""The queue: which job starts when, and on which nodes."""

from mlsim.batch.batch_catalogue import ALLOCATORS, BACKFILLING, POLICIES

__all__ = ["ALLOCATORS", "BACKFILLING", "POLICIES"]
