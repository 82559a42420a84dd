"""The general batch level: several resources on every node, any allocator, dispatchers of the user's own.

It does what :class:`mlsim.batch.state.BatchState` does for one pool of nodes or cores, and is used where that
is not enough. Both mean the same by every policy and backfilling rule.
"""

from mlsim.batch.resources.choice import needs_resources, state_for

__all__ = ["needs_resources", "state_for"]
