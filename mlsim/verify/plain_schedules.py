"""Schedules of any simulator or machine as columns, and the laws that need no rule of a scheduler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from mlsim._runtime.arrays import Floats, Ints, Mask
from mlsim.scenario import Policy

SLACK: Final = 1e-6  # Seconds by which times may differ and count as equal: files round them
WARNING: Final = "idle"
KINDS: Final = {
    "submission": "jobs that start before their submission",
    "times": "jobs that end before their start, or lack one of the two",
    "run_time": "jobs that run for another time than their run time or walltime",
    "workload": "jobs that differ from the workload, or that one of the two lacks",
    "capacity": "starts beyond what the machine has",
    "node": "starts on a node that has no room",
    "law": "breaches of a law of runs",
    "order": "jobs that overtake against the rule",
    "late": "heads of the queue that fit and do not start",
    "reservation": "backfilled jobs that delay a reservation",
    "promise": "jobs that start after the time promised to them",
    WARNING: "jobs that could have started and did not (a warning)",
}
"""Kinds of findings, with what is counted of each."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault of a schedule, in a sentence."""

    kind: str  # One of KINDS
    time: float  # When [s]
    jobs: tuple[str, ...]  # The jobs concerned, that which is at fault first
    text: str


@dataclass(slots=True)
class Findings:
    """Faults by kind: all are counted, the first ``limit`` of each kind are described."""

    limit: int = 20
    counts: Counter[str] = field(default_factory=Counter)
    described: list[Finding] = field(default_factory=list)

    @property
    def faults(self) -> int:
        """The number of findings that are no warnings."""
        return self.counts.total() - self.counts[WARNING]

    def wants(self, kind: str) -> bool:
        """Whether another finding of a kind would be described."""
        return self.counts[kind] < self.limit

    def add(self, kind: str, jobs: Sequence[str], time: float, words: str, *parts: object) -> None:
        """Count a finding, and describe it unless there are enough of its kind.

        The first two places of ``words`` are the first job and the time. Floats are times.
        """
        self.counts[kind] += 1
        if self.counts[kind] <= self.limit:
            shown = [seconds(part) if isinstance(part, float) else part for part in (time, *parts)]
            text = "job " + words.format(jobs[0], *shown)
            self.described.append(Finding(kind, float(time), tuple(jobs), text))

    def join(self, other: Findings) -> None:
        """Add the findings of another judge."""
        self.counts.update(other.counts)
        self.described += other.described


@dataclass(frozen=True, slots=True)
class PlainSchedule:
    """One row per job; times in seconds, NaN where unknown."""

    job: list[str]
    """Identifiers."""
    submit: Floats
    """When it was submitted."""
    arrival: Floats
    """When it entered the queue: submission, or eligible time."""
    start: Floats
    """NaN for a job that never started."""
    end: Floats
    """Of a job that never started: when it left the queue; NaN if it never was in it."""
    units: Ints
    """What it holds of the machine."""
    estimate: Floats
    """The run time by which the scheduler plans: the walltime, or the run time where there is none."""
    duration: Floats
    """The time for which it has to run; NaN where the file does not know."""
    capacity: int
    """Units of the machine."""
    place: Ints
    """Place of each job in the file; rows are in order of submission, then number."""
    processors: Ints | None = None
    """What policies count of each job; None: its units."""
    stays: tuple[Ints, Ints] | None = None
    """Rows of jobs and a node that each holds."""
    shares: Ints | None = None
    """What it holds of each machine-wide amount; shape (jobs, amounts)."""
    shared: Mapping[str, int] = field(default_factory=dict)
    """These amounts, by name."""
    nodes: Sequence[str] = ()
    """Names of the nodes."""
    node_share: Floats | None = None
    """Part of its node that each of these holds; None: a node is of one job."""
    notes: tuple[str, ...] = ()
    """Assumptions that were made to read the file."""

    @property
    def ran(self) -> Mask:
        """Whether each job started and ended."""
        return np.isfinite(self.start) & np.isfinite(self.end)

    @property
    def amounts(self) -> Ints:
        """Limited amounts held by each job, units first; shape (jobs, amounts)."""
        shares = np.empty((len(self.job), 0), np.int64) if self.shares is None else self.shares
        return np.column_stack([self.units, shares]).astype(np.int64)


END: Final = 0  # A stay is over
INSTANT: Final = 1  # A stay of no length: it has to fit beside those that go on, and holds nothing afterwards
BEGIN: Final = 2  # A stay begins


def moments_of(start: Floats, end: Floats) -> tuple[Ints, Ints]:
    """Return the ends and starts of stays in order of time, ends before starts: row and kind of each."""
    instant = end <= start
    rows = np.arange(len(start))
    row = np.concatenate([rows[~instant], rows[instant], rows[~instant]])
    kind = np.repeat([END, INSTANT, BEGIN], [(~instant).sum(), instant.sum(), (~instant).sum()])
    time = np.where(kind == END, end[row], start[row])
    order = np.lexsort((row, kind, time))
    return row[order], kind[order]


_REVERSED = {"LCFS": "FCFS", "LPF": "SPF", "LQF": "SQF", "LAF": "SAF", "LRF": "SRF"}
RANKED = tuple(map(Policy, (*_REVERSED, *_REVERSED.values(), "EDF")))
"""Policies whose keys depend on a job's arrival, estimate and processors alone."""


def policy_keys(policy: Policy, r: Floats, p: Floats, q: Floats, deadline_factor: float) -> Floats:
    """Return the keys of jobs, of which the smallest is first, by arrival, estimate and processors."""
    keys = {"FCFS": r, "SPF": p, "SQF": q, "SAF": p * q, "SRF": p / q, "EDF": r + deadline_factor * p}
    return keys[policy.value] if policy.value in keys else -keys[_REVERSED[policy.value]]


def seconds(time: float) -> str:
    """Return a time in words."""
    return f"{time:.6f}".rstrip("0").rstrip(".") + " s"


def snapped(schedule: PlainSchedule) -> tuple[Floats, Floats, Floats]:
    """Return arrivals, starts and ends in which times that count as equal are equal."""
    columns = (schedule.arrival, schedule.start, schedule.end)
    known = np.unique(np.concatenate(columns))
    known = known[np.isfinite(known)]
    first = np.concatenate([[True], np.diff(known) > SLACK])[: len(known)]
    level = known[first][np.cumsum(first) - 1]

    def snap(times: Floats) -> Floats:
        there = np.isfinite(times)
        found = times.copy()
        found[there] = level[np.searchsorted(known, times[there])]
        return found

    arrival, start, end = map(snap, columns)
    return arrival, start, end


def judge_plain(schedule: PlainSchedule, found: Findings) -> None:
    """Judge the times of each job, and that jobs never hold more than there is."""
    names = schedule.job
    arrival, start, end = snapped(schedule)
    for row in np.flatnonzero(start < arrival).tolist():
        words = "{} starts at {}, before its submission at {}"
        found.add("submission", [names[row]], start[row], words, arrival[row])
    for row in np.flatnonzero(np.isfinite(start) & ~(end >= start)).tolist():
        words = "{} starts at {} and has no end" if np.isnan(end[row]) else "{} starts at {} and ends at {}"
        found.add("times", [names[row]], start[row], words, end[row])
    ran = schedule.ran & (end >= start)
    ran_for = schedule.end - schedule.start
    # Where times are large, their difference is rounded.
    rounded = SLACK + 4.0 * np.spacing(np.abs(np.nan_to_num(schedule.end)))
    for row in np.flatnonzero(ran & (np.abs(ran_for - schedule.duration) > rounded)).tolist():
        words = "{} starts at {} and runs for {}, until {}; by its run time and walltime it runs for {}"
        times = (ran_for[row], end[row], schedule.duration[row])
        found.add("run_time", [names[row]], start[row], words, *times)
    _judge_capacity(schedule, np.flatnonzero(ran), start, end, found)
    _judge_nodes(schedule, ran, start, end, found)


def _judge_capacity(schedule: PlainSchedule, rows: Ints, start: Floats, end: Floats, found: Findings) -> None:
    """Judge that all jobs together hold at most the machine, ends before starts of the same time."""
    row, kind = moments_of(start[rows], end[rows])
    row = rows[row]
    amount = schedule.units[row] * np.where(kind == END, -1, 1)
    held = np.cumsum(np.where(kind == INSTANT, 0, amount)) + np.where(kind == INSTANT, amount, 0)
    for k in np.flatnonzero((held > schedule.capacity) & (kind != END)).tolist():
        job, beside = int(row[k]), np.empty(0, np.int64)
        if found.wants("capacity"):
            beside = rows[(start[rows] <= start[job]) & (end[rows] > start[job]) & (rows != job)]
        words = "{} starts at {} on {} units beside {}; then {} units are held, and there are {}"
        parts = (schedule.units[job], _named(schedule, beside), held[k], schedule.capacity)
        found.add("capacity", [schedule.job[job]], start[job], words, *parts)


def _judge_nodes(schedule: PlainSchedule, ran: Mask, start: Floats, end: Floats, found: Findings) -> None:
    """Judge that the jobs on each node hold at most that node."""
    if schedule.stays is None:
        return
    job, node = schedule.stays
    there = ran[job]
    job, node = job[there], node[there]
    share = np.ones(len(job)) if schedule.node_share is None else schedule.node_share[there]
    row, kind = moments_of(start[job], end[job])
    order = np.argsort(node[row], kind="stable")  # every node's sum begins and ends at 0
    row, kind = row[order], kind[order]
    amount = share[row] * np.where(kind == END, -1.0, 1.0)
    held = np.cumsum(np.where(kind == INSTANT, 0.0, amount)) + np.where(kind == INSTANT, amount, 0.0)
    over = np.flatnonzero((held > 1.0 + SLACK) & (kind != END))
    for k in over[np.argsort(start[job[row[over]]], kind="stable")].tolist():
        here, place = int(job[row[k]]), int(node[row[k]])
        beside = np.empty(0, np.int64)
        if found.wants("node"):
            others = (node == place) & (start[job] <= start[here]) & (end[job] > start[here]) & (job != here)
            beside = job[others]
        words = "{} starts at {} on node {}, which has no room for it beside {}"
        parts = (schedule.nodes[place], _named(schedule, beside))
        found.add("node", [schedule.job[here]], start[here], words, *parts)


def _named(schedule: PlainSchedule, rows: Ints, most: int = 5) -> str:
    """Return jobs by name, the first of many."""
    names = [schedule.job[row] for row in rows[:most].tolist()]
    more = f" and {len(rows) - most} more" if len(rows) > most else ""
    return f"job{'s' if len(rows) > 1 else ''} {', '.join(names)}{more}" if len(rows) else "no other"
