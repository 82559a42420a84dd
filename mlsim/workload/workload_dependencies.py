"""Dependencies of jobs, resolved to indices in order of arrival."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Floats, Ints, Mask
from mlsim.errors import InputError
from mlsim.workload.log_names import job_names
from mlsim.workload.log_source import Workload

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Dependencies:
    """One row a dependency, in order of the predecessors.

    Attributes
    ----------
    job, predecessor
        Which job waits for which, as places in the order of arrival, from 0.
    completed
        Whether the predecessor must have completed, or only ended.
    think
        What must pass after its end [s].
    notes
        Counts: ``dependencies_outside`` (on jobs that are not simulated), ``broken_dependencies`` (left out).
    """

    job: Ints
    predecessor: Ints
    completed: Mask
    think: Floats
    notes: dict[str, int]

    def rows(self, rows: NDArray[np.intp] | Mask) -> Dependencies:
        """Return some of them."""
        return Dependencies(
            self.job[rows], self.predecessor[rows], self.completed[rows], self.think[rows], self.notes
        )


def dependencies_of(workload: Workload, path: Path, *, lenient: bool) -> Dependencies:
    """Find which of the jobs of a workload wait for which.

    Takes two walks over the jobs, and memory that follows the number of dependencies.

    Parameters
    ----------
    workload
        Opened with ``workload.dependencies: on``.
    path
        Its file, for messages.
    lenient
        Whether what can never hold is left out.

    Raises
    ------
    InputError
        A dependency can never hold, and this is not lenient.
    """
    broken = _Broken(path, lenient)
    edges, wanted = _named(workload)
    found = _places(workload, np.unique(wanted))
    edges = _resolved(edges, wanted, *found, broken, workload)
    n_outside = int(np.sum(edges.predecessor < 0))
    edges = edges.rows(edges.predecessor >= 0)
    edges = _without_circles(edges, workload, broken)
    edges = edges.rows(np.lexsort((edges.job, edges.predecessor)))
    counts = {"dependencies_outside": n_outside, "broken_dependencies": broken.count}
    edges.notes.update({name: count for name, count in counts.items() if count})
    return edges


class _Broken:
    """Raises an error for dependencies that can never hold, or counts them."""

    def __init__(self, path: Path, lenient: bool) -> None:
        self.count = 0
        self._path, self._lenient = path, lenient

    def meet(self, many: int, words: str) -> None:
        """Take note of some.

        Raises
        ------
        InputError
            Unless this is lenient.
        """
        if not many:
            return
        if not self._lenient:
            raise InputError(
                f"{self._path}: {words}\n"
                "  to leave such dependencies out and count them, set workload.lenient: true"
            )
        self.count += many


def _named(workload: Workload) -> tuple[Dependencies, Ints]:
    """Return the dependencies of the jobs with predecessors unresolved (-1), and the identifiers of these."""
    parts: list[tuple[Ints, Ints, Mask, Floats]] = []
    first = 0
    for block in workload.blocks():
        after = block.after
        if after is not None and len(after.row):
            parts.append((after.row + first, after.job, after.completed, after.think))
        first += len(block)
    if not parts:
        parts = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.bool_), np.empty(0))]
    job, wanted, completed, think = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Dependencies(job, np.full(len(job), -1, np.int64), completed, think, {}), wanted


def _places(workload: Workload, wanted: Ints) -> tuple[Ints, Ints]:
    """Return identifiers and indices of the jobs that others depend on, in order of both."""
    ids, places = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    first = 0
    for block in workload.blocks() if len(wanted) else ():
        rows = np.flatnonzero(np.isin(block.job_id, wanted))
        ids.append(block.job_id[rows])
        places.append(rows + first)
        first += len(block)
    id_, place = np.concatenate(ids), np.concatenate(places)
    order = np.lexsort((place, id_))
    return id_[order], place[order]


def _resolved(
    edges: Dependencies, wanted: Ints, ids: Ints, places: Ints, broken: _Broken, workload: Workload
) -> Dependencies:
    """Find the predecessors; -1 for those that are not simulated. What can never hold is taken out."""
    # An identifier that no job has, so that every search finds one.
    ids, places = np.append(ids, np.iinfo(np.int64).max), np.append(places, 0)
    low, high = np.searchsorted(ids, wanted, "left"), np.searchsorted(ids, wanted, "right")
    known = low < high
    # One number for identifier and place, in the order of both.
    group = np.cumsum(ids != np.roll(ids, 1)) * workload.n_jobs
    later = np.searchsorted(group + places, group[low] + edges.job)  # the first that is not before the job
    after = later + (places[np.minimum(later, len(ids) - 1)] == edges.job)
    chosen = np.where(later > low, later - 1, after)
    itself = known & (chosen >= high)
    missing = ~known & ~workload.has(wanted)
    _meet_itself(wanted[itself], workload, broken)
    _meet_unknown(edges.job[missing], wanted[missing], workload, broken)
    predecessor = np.where(known & ~itself, places[np.minimum(chosen, len(ids) - 1)], -1)
    found = Dependencies(edges.job, predecessor, edges.completed, edges.think, edges.notes)
    return found.rows(~itself & ~missing)


def _called(workload: Workload, job: int) -> str:
    """Return what the log calls a job."""
    names = job_names(workload.header)
    return str(job) if names is None else names[job - 1]


def _meet_itself(ids: Ints, workload: Workload, broken: _Broken) -> None:
    if len(ids):
        what = "waits" if len(ids) == 1 else "wait"
        broken.meet(
            len(ids), f"job {_listed(ids, workload)} {what} for itself (dependencies, or preceding_job)"
        )


def _meet_unknown(jobs: Ints, wanted: Ints, workload: Workload, broken: _Broken) -> None:
    if len(jobs):
        first = _ids(workload, jobs[:1])[0]
        more = f"; {len(jobs) - 1} more jobs wait for unknown ones" if len(jobs) > 1 else ""
        one, other = _called(workload, first), _called(workload, int(wanted[0]))
        broken.meet(len(jobs), f"job {one} waits for job {other}, which the log does not have{more}")


def _ids(workload: Workload, places: Ints) -> list[int]:
    """Return the identifiers of jobs by their indices, in the order of these."""
    found: dict[int, int] = {}
    first = 0
    for block in workload.blocks():
        here = places[(places >= first) & (places < first + len(block))]
        found |= dict(zip(here.tolist(), block.job_id[here - first].tolist(), strict=True))
        first += len(block)
    return [found[place] for place in places.tolist()]


def _listed(ids: Ints, workload: Workload) -> str:
    return ", ".join(_called(workload, job) for job in ids[:_SHOWN].tolist()) + (
        ", …" if len(ids) > _SHOWN else ""
    )


def _without_circles(edges: Dependencies, workload: Workload, broken: _Broken) -> Dependencies:
    """Check that no job waits for itself by way of others; every circle has a dependency on a later job."""
    forward = edges.predecessor > edges.job
    if not forward.any():
        return edges
    stuck = _never_free(edges.job.tolist(), edges.predecessor.tolist())
    if not stuck:
        return edges
    inside = np.isin(edges.job, list(stuck)) & np.isin(edges.predecessor, list(stuck))
    circle = _circle(edges.job[inside].tolist(), edges.predecessor[inside].tolist())
    path = " waits for ".join(f"job {_called(workload, id_)}" for id_ in _ids(workload, np.array(circle)))
    broken.meet(int(np.sum(inside & forward)), f"{path}: a circle, in which no job can ever start")
    return edges.rows(~(inside & forward))


def _never_free(jobs: list[int], predecessors: list[int]) -> set[int]:
    """Return the jobs that are on a cycle of dependencies or depend on one (Kahn's algorithm)."""
    missing: dict[int, int] = {}
    waiting: dict[int, list[int]] = {}
    for job, predecessor in zip(jobs, predecessors, strict=True):
        missing[job] = missing.get(job, 0) + 1
        missing.setdefault(predecessor, 0)
        waiting.setdefault(predecessor, []).append(job)
    free = deque(job for job, count in missing.items() if not count)
    while free:
        gone = free.popleft()
        del missing[gone]
        for job in waiting.get(gone, ()):
            missing[job] -= 1
            if not missing[job]:
                free.append(job)
    return set(missing)


def _circle(jobs: list[int], predecessors: list[int]) -> list[int]:
    """Return a cycle of dependencies: follow predecessors until a job comes again."""
    first = dict(zip(reversed(jobs), reversed(predecessors), strict=True))
    way: list[int] = []
    at = next(iter(first))
    while at not in way and at in first:
        way.append(at)
        at = first[at]
    return [*way[way.index(at) :], at] if at in way else way
