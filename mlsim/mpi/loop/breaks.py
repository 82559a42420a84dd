"""How often a master looks for requests that is not told when."""

from __future__ import annotations

__all__ = ["BREAK_EVERY", "typical_break_after"]

BREAK_EVERY = 75e-6
"""About how long a master computes between two looks for requests, in s.

A look costs some microseconds, so masters lose a tenth of their time at most; and a request waits for half of
this on average.
"""


def typical_break_after(mean: float) -> int:
    """Return the length of most pieces, in iterations of a mean cost in s."""
    return max(round(BREAK_EVERY / mean), 1) if mean > 0.0 else 1 << 30
