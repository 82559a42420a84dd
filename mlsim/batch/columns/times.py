"""When jobs leave, or are expected to."""

from __future__ import annotations

import numpy as np

from mlsim._jit import inlined, kernel
from mlsim.batch.columns.columns import ACCASIM, CQSIM, EASY_AS, KILLS, Columns
from mlsim.batch.columns.table import ESTIMATE, RUN, WALLTIME

__all__ = ["OVERDUE_GRACE", "leave_time", "overdue_end", "reserved_time", "stay_end"]

OVERDUE_GRACE = 1.0
"""Seconds after now at which a job that outlived its estimate is expected to end."""


@kernel
def leave_time(end: float, start: float, walltime: float, kills: bool) -> float:
    """Return when a job leaves that would end by itself at ``end`` (s): before that, if it is killed.

    The limit is the walltime, what the user asked; the dispatcher may see a shorter estimate. A job that ends
    exactly at the limit completes.
    """
    limit = start + walltime
    return limit if kills and end > limit else end


@inlined
def overdue_end(now: float, columns: Columns) -> float:
    """Return when jobs that outlived their estimates are expected to end; AccaSim believes in their past."""
    return now if columns.rules[EASY_AS] == ACCASIM else now + OVERDUE_GRACE


@inlined
def reserved_time(slot: int, columns: Columns) -> float:
    """Return for how long (s) a waiting job asks for room: its estimate, or how long it will run (cqsim)."""
    if columns.rules[EASY_AS] != CQSIM:
        return float(columns.floats[ESTIMATE, slot])
    kills = columns.rules[KILLS] != 0
    return leave_time(columns.floats[RUN, slot], 0.0, columns.floats[WALLTIME, slot], kills)


@inlined
def stay_end(begin: float, duration: float) -> float:
    """Return when a stay of so long (s) is over, later than its begin even where rounding loses its length.

    Else two jobs of hardly any length could have the same units.
    """
    end = begin + duration
    return end if end > begin else float(np.nextafter(begin, np.inf))
