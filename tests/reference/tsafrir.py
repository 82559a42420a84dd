"""Dealing out walltimes job by job, as the program of Tsafrir, Etsion and Feitelson does it."""

from __future__ import annotations

import random
from collections.abc import Sequence


def dealt(run_times: Sequence[float], walltimes: Sequence[float], rng: random.Random) -> list[float]:
    """Return a walltime for each job: the longest job first, any of those left that are long enough."""
    left = sorted(walltimes, reverse=True)
    found = [0.0] * len(run_times)
    for job in sorted(range(len(run_times)), key=lambda row: -run_times[row]):
        enough = sum(walltime >= run_times[job] for walltime in left)
        found[job] = left.pop(rng.randrange(enough))
    return found
