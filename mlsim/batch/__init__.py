"""The queue: which job starts when, and on which nodes."""

from mlsim.batch.catalogue import ALLOCATORS, BACKFILLING, POLICIES

__all__ = ["ALLOCATORS", "BACKFILLING", "POLICIES"]
