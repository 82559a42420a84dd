"""Schedules and verdicts on them: promises of backfilling, order of the queue, laws of single jobs."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from mlsim._jit import kernel
from mlsim._runtime.arrays import Floats, Ints, Mask
from mlsim.record import JobState, Records
from mlsim.scenario import Policy, Scenario, words
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


_REVERSED = {"LCFS": "FCFS", "LPF": "SPF", "LQF": "SQF", "LAF": "SAF", "LRF": "SRF"}
RANKED = tuple(map(Policy, (*_REVERSED, *_REVERSED.values(), "EDF")))
"""Policies whose keys depend on a job's arrival, estimate and processors alone."""


def policy_keys(policy: Policy, r: Floats, p: Floats, q: Floats, deadline_factor: float) -> Floats:
    """Return the keys of jobs, of which the smallest is first, by arrival, estimate and processors."""
    keys = {"FCFS": r, "SPF": p, "SQF": q, "SAF": p * q, "SRF": p / q, "EDF": r + deadline_factor * p}
    return keys[policy.value] if policy.value in keys else -keys[_REVERSED[policy.value]]


def ranks_of(run: Schedule) -> Ints:
    """Return the place of each job in the order of the policy; equal keys go by the order of the log."""
    jobs, batch = run.records.jobs, run.scenario.batch
    processors = jobs.processors.astype(np.float64)
    key = policy_keys(batch.ordering, run.arrival, jobs.prediction, processors, batch.deadline_factor)
    ranks = np.empty(run.n_jobs, np.int64)
    ranks[np.argsort(key, kind="stable")] = np.arange(run.n_jobs)
    return ranks


def heads_of(run: Schedule, ranks: Ints) -> tuple[Ints, Floats]:
    """Return the jobs that waited as the head of the queue until they started, and since when (s).

    A job is the head from its arrival, or the last start of a job that precedes it, whichever is later.
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


PROMISES = ("EASY's promise", "conservative's promise")
_ROUNDING = 1e-6  # Units by which a cap may be exceeded through rounding


def judge_easy(run: Schedule, asked: bool) -> Verdict:
    """Judge that no head of the queue starts after the reservation that it had when it became the head."""
    law, batch = PROMISES[0], run.scenario.batch
    if not asked and not _is_by(run, words.Backfill.EASY):
        return not_judged(law, "backfill is not easy")
    if batch.easy is words.EasyRule.ACCASIM:
        return not_judged(law, "easy: accasim makes no promise")
    ends = run.records.jobs.start_time + run.records.jobs.prediction
    exact = run.ran & (ends == run.records.jobs.end_time)
    if batch.easy is words.EasyRule.CQSIM and not exact[run.ran].all():
        return not_judged(law, "easy: cqsim promises nothing where estimates are not exact")
    if reason := next(obstacles(run, ends), ""):
        return not_judged(law, reason)
    ranks = ranks_of(run)
    heads, since = heads_of(run, ranks)
    amounts, capacity = _amounts(run)
    # Expected ends before this are over when the head could have started at the latest.
    start, arrival = run.records.jobs.start_time, run.arrival
    before = np.nextafter(start[heads], -np.inf)
    if batch.pass_interval:
        before = start[heads] - batch.pass_interval
        judged = before >= since
        heads, since, before = heads[judged], since[judged], before[judged]
    # Where there were several passes at one time, a job may have started in one before this was the head.
    instant = start[run.ran & (run.records.jobs.end_time <= start)]
    unsure = np.isin(since, instant) | (batch.ties is not words.TieOrder.DRAINED)
    order = np.argsort(since, kind="stable")
    heads, since, before, unsure = heads[order], since[order], before[order], unsure[order]
    by_start = np.flatnonzero(run.ran)[np.argsort(start[run.ran], kind="stable")]
    late = _late_heads(heads, since, before, unsure, by_start, start, ends, ranks, amounts, capacity)
    breaches = [
        Breach(
            int(run.records.jobs.job_id[heads[k]]),
            float(start[heads[k]]),
            f"starts after its reservation: it asks for {_words(run, amounts[heads[k]])} and was the head of "
            f"the queue since {since[k]:.17g} s (it came at {arrival[heads[k]]:.17g} s); beside the jobs "
            f"that ran then it fits from {_fits_from(run, heads[k], since[k], ranks, ends):.17g} s on",
        )
        for k in first_of(late, start[heads])
    ]
    return Verdict.of(law, f"{len(heads)} heads of the queue", breaches, int(late.sum()))


def judge_conservative(run: Schedule, asked: bool) -> Verdict:
    """Judge that no job starts later than it could beside those that arrived before it."""
    law, jobs, batch = PROMISES[1], run.records.jobs, run.scenario.batch
    if not asked and not _is_by(run, words.Backfill.CONSERVATIVE):
        return not_judged(law, "backfill is not conservative")
    if batch.names_nodes:
        return not_judged(law, "reservations are of named nodes, and this law knows only their number")
    ends = jobs.start_time + jobs.prediction
    if reason := next(obstacles(run, ends), ""):
        return not_judged(law, reason)
    inexact = run.ran & (ends != jobs.end_time)
    if inexact.any():
        return not_judged(law, f"{int(inexact.sum())} jobs end before their estimated ends")
    if batch.pass_interval:
        return not_judged(law, "passes are at multiples of batch.pass_interval")
    rows = np.flatnonzero(run.ran)
    ranks = ranks_of(run) if batch.ties is words.TieOrder.DRAINED else np.arange(run.n_jobs)
    rows = rows[np.lexsort((ranks[rows], run.arrival[rows]))]
    amounts, capacity = _amounts(run)
    start = jobs.start_time[rows]
    first = _first_places(run.arrival[rows], start, jobs.prediction[rows], amounts[rows], capacity)
    late = first < start
    breaches = [
        Breach(
            int(jobs.job_id[rows[k]]),
            float(start[k]),
            f"starts late: it came at {run.arrival[rows[k]]:.17g} s, and beside the jobs that came before it "
            f"there is room for {_words(run, amounts[rows[k]])} from {first[k]:.17g} s on for "
            f"{jobs.prediction[rows[k]]:.17g} s",
        )
        for k in first_of(late, start)
    ]
    return Verdict.of(law, f"{len(rows)} jobs", breaches, int(late.sum()))


def _is_by(run: Schedule, backfill: words.Backfill) -> bool:
    batch = run.scenario.batch
    return batch.dispatcher == words.Dispatcher.QUEUE and batch.backfill is backfill


def obstacles(run: Schedule, ends: Floats | None = None) -> Iterator[str]:
    """Yield reasons why a promise does not hold in this run, or cannot be checked in its tables.

    ``ends``: the expected ends, which no job may outlive; None where that is no obstacle.
    """
    batch, platform, jobs = run.scenario.batch, run.scenario.platform, run.records.jobs
    outlived = 0 if ends is None else int((run.ran & (jobs.end_time > ends)).sum())
    if outlived:
        yield f"{outlived} jobs outlive their estimates"
    if len(run.records.attempts.job) or platform.failures or platform.random_failures or platform.drains:
        yield "nodes go out of use, or jobs start again"
    if jobs.withdraw_time is not None and ends is not None:
        yield "jobs were withdrawn, and the tables do not tell what was reserved for them"
    if jobs.eligible_time is not None and (run.ran & (jobs.end_time <= jobs.start_time)).any():
        yield "jobs of no length have others wait for them: several passes are at one time"
    if run.scenario.coordination.rca:
        yield "nodes come back before their jobs end (coordination.rca)"
    if run.scenario.coordination.forecasts is not None:
        yield "reservations go by forecasts (coordination.forecasts)"
    if batch.classifier is not None:
        yield "the order of the queue changes (batch.classifier)"
    if batch.policy not in RANKED:
        yield f"the tables do not tell the order of policy {batch.policy}"
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


def _amounts(run: Schedule) -> tuple[Ints, Ints]:
    """Return the amounts that each job holds, units first, and the amounts of the machine."""
    units = run.n_nodes if run.is_exclusive else int(run.records.nodes.cores.sum())
    if run.scenario.batch.power_cap is not None:
        units = min(units, _units_under_cap(run) or 0)
    amounts = np.column_stack([run.units, run.shares]).astype(np.int64)
    return amounts, np.array([units, *run.records.shared.capacity], np.int64)


def _words(run: Schedule, amounts: Ints) -> str:
    unit = "nodes" if run.is_exclusive else "cores"
    words = [f"{amounts[0]} {unit}"]
    names = run.records.shared.name
    words += [f"{amount} of {name}" for amount, name in zip(amounts[1:], names, strict=True)]
    return ", ".join(words)


# EASY


@kernel
def _late_heads(
    heads: Ints,
    since: Floats,
    before: Floats,
    unsure: Mask,
    by_start: Ints,
    start: Floats,
    ends: Floats,
    ranks: Ints,
    amounts: Ints,
    capacity: Ints,
) -> Mask:
    """Return which heads fit before they started, beside the jobs that ran when they became the head.

    Heads are in order of ``since``; expected ends up to ``before`` count as over. ``unsure``: jobs that are
    behind a head and started at that very time count as well. ``by_start`` are all jobs in order of their
    starts; the other columns are of all jobs: start, expected end, place in the queue's order, amounts held.
    """
    late = np.zeros(len(heads), np.bool_)
    running, n, coming = np.empty(len(by_start), np.int64), 0, 0
    for k in range(len(heads)):
        while coming < len(by_start) and start[by_start[coming]] <= since[k]:
            running[n] = by_start[coming]
            n, coming = n + 1, coming + 1
        left, place = capacity.copy(), 0
        while place < n:
            job = running[place]
            if ends[job] < since[k]:  # for all heads that follow, too
                n -= 1
                running[place] = running[n]
                continue
            place += 1
            counts = start[job] < since[k] or ranks[job] < ranks[heads[k]] or unsure[k]
            if job != heads[k] and counts and ends[job] > before[k]:
                left -= amounts[job]
        late[k] = (left >= amounts[heads[k]]).all()
    return late


def _fits_from(run: Schedule, head: int, since: float, ranks: Ints, ends: Floats) -> float:
    """Return the reservation of a head: the first time at which it fits beside those that ran then."""
    start, (amounts, capacity) = run.records.jobs.start_time, _amounts(run)
    ran = np.flatnonzero(
        run.ran & ((start < since) | ((start == since) & (ranks < ranks[head]))) & (ends >= since)
    )
    for time in [since, *np.unique(ends[ran]).tolist()]:
        left = capacity - amounts[ran[ends[ran] > time]].sum(axis=0)
        if (left >= amounts[head]).all():
            return float(time)
    return np.inf


# Conservative


@kernel
def _first_places(arrival: Floats, start: Floats, estimate: Floats, amounts: Ints, capacity: Ints) -> Floats:
    """Return the first time at which each job fits beside those before it, at their actual starts.

    Jobs are in the order of their reservations. The profile is a list of steps from ``first`` to ``last``:
    from ``times[k]`` on, ``free[k]`` is free.
    """
    n = len(arrival)
    times, free = np.empty(2 * n + 2), np.empty((2 * n + 2, len(capacity)), np.int64)
    times[0], free[0], first, last = -np.inf, capacity, 0, 1
    found = np.empty(n)
    for job in range(n):
        while first + 1 < last and times[first + 1] <= arrival[job]:
            first += 1
        k, time = first, arrival[job]
        while True:
            end = max(time + estimate[job], np.nextafter(time, np.inf))
            here = k
            while here < last and times[here] < end and (free[here] >= amounts[job]).all():
                here += 1
            if here == last or times[here] >= end:
                break
            k = here + 1
            if k == last:  # more than there is at all
                time = np.inf
                break
            time = times[k]
        found[job] = time
        end = max(start[job] + estimate[job], np.nextafter(start[job], np.inf))
        for moment in (start[job], end):
            here = last
            while here > first and times[here - 1] > moment:
                here -= 1
            if here > first and times[here - 1] == moment:
                continue
            for other in range(last, here, -1):
                times[other] = times[other - 1]
                free[other] = free[other - 1]
            times[here], free[here] = moment, free[max(here - 1, first)]
            last += 1
        for here in range(first, last):
            if start[job] <= times[here] < end:
                free[here] -= amounts[job]
    return found
