"""Conservative backfilling whose places are of named nodes, as batsched plans: slow and obvious.

A job gets the earliest place at which enough nodes are free over all of its walltime, and the lowest of
them. After a submission the new job is placed; after an end all waiting jobs are, one by one in their order,
each without its old place. A set of nodes is a whole number, one bit a node.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

_RESERVATION = -1  # in place of the number of a job that ended


@dataclass(frozen=True)
class Job:
    """A job: times in s."""

    submit: float
    size: int
    walltime: float
    run_time: float


class Profile:
    """Free nodes over time: ``free[i]`` from ``times[i]`` until the next of the times."""

    def __init__(self, nodes: int) -> None:
        self.times, self.free = [0.0], [(1 << nodes) - 1]

    def cut(self, at: float) -> int:
        """Return the index of the part that begins at a time, which is made if there is none."""
        place = bisect_left(self.times, at)
        if place == len(self.times) or self.times[place] != at:
            self.times.insert(place, at)
            self.free.insert(place, self.free[place - 1])
        return place

    def change(self, begin: float, end: float, nodes: int, *, free: bool) -> None:
        """Take nodes for a time, or give them back."""
        first, last = self.cut(begin), self.cut(end)
        for part in range(first, last):
            self.free[part] = self.free[part] | nodes if free else self.free[part] & ~nodes

    def begin_at(self, now: float) -> None:
        """Forget what was before a time, and join parts that have the same free nodes."""
        first = self.cut(now)
        del self.times[:first], self.free[:first]
        for part in range(len(self.free) - 1, 0, -1):
            if self.free[part] == self.free[part - 1]:
                del self.times[part], self.free[part]

    def place(self, job: Job) -> tuple[float, int]:
        """Return the earliest start of a job, and its nodes."""
        for part, begin in enumerate(self.times):
            nodes, later = self.free[part], part + 1
            while nodes.bit_count() >= job.size and later < len(self.times):
                if self.times[later] >= begin + job.walltime:
                    break
                nodes &= self.free[later]
                later += 1
            if nodes.bit_count() >= job.size:
                return begin, lowest(nodes, job.size)
        raise ValueError("a job is larger than the machine")


def lowest(nodes: int, count: int) -> int:
    """Return the lowest nodes of a set."""
    found = 0
    for _ in range(count):
        one = nodes & -nodes
        found, nodes = found | one, nodes ^ one
    return found


def nodes_of(text: str) -> int:
    """Return the set of nodes of a text such as ``0-3 7``."""
    found = 0
    for part in text.split():
        first, _, last = part.partition("-")
        found |= (1 << (int(last or first) + 1)) - (1 << int(first))
    return found


def schedule(
    jobs: Sequence[Job], nodes: int, reservations: Sequence[tuple[float, float, int]] = ()
) -> list[tuple[float, int]]:
    """Return start and nodes of each job; jobs in order of submission, reservations as begin, end, nodes."""
    profile = Profile(nodes)
    events = [(job.submit, 1, row) for row, job in enumerate(jobs)]  # ends, 0, come before submissions
    for begin, end, held in reservations:
        profile.change(begin, end, held, free=False)
        events.append((end, 0, _RESERVATION))
    heapq.heapify(events)
    waiting: list[int] = []
    places: dict[int, tuple[float, int]] = {}
    started: dict[int, tuple[float, int]] = {}
    while events:
        now, ended, new = events[0][0], [], []
        while events and events[0][0] == now:
            _, kind, row = heapq.heappop(events)
            (new if kind else ended).append(row)
        profile.begin_at(now)
        for row in (row for row in ended if row != _RESERVATION):
            begin, held = started[row]
            if begin + jobs[row].walltime > now:
                profile.change(now, begin + jobs[row].walltime, held, free=True)
        waiting += new
        for row in list(waiting if ended else new):
            if row in places:
                begin, held = places.pop(row)
                profile.change(begin, begin + jobs[row].walltime, held, free=True)
            begin, held = profile.place(jobs[row])
            profile.change(begin, begin + jobs[row].walltime, held, free=False)
            if begin > now:
                places[row] = begin, held
                continue
            started[row] = begin, held
            waiting.remove(row)
            heapq.heappush(events, (now + min(jobs[row].run_time, jobs[row].walltime), 0, row))
    return [started[row] for row in range(len(jobs))]
