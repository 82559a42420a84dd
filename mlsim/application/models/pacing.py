"""How long the parts are of a chunk of a master that chooses them itself: simulated, and in real runs."""

from __future__ import annotations

from mlsim._jit import leaf_kernel

__all__ = ["next_length", "paced"]


def next_length(length: int, part: int, seconds: float, every: float) -> int:
    """Return how many iterations the next part may have.

    Parameters
    ----------
    length
        How many the last part might have had.
    part, seconds
        How many it had, and how long they took, in s.
    every
        How long a part is to take, in s.

    Returns
    -------
    int
        As many as take ``every`` at that rate, 1 or more; at most twice ``length``, so that a few quick
        iterations do not lead to a long part of slow ones.
    """
    most = 2 * length
    if seconds * most <= every * part:
        return most
    return max(int(part * every / seconds), 1)


paced = leaf_kernel(next_length)
"""The same for kernels."""
