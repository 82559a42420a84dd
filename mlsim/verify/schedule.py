"""A schedule as the laws see it, and verdicts on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from mlsim._runtime.arrays import Floats, Ints, Mask
from mlsim.record import JobState, Records
from mlsim.scenario import Scenario
from mlsim.scenario.words import Mapping


@dataclass(frozen=True)
class Schedule:
    """The tables of a run and its scenario."""

    records: Records
    scenario: Scenario

    @property
    def n_jobs(self) -> int:
        """Number of submitted jobs."""
        return len(self.records.jobs.job_id)

    @property
    def n_nodes(self) -> int:
        """Nodes of the machine."""
        return len(self.records.nodes.cores)

    @property
    def is_on_machine(self) -> bool:
        """Whether every node of a stay exists."""
        stays = self.records.occupancy
        ends = stays.node + stays.count
        return bool(((stays.node >= 0) & (stays.count >= 1) & (ends <= self.n_nodes)).all())

    @property
    def is_exclusive(self) -> bool:
        """Whether jobs get whole nodes."""
        return self.scenario.workload.mapping is not Mapping.CORE

    @cached_property
    def ran(self) -> Mask:
        """Whether each job got nodes."""
        jobs = self.records.jobs
        ran: Mask = (jobs.state != JobState.REJECTED) & np.isfinite(jobs.start_time)
        return ran

    @cached_property
    def arrival(self) -> Floats:
        """Arrival of each job in the queue (s); NaN where it never arrived."""
        jobs = self.records.jobs
        if jobs.eligible_time is None:
            return jobs.submit_time
        if self.scenario.workload.feedback:
            return jobs.eligible_time
        return np.maximum(jobs.eligible_time, jobs.submit_time)

    @property
    def row_starts(self) -> Floats:
        """Start of the attempt to which each stay belongs [s]; NaN where there is none."""
        return self._attempts_of_rows[1]

    @property
    def row_ends(self) -> Floats:
        """End of that attempt [s]."""
        return self._attempts_of_rows[2]

    @property
    def is_last(self) -> Mask:
        """Whether that attempt is the job's last one."""
        return self._attempts_of_rows[0]

    @cached_property
    def _attempts_of_rows(self) -> tuple[Mask, Floats, Floats]:
        """Return, for each stay, whether its attempt is the job's last, and the attempt's start and end."""
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

    @cached_property
    def units(self) -> Ints:
        """Nodes, or cores where nodes are shared, that each job held at its (last) start."""
        stays = self.records.occupancy
        first = self.is_last & (stays.start == self.row_starts)
        amount = stays.count if self.is_exclusive else stays.count * stays.cores
        return np.bincount(stays.job[first], amount[first], self.n_jobs).astype(np.int64)

    @cached_property
    def shares(self) -> Ints:
        """Machine-wide amounts held by each job; shape (jobs, amounts)."""
        names = self.records.shared.name
        columns = [np.asarray(self.records.own.of[f"request_{name}"], np.int64) for name in names]
        return np.stack(columns, axis=1) if columns else np.zeros((self.n_jobs, 0), np.int64)


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
