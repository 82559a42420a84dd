"""The schedule of a run, laws of its single jobs, and what keeps a rule from being judged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from mlsim._runtime.arrays import Floats, Ints, Mask
from mlsim.record import JobState, Records
from mlsim.scenario import Scenario, words
from mlsim.scenario.words import Mapping
from mlsim.verify.plain_schedules import RANKED, PlainSchedule


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


def judge_arrivals(run: Schedule) -> Verdict:
    """Judge that no job starts before it was submitted, or before it was eligible."""
    jobs, attempts = run.records.jobs, run.records.attempts
    first = jobs.start_time.copy()
    np.fmin.at(first, attempts.job, attempts.start)
    early = run.ran & ~(first >= run.arrival)
    found = [
        Breach(
            int(jobs.job_id[row]),
            float(first[row]),
            f"starts before it may, at {run.arrival[row]:.17g} s; it was submitted at "
            f"{jobs.submit_time[row]:.17g} s",
        )
        for row in first_of(early, first)
    ]
    return Verdict.of("arrival", f"{int(run.ran.sum())} starts", found, int(early.sum()))


def judge_walltimes(run: Schedule) -> Verdict:
    """Judge that jobs end after they start, and by their walltimes where these are limits."""
    jobs = run.records.jobs
    backwards = run.ran & ~(jobs.end_time >= jobs.start_time)
    limit = jobs.start_time + jobs.walltime
    kills = run.scenario.batch.on_overrun is words.OverrunRule.KILL
    late = run.ran & (jobs.end_time > limit) & kills
    found = [
        Breach(
            int(jobs.job_id[row]),
            float(jobs.end_time[row]),
            f"ends before its start at {jobs.start_time[row]:.17g} s"
            if backwards[row]
            else f"ends after its walltime, which is over at {limit[row]:.17g} s (on_overrun: kill)",
        )
        for row in first_of(backwards | late, jobs.end_time)
    ]
    return Verdict.of("walltime", f"{int(run.ran.sum())} jobs", found, int((backwards | late).sum()))


def judge_stays(run: Schedule) -> Verdict:
    """Judge that jobs hold nodes while they run and not otherwise, and as much as they asked for."""
    jobs, stays = run.records.jobs, run.records.occupancy
    outside = ~((run.row_starts <= stays.start) & (stays.start <= stays.end) & (stays.end <= run.row_ends))
    outside |= jobs.state[stays.job] == JobState.REJECTED
    found = [
        Breach(
            int(jobs.job_id[stays.job[row]]),
            float(stays.start[row]),
            f"holds node {stays.node[row]} until {stays.end[row]:.17g} s, and runs from "
            f"{run.row_starts[row]:.17g} to {run.row_ends[row]:.17g} s "
            f"({JobState(int(jobs.state[stays.job[row]])).name.lower()})",
        )
        for row in first_of(outside, stays.start)
    ]
    at_start = run.is_last & (stays.start == run.row_starts)
    held = np.bincount(stays.job[at_start], (stays.count * stays.cores)[at_start], run.n_jobs)
    asked = np.where(run.scenario.workload.mapping is words.Mapping.NODE, run.units, held) >= jobs.processors
    wrong = run.ran & ~((held == jobs.cores) & asked)
    found += [
        Breach(
            int(jobs.job_id[row]),
            float(jobs.start_time[row]),
            f"holds {int(held[row])} cores on {run.units[row]} {'nodes' if run.is_exclusive else 'cores'}; "
            f"its row says {jobs.cores[row]} cores, and it asked for {jobs.processors[row]} processors",
        )
        for row in first_of(wrong, jobs.start_time)
    ]
    return Verdict.of("stays", f"{len(stays.job)} stays", found, int(outside.sum() + wrong.sum()))


def first_of(wrong: Mask, times: Floats) -> list[int]:
    """Return the first wrong rows, in order of time."""
    rows = np.flatnonzero(wrong)
    chosen: list[int] = rows[np.argsort(times[rows], kind="stable")[:MOST_NAMED]].tolist()
    return chosen


_ROUNDING = 1e-6  # Units by which a cap may be exceeded through rounding


def schedule_of_run(run: Schedule) -> PlainSchedule:
    """Return the schedule of a run: whole nodes, or cores where they are shared; at most those of a cap."""
    jobs = run.records.jobs
    end = np.where(run.ran, jobs.end_time, np.nan)
    if jobs.withdraw_time is not None:
        end = np.where(run.ran, end, jobs.withdraw_time)
    completed: Mask = run.ran & (jobs.state == JobState.COMPLETED)
    is_rigid = not len(run.records.loops.job) and not len(run.records.attempts.job)
    units = run.n_nodes if run.is_exclusive else int(run.records.nodes.cores.sum())
    capped, shared = _units_under_cap(run), run.records.shared
    return PlainSchedule(
        job=[str(job) for job in jobs.job_id.tolist()],
        submit=jobs.submit_time,
        arrival=run.arrival,
        start=np.where(run.ran, jobs.start_time, np.nan),
        end=end,
        units=np.where(run.ran, run.units, _units_asked(run)),
        processors=jobs.processors,
        estimate=jobs.prediction,
        duration=np.where(completed & is_rigid, jobs.log_run_time, np.nan),
        capacity=units if capped is None else min(units, capped),
        place=np.arange(run.n_jobs),
        shares=run.shares,
        shared=dict(zip(shared.name, shared.capacity.tolist(), strict=True)),
    )


def _units_asked(run: Schedule) -> Ints:
    """Return the units that jobs ask for, of which those that left the queue held none."""
    is_packed = run.scenario.workload.mapping is Mapping.PACKED
    return -(-run.records.jobs.processors // (int(run.records.nodes.cores.max()) if is_packed else 1))


def obstacles(run: Schedule, rule: str) -> Iterator[str]:
    """Yield reasons why a rule of scheduling does not hold in this run, or cannot be judged in its tables."""
    batch, platform, jobs = run.scenario.batch, run.scenario.platform, run.records.jobs
    if batch.easy is words.EasyRule.ACCASIM:
        yield "easy: accasim makes no promise"
    exact = jobs.start_time + jobs.prediction == jobs.end_time
    if batch.easy is words.EasyRule.CQSIM and not exact[run.ran].all():
        yield "easy: cqsim promises nothing where estimates are not exact"
    if rule == "conservative" and batch.names_nodes:
        yield "reservations are of named nodes, of which the rule knows the number only"
    if rule == "conservative" and batch.pass_interval:
        yield "passes are at multiples of batch.pass_interval"
    if len(run.records.attempts.job) or platform.failures or platform.random_failures or platform.drains:
        yield "nodes go out of use, or jobs start again"
    if jobs.eligible_time is not None and (run.ran & (jobs.end_time <= jobs.start_time)).any():
        yield "jobs of no length have others wait for them: several passes are at one time"
    if run.scenario.coordination.rca:
        yield "nodes come back before their jobs end (coordination.rca)"
    if run.scenario.coordination.forecasts is not None:
        yield "reservations go by forecasts (coordination.forecasts)"
    if batch.classifier is not None:
        yield "the order of the queue changes (batch.classifier)"
    if batch.policy not in RANKED:
        yield f"the tables do not show the order of policy {batch.policy}"
    if batch.threshold is not None and batch.ordering.value != "FCFS":
        yield "the order of the queue changes (batch.threshold)"
    groups = platform.nodes
    needs = any(group.memory is not None or group.resources for group in groups)
    if needs or "units" in run.records.own.of or (run.scenario.workload.request.cores > 1):
        yield "jobs ask for more than any units of the machine"
    if batch.contiguity is words.Contiguity.STRICT or batch.allocator == words.Allocator.DEMAND_AWARE:
        yield f"not any units will do (allocator {batch.allocator})"
    if batch.power_cap is not None and _units_under_cap(run) is None:
        yield "the power cap changes, or units add unequal power"


def _units_under_cap(run: Schedule) -> int | None:
    """Return the number of units that the power cap allows; None if it is not a number of units."""
    cap, power = run.scenario.batch.power_cap, run.records.nodes.power
    if cap is None or power is None or len(cap) > 1 or cap[0][0] > 0.0:
        return None
    of_each = (power.busy - power.idle) / (1 if run.is_exclusive else run.records.nodes.cores)
    if (of_each != of_each[0]).any() or of_each[0] == 0.0:
        return None
    return int(np.floor((cap[0][1] - power.idle.sum()) / of_each[0] + _ROUNDING))
