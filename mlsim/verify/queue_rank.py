"""The order of the queue, where it never changes while a job waits, and who was its head since when."""

from __future__ import annotations

import heapq

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim.scenario import Policy
from mlsim.verify.schedule import Schedule

__all__ = ["RANKED", "heads_of", "ranks_of"]

RANKED = (
    Policy.FCFS,
    Policy.LCFS,
    Policy.SPF,
    Policy.LPF,
    Policy.SQF,
    Policy.LQF,
    Policy.SAF,
    Policy.LAF,
    Policy.SRF,
    Policy.LRF,
    Policy.EDF,
)
"""Policies whose keys depend on a job's arrival, estimate and processors alone."""


def _keys(policy: Policy, r: Floats, p: Floats, q: Floats, factor: float) -> Floats:
    """Return the keys of jobs that arrive at r, with estimates p and q processors; smaller goes first."""
    keys = {"FCFS": r, "SPF": p, "SQF": q, "SAF": p * q, "SRF": p / q, "EDF": r + factor * p}
    reverse = {"LCFS": "FCFS", "LPF": "SPF", "LQF": "SQF", "LAF": "SAF", "LRF": "SRF"}
    return keys[policy.value] if policy.value in keys else -keys[reverse[policy.value]]


def ranks_of(run: Schedule) -> Ints:
    """Return the place of each job in the order of the policy; equal keys go by the order of the log."""
    jobs, batch = run.records.jobs, run.scenario.batch
    processors = jobs.processors.astype(np.float64)
    key = _keys(batch.ordering, run.arrival, jobs.prediction, processors, batch.deadline_factor)
    ranks = np.empty(run.n_jobs, np.int64)
    ranks[np.argsort(key, kind="stable")] = np.arange(run.n_jobs)
    return ranks


def heads_of(run: Schedule, ranks: Ints) -> tuple[Ints, Floats]:
    """Find the jobs that waited as the head of the queue until they started, and since when they were it.

    Returns
    -------
    heads, since
        Rows of jobs, and times [s] before their starts: the later of the job's arrival and of the last start
        of a job that goes before it.
    """
    start, arrival = run.records.jobs.start_time, run.arrival
    ran = np.flatnonzero(run.ran)
    by_start = ran[np.lexsort((ranks[ran], start[ran]))].tolist()
    by_arrival = ran[np.argsort(arrival[ran], kind="stable")].tolist()
    waiting: list[int] = []  # ranks of jobs that have arrived; one that has started leaves when it comes up
    started = np.zeros(len(ranks), np.bool_)
    before: list[int] = []  # jobs that have started, each of a lower rank than the next: the last are first
    heads, since, coming = [], [], 0
    for job in by_start:
        while coming < len(by_arrival) and arrival[by_arrival[coming]] <= start[job]:
            heapq.heappush(waiting, int(ranks[by_arrival[coming]]))
            coming += 1
        while before and ranks[before[-1]] > ranks[job]:
            before.pop()
        began = max(arrival[job], start[before[-1]] if before else -np.inf)
        before.append(job)
        while waiting and started[waiting[0]]:
            heapq.heappop(waiting)
        overtakes = bool(waiting) and waiting[0] < ranks[job]
        started[ranks[job]] = True
        if not overtakes and began < start[job]:
            heads.append(job)
            since.append(float(began))
    return np.array(heads, np.int64), np.array(since, np.float64)
