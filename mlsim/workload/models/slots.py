"""Submit times by the Slot Weight Method, as compiled code.

A day has 48 slots of half an hour. Each has a weight, its share of the jobs of a log, so that a day weighs 1.
The next job comes when a drawn amount of weight has passed since the one before it. How much that may be at
most is adapted at every job to the shares of the hour, the weekday and the month in which the last job came
(Galleguillos et al. 2020, §7; the method is Lublin and Feitelson's, 2003).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim._jit import inner_kernel, kernel

__all__ = ["HOURS", "MONTHS", "N_COUNTS", "SLOT", "SLOTS", "WEEKDAYS", "arrivals", "month_of", "weight_at"]

SLOTS: Final = 48
SLOT: Final = 1800.0
"""Seconds of a slot."""
DAY: Final = 86400.0
HOURS, WEEKDAYS, MONTHS = 0, 24, 31
"""Where the counts and shares of hours, weekdays (Monday first) and months begin."""
N_COUNTS: Final = 43

_MOST_PROGRESS: Final = 2.0


@inner_kernel
def month_of(day: int) -> int:
    """Return the month, 0 to 11, of a day since 1970-01-01 (proleptic Gregorian calendar)."""
    shifted = day + 719468
    of_era = shifted - shifted // 146097 * 146097
    year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    return int(((5 * of_year + 2) // 153 + 2) % 12)


@inner_kernel
def _progress(time: float, jobs: int, counts: Ints, shares: Floats) -> float:
    """Return by how much the hour, weekday and month of a time have more jobs so far than their shares."""
    day = int(time // DAY)
    places = (HOURS + int(time % DAY // 3600.0), WEEKDAYS + (day + 3) % 7, MONTHS + month_of(day))
    progress = 1.0
    for place in places:
        if shares[place] > 0.0:
            progress *= counts[place] / (jobs * shares[place])
    return min(progress, _MOST_PROGRESS)


@inner_kernel
def _count(time: float, counts: Ints) -> None:
    day = int(time // DAY)
    counts[HOURS + int(time % DAY // 3600.0)] += 1
    counts[WEEKDAYS + (day + 3) % 7] += 1
    counts[MONTHS + month_of(day)] += 1


@inner_kernel
def _after(time: float, weight: float, weights: Floats) -> float:
    """Return when an amount of weight has passed since a time."""
    begin = time - time % DAY
    passed = time - begin
    slot = int(passed // SLOT)
    within = (passed - slot * SLOT) / SLOT
    left = (1.0 - within) * weights[slot]
    while weight >= left and weight > 0.0:
        weight -= left
        slot, within = slot + 1, 0.0
        if slot == SLOTS:
            slot, begin = 0, begin + DAY
            if weight >= 1.0:
                begin += DAY * (weight // 1.0)
                weight -= weight // 1.0
        left = weights[slot]
    if weight <= 0.0 or weights[slot] <= 0.0:
        return float(begin + (slot + within) * SLOT)
    return float(begin + (slot + within + weight / weights[slot]) * SLOT)


@kernel
def weight_at(times: Floats, weights: Floats, found: Floats) -> None:
    """Find the weight that has passed from time 0 until each time (s)."""
    before = np.zeros(SLOTS + 1)
    for slot in range(SLOTS):
        before[slot + 1] = before[slot] + weights[slot]
    for k in range(len(times)):
        passed = times[k] % DAY
        slot = int(passed // SLOT)
        found[k] = times[k] // DAY + before[slot] + (passed / SLOT - slot) * weights[slot]


@kernel
def arrivals(
    drawn: Floats, most: float, weights: Floats, shares: Floats, counts: Ints, state: Floats, found: Floats
) -> None:
    """Draw the next submit times.

    Parameters
    ----------
    drawn
        Weights between submissions, 0 to `most`, one for each job.
    most
        The largest weight between two submissions of the log (v_max).
    weights, shares
        Of the slots; and of hours, weekdays, months.
    counts
        Jobs so far by hour, weekday, month; updated.
    state
        The last submit time (s, local time since 1970), and jobs so far; updated.
    found
        Receives the times.
    """
    least = 1.0 / SLOTS
    for k in range(len(drawn)):
        time, jobs = state[0], int(state[1])
        limit = most
        if jobs > 0 and most > least:
            limit = most - (most - least) * (1.0 - _progress(time, jobs, counts, shares))
        time = _after(time, drawn[k] * limit / most if most > 0.0 else 0.0, weights)
        _count(time, counts)
        state[0], state[1] = time, jobs + 1
        found[k] = time
