"""A schedule as the laws see it, and verdicts on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from mlsim._runtime.arrays import Floats, Ints, Mask
from mlsim.record import JobState, Records
from mlsim.scenario import Scenario
from mlsim.scenario.words import Mapping


class Schedule:
    """The tables of a run and its scenario, with the columns that laws need."""

    def __init__(self, records: Records, scenario: Scenario) -> None:
        self.records, self.scenario = records, scenario
        jobs, stays = records.jobs, records.occupancy
        self.n_jobs, self.n_nodes = len(jobs.job_id), len(records.nodes.cores)
        there = (stays.node >= 0) & (stays.count >= 1) & (stays.node + stays.count <= self.n_nodes)
        self.is_on_machine = bool(there.all())  # whether every node of a stay exists
        self.is_exclusive = scenario.workload.mapping is not Mapping.CORE  # whether jobs get whole nodes
        self.ran: Mask = (jobs.state != JobState.REJECTED) & np.isfinite(jobs.start_time)
        self.arrival = self._arrivals()  # in the queue [s]; NaN where a job never arrived
        self.is_last, self.row_starts, self.row_ends = self._attempts_of_rows()
        # Nodes, or cores where nodes are shared, that each job held at its (last) start.
        first = self.is_last & (stays.start == self.row_starts)
        amount = stays.count if self.is_exclusive else stays.count * stays.cores
        self.units: Ints = np.bincount(stays.job[first], amount[first], self.n_jobs).astype(np.int64)

    @cached_property
    def shares(self) -> Ints:
        """Machine-wide amounts held by each job; shape (jobs, amounts)."""
        names = self.records.shared.name
        columns = [np.asarray(self.records.own.of[f"request_{name}"], np.int64) for name in names]
        return np.stack(columns, axis=1) if columns else np.zeros((self.n_jobs, 0), np.int64)

    def _arrivals(self) -> Floats:
        jobs = self.records.jobs
        if jobs.eligible_time is None:
            return jobs.submit_time
        if self.scenario.workload.feedback:
            return jobs.eligible_time
        return np.maximum(jobs.eligible_time, jobs.submit_time)

    def _attempts_of_rows(self) -> tuple[Mask, Floats, Floats]:
        """Return whether each stay's attempt is its job's last, and the attempt's start and end [s]."""
        jobs, stays, attempts = self.records.jobs, self.records.occupancy, self.records.attempts
        start, end = jobs.start_time[stays.job], jobs.end_time[stays.job]
        earlier: dict[int, list[tuple[float, float]]] = {}
        for job, begin, stop in zip(attempts.job, attempts.start, attempts.end, strict=True):
            earlier.setdefault(int(job), []).append((float(begin), float(stop)))
        last = np.ones(len(stays.job), np.bool_)
        for row in np.flatnonzero(np.isin(stays.job, attempts.job)):
            for begin, stop in sorted(earlier[int(stays.job[row])]):
                # An attempt may fail at its start, and the next one begin at once.
                if begin <= stays.start[row] and stays.end[row] <= stop:
                    last[row], start[row], end[row] = False, begin, stop
                    break
        return last, start, end


MOST_NAMED = 5  # Breaches of a law that are described; all are counted


@dataclass(frozen=True, slots=True)
class Breach:
    """One place in which a run breaks a law."""

    job_id: int  # The job; -1 where none is concerned
    time: float  # When, in seconds from the scenario's start
    text: str  # The fault, with its numbers

    def __str__(self) -> str:
        job = f"job {self.job_id} " if self.job_id >= 0 else ""
        return f"{job}at {self.time:.17g} s: {self.text}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one law."""

    law: str  # Its name
    judged: str = ""  # The number of facts that were judged, as text; empty where the law was not judged
    reason: str = ""  # Why the law was not judged; empty where it was
    count: int = 0  # Number of breaches
    breaches: tuple[Breach, ...] = field(default=())  # The first of them, in order of time

    @property
    def is_kept(self) -> bool:
        """Whether the run keeps the law."""
        return self.count == 0

    @classmethod
    def of(cls, law: str, judged: str, found: list[Breach], count: int | None = None) -> Verdict:
        """Return the verdict of a law that was judged; ``count`` where there are more than ``found``."""
        found = sorted(found, key=lambda breach: breach.time)
        return cls(law, judged, "", len(found) if count is None else count, tuple(found[:MOST_NAMED]))


def not_judged(law: str, reason: str) -> Verdict:
    """Return the verdict of a law that does not apply to a run, or cannot be judged."""
    return Verdict(law, reason=reason)
