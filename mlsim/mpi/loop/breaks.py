"""How long the pieces are between two breaks of a master that chooses them itself."""

from __future__ import annotations

__all__ = ["BREAK_EVERY", "next_length", "typical_break_after"]

BREAK_EVERY = 75e-6
"""About how long a master computes between two looks for requests, in s.

A look costs some microseconds, so masters lose a tenth of their time at most; and a request waits for half of
this on average.
"""


def next_length(length: int, part: int, seconds: float) -> int:
    """Return how many iterations the next piece has.

    Parameters
    ----------
    length
        How many the last piece might have had.
    part, seconds
        How many it had, and how long they took, in s.

    Returns
    -------
    int
        As many as take ``BREAK_EVERY`` at that rate, 1 or more; at most twice ``length``, so that a few quick
        iterations do not lead to a long piece of slow ones.
    """
    most = 2 * length
    if seconds * most <= BREAK_EVERY * part:
        return most
    return max(int(part * BREAK_EVERY / seconds), 1)


def typical_break_after(mean: float) -> int:
    """Return the length of most pieces, in iterations of a mean cost in s."""
    return max(round(BREAK_EVERY / mean), 1) if mean > 0.0 else 1 << 30
