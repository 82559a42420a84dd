"""What follows from a job's raw times: run, wait and response time and the slowdowns.

Every function returns one value a job, in the order of the table; NaN where the value is undefined: a
rejected job has no times, and a job of no length has no slowdown.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim.record.tables import Jobs, Occupancy

__all__ = [
    "TAU",
    "away_until",
    "bounded_slowdown",
    "per_processor_bounded_slowdown",
    "response_time",
    "run_time",
    "slowdown",
    "wait_time",
]

Floats = NDArray[np.float64]

TAU = 10.0
"""Run times below this many seconds count as this long in bounded slowdowns (Feitelson and Rudolph 1998)."""


def run_time(jobs: Jobs) -> Floats:
    """Seconds the job ran in this run: p = end - start."""
    return jobs.end_time - jobs.start_time


def wait_time(jobs: Jobs) -> Floats:
    """Seconds in the queue: start - submit, and the dispatcher's own time where it counts.

    With ``batch.count_dispatch_time`` the wall time of the pass that started the job is added: a dispatcher
    that thinks for long lets the job wait for it. The schedule is the same with and without.
    """
    return _with_dispatch_time(jobs, jobs.start_time - jobs.submit_time)


def response_time(jobs: Jobs) -> Floats:
    """Seconds from submission to end: wait + p (Feitelson and Rudolph 1998)."""
    return _with_dispatch_time(jobs, jobs.end_time - jobs.submit_time)


def _with_dispatch_time(jobs: Jobs, seconds: Floats) -> Floats:
    return seconds if jobs.dispatch_time is None else seconds + jobs.dispatch_time


def slowdown(jobs: Jobs) -> Floats:
    """(wait + p) / p, without unit (Feitelson and Rudolph 1998); NaN for a job of no length."""
    length = run_time(jobs)
    positive = np.where(length > 0, length, np.nan)
    return (wait_time(jobs) + length) / positive


def bounded_slowdown(jobs: Jobs, tau: float = TAU) -> Floats:
    """max((wait + p) / max(p, τ), 1), without unit (Zrigui 2021, Eq. 3.3).

    Parameters
    ----------
    jobs
        The jobs.
    tau
        The bound τ > 0, in seconds.
    """
    length = run_time(jobs)
    return np.maximum((wait_time(jobs) + length) / np.maximum(length, tau), 1.0)


def per_processor_bounded_slowdown(jobs: Jobs, tau: float = TAU) -> Floats:
    """max((wait + p) / (q max(p, τ)), 1) for a job of q processors (Zotkin and Keleher 1999).

    Parameters
    ----------
    jobs
        The jobs.
    tau
        The bound τ > 0, in seconds.
    """
    length = run_time(jobs)
    processors = np.maximum(jobs.processors, 1)
    bounded: Floats = np.maximum((wait_time(jobs) + length) / (processors * np.maximum(length, tau)), 1.0)
    return bounded


def away_until(occupancy: Occupancy, jobs: Jobs) -> Floats:
    """Tell until when each released node was away from its job: until it came back, or the job ended.

    Parameters
    ----------
    occupancy, jobs
        Of a run; rows of nodes that may be released name one node each.

    Returns
    -------
    float64
        One time a row, in s; the row's own end where it was not released.
    """
    until = np.where(occupancy.released, jobs.end_time[occupancy.job], occupancy.end)
    order = np.lexsort((occupancy.start, occupancy.node, occupancy.job))
    job, node = occupancy.job[order], occupancy.node[order]
    again = (np.diff(job) == 0) & (np.diff(node) == 0) & occupancy.released[order][:-1]
    until[order[:-1][again]] = occupancy.start[order[1:][again]]
    return until
