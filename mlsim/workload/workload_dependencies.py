"""Dependencies of jobs: as a log states them, and resolved to places in order of arrival.

The column ``dependencies`` of CSV, Parquet and Batsim workloads is in the form of Slurm's ``--dependency``:
``afterok:12:13,afterany:14``, all of which must hold (``;`` may replace the comma). ``afterok`` waits until
a job has completed, ``afterany`` until it has ended in any way. A think time may follow a job:
``afterany:14+60s`` (units s, min, h, d).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mlsim._runtime.arrays import Floats, Ints, Mask, NDArray
from mlsim.errors import InputError
from mlsim.workload.log_fields import exact_id, job_names

if TYPE_CHECKING:
    from mlsim.workload.log_source import Workload

DEPENDENCIES = "dependencies"  # Name of the column
EXPECTED = (
    "nothing, or jobs to wait for, such as afterok:12:13,afterany:14+60s (afterok and afterany are known; "
    "all must hold; an id is a whole number below 2^63, or a name that the log has, without : + , ;)"
)
"""Allowed content of a cell of the column."""

_PART = re.compile(r"(afterok|afterany)((?::[^:+,;\s]+(?:\+\d+(?:\.\d+)?(?:s|min|h|d))?)+)")
_JOB = re.compile(r":([^:+]+)(?:\+([0-9.]+)(s|min|h|d))?")
_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}

_Edge = tuple[int, bool, float]


@dataclass(frozen=True, slots=True)
class LogDependencies:
    """Dependencies of some jobs, one row each, in the order of the jobs."""

    n_jobs: int  # Number of jobs of the block
    row: Ints  # Index of the waiting job, from 0
    job: Ints  # Identifier of the job it waits for
    completed: Mask  # Whether that job must have completed (`afterok`), or only ended
    think: Floats  # Time that must pass after that [s]

    def select(self, rows: Mask | NDArray[np.intp] | slice) -> LogDependencies:
        """Return the dependencies of the jobs of a mask, an index array or a slice."""
        kept = np.arange(self.n_jobs)[rows]
        place = np.full(self.n_jobs, -1, np.int64)
        place[kept] = np.arange(len(kept))
        row = place[self.row]
        order = np.argsort(row, kind="stable")
        order = order[row[order] >= 0]
        return LogDependencies(
            len(kept), row[order], self.job[order], self.completed[order], self.think[order]
        )

    def cells(self, names: Sequence[str] | None = None) -> list[str]:
        """Return each job's cell of the column ``dependencies``; ``names``: of the jobs 1, 2, ..."""
        cells = [""] * self.n_jobs
        for row, job, completed, think in zip(
            self.row.tolist(), self.job.tolist(), self.completed.tolist(), self.think.tolist(), strict=True
        ):
            later = f"+{np.format_float_positional(think, trim='-')}s" if think else ""
            called = job if names is None else names[job - 1]
            cell = f"{'afterok' if completed else 'afterany'}:{called}{later}"
            cells[row] = f"{cells[row]},{cell}" if cells[row] else cell
        return cells

    def preceding(self) -> tuple[Ints, Floats] | None:
        """Return preceding job and think time [s] as in SWF, -1 for none; None where SWF cannot hold them."""
        if self.completed.any() or (np.diff(self.row) == 0).any() or (self.job < 1).any():
            return None
        job, think = np.full(self.n_jobs, -1), np.full(self.n_jobs, -1.0)
        job[self.row], think[self.row] = self.job, self.think
        return job, think

    @staticmethod
    def none(n_jobs: int) -> LogDependencies:
        """Return the dependencies of ``n_jobs`` jobs that depend on none."""
        none = np.empty(0, np.int64)
        return LogDependencies(n_jobs, none, none, np.empty(0, np.bool_), np.empty(0))


def join_dependencies(
    parts: Sequence[LogDependencies | None], sizes: Sequence[int]
) -> LogDependencies | None:
    """Join the dependencies of blocks of jobs end to end; None if no block has any."""
    if all(part is None for part in parts):
        return None
    known = [
        LogDependencies.none(size) if part is None else part for part, size in zip(parts, sizes, strict=True)
    ]
    firsts = np.cumsum([0, *sizes])
    placed = [replace(part, row=part.row + first) for part, first in zip(known, firsts, strict=False)]
    return _together(int(firsts[-1]), placed)


def _together(n_jobs: int, parts: Sequence[LogDependencies]) -> LogDependencies:
    columns = ([getattr(part, name) for part in parts] for name in ("row", "job", "completed", "think"))
    return LogDependencies(n_jobs, *map(np.concatenate, columns))


def with_preceding_jobs(preceding: Ints, think: Floats, more: LogDependencies | None) -> LogDependencies:
    """Make dependencies of the preceding jobs of an SWF log (0 and below: none), and add further ones."""
    row, n = np.flatnonzero(preceding > 0), len(preceding)
    job, later = preceding[row].astype(np.int64), np.maximum(think[row], 0.0)
    found = LogDependencies(n, row, job, np.zeros(len(row), np.bool_), later)
    if more is None or not len(more.row):
        return found
    return _together(n, [found, more]).select(slice(None))  # which orders them by job


def parse_dependencies(
    cells: Sequence[str | None], number: Callable[[str], int | None] = exact_id
) -> tuple[LogDependencies, Mask]:
    """Read the column ``dependencies``; return the dependencies, and which cells make sense."""
    rows: list[int] = []
    edges: list[_Edge] = []
    fits = np.ones(len(cells), np.bool_)
    known: dict[str, list[_Edge] | None] = {"": []}
    for row, text in enumerate(cells):
        cell = (text or "").strip()
        if cell not in known:
            known[cell] = _edges(cell, number)
        found = known[cell]
        fits[row] = found is not None
        edges += found or ()
        rows += [row] * len(found or ())
    jobs, completed, think = zip(*edges, strict=True) if edges else ((), (), ())
    return LogDependencies(
        len(cells),
        np.array(rows, np.int64),
        np.array(jobs, np.int64),
        np.array(completed, np.bool_),
        np.array(think, np.float64),
    ), fits


def _edges(cell: str, number: Callable[[str], int | None]) -> list[_Edge] | None:
    """Parse a cell: jobs, whether they must have completed, think times [s]; None if it is malformed."""
    edges: list[_Edge] = []
    for part in re.split("[,;]", cell):
        match = _PART.fullmatch(part.strip())
        if match is None:
            return None
        for job, amount, unit in _JOB.findall(match[2]):
            known = number(job)
            if known is None:
                return None
            edges.append((known, match[1] == "afterok", float(amount or 0) * _SECONDS[unit or "s"]))
    return edges


# Dependencies between the jobs of a simulation

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Dependencies:
    """One row per dependency, in order of the predecessors: ``job`` waits for ``predecessor``.

    ``notes`` counts ``dependencies_outside`` (on jobs that are not simulated) and ``broken_dependencies``.
    """

    job: Ints  # place in the order of arrival
    predecessor: Ints  # likewise
    completed: Mask  # whether it must have completed, or only ended
    think: Floats  # s, to pass after that
    notes: dict[str, int]

    def rows(self, rows: NDArray[np.intp] | Mask) -> Dependencies:
        """Return some of them."""
        return Dependencies(
            self.job[rows], self.predecessor[rows], self.completed[rows], self.think[rows], self.notes
        )


def dependencies_of(workload: Workload, path: Path, *, lenient: bool) -> Dependencies:
    """Find the dependencies among jobs, with two walks; ones that never hold are left out if ``lenient``."""
    broken = 0

    def drop(many: int, words: str) -> None:
        """Count dependencies that are left out, or raise an error for them."""
        nonlocal broken
        if not lenient:
            raise InputError(
                f"{path}: {words}\n"
                "  to leave such dependencies out and count them, set workload.lenient: true"
            )
        broken += many

    edges = _resolved(workload, drop)
    n_outside = int(np.sum(edges.predecessor < 0))
    edges = edges.rows(edges.predecessor >= 0)
    edges = _without_circles(edges, workload, drop)
    edges = edges.rows(np.lexsort((edges.job, edges.predecessor)))
    counts = {"dependencies_outside": n_outside, "broken_dependencies": broken}
    edges.notes.update({name: count for name, count in counts.items() if count})
    return edges


_Drop = Callable[[int, str], None]  # Called with a number of dependencies that can never hold, and why


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


def _resolved(workload: Workload, drop: _Drop) -> Dependencies:
    """Find the predecessors, -1 for those not simulated; dependencies that never hold are left out."""
    parts, sizes = [], []
    for block in workload.blocks():
        parts.append(block.after)
        sizes.append(len(block))
    stated = join_dependencies(parts, sizes) or LogDependencies.none(workload.n_jobs)
    waiting, wanted = stated.row, stated.job
    ids, places = _places(workload, np.unique(wanted))
    # An identifier that no job has, so that every search finds one.
    ids, places = np.append(ids, np.iinfo(np.int64).max), np.append(places, 0)
    low, high = np.searchsorted(ids, wanted, "left"), np.searchsorted(ids, wanted, "right")
    known = low < high
    # One number for identifier and place, in the order of both.
    group = np.cumsum(ids != np.roll(ids, 1)) * workload.n_jobs
    later = np.searchsorted(group + places, group[low] + waiting)  # the first that is not before the job
    after = later + (places[np.minimum(later, len(ids) - 1)] == waiting)
    chosen = np.where(later > low, later - 1, after)
    itself = known & (chosen >= high)
    missing = ~known & ~workload.has(wanted)
    if itself.any():
        ids_, what = wanted[itself], "waits" if itself.sum() == 1 else "wait"
        shown = ", ".join(_called(workload, job) for job in ids_[:_SHOWN].tolist())
        shown += ", …" if len(ids_) > _SHOWN else ""
        drop(len(ids_), f"job {shown} {what} for itself (dependencies, or preceding_job)")
    if missing.any():
        first, others = _ids(workload, waiting[missing][:1])[0], int(missing.sum()) - 1
        more = f"; {others} more jobs wait for unknown ones" if others else ""
        one, other = _called(workload, first), _called(workload, int(wanted[missing][0]))
        drop(others + 1, f"job {one} waits for job {other}, which the log does not have{more}")
    predecessor = np.where(known & ~itself, places[np.minimum(chosen, len(ids) - 1)], -1)
    found = Dependencies(waiting, predecessor, stated.completed, stated.think, {})
    return found.rows(~itself & ~missing)


def _called(workload: Workload, job: int) -> str:
    """Return the log's name of a job."""
    names = job_names(workload.header)
    return str(job) if names is None else names[job - 1]


def _ids(workload: Workload, places: Ints) -> list[int]:
    """Return the identifiers of jobs by their indices, in the order of these."""
    found: dict[int, int] = {}
    first = 0
    for block in workload.blocks():
        here = places[(places >= first) & (places < first + len(block))]
        found |= dict(zip(here.tolist(), block.job_id[here - first].tolist(), strict=True))
        first += len(block)
    return [found[place] for place in places.tolist()]


def _without_circles(edges: Dependencies, workload: Workload, drop: _Drop) -> Dependencies:
    """Check that no job waits for itself by way of others; every circle has a dependency on a later job."""
    forward = edges.predecessor > edges.job
    if not forward.any():
        return edges
    predecessors: dict[int, list[int]] = {}
    for job, predecessor in zip(edges.job.tolist(), edges.predecessor.tolist(), strict=True):
        predecessors.setdefault(job, []).append(predecessor)
    sorter = TopologicalSorter(predecessors)
    try:
        sorter.prepare()
    except CycleError as error:
        circle = error.args[1][::-1]  # each job waits for the next one
    else:
        return edges
    free: list[int] = []  # jobs that neither are on a circle nor depend on one
    while ready := sorter.get_ready():
        free += ready
        sorter.done(*ready)
    inside = forward & ~np.isin(edges.job, free) & ~np.isin(edges.predecessor, free)
    path = " waits for ".join(f"job {_called(workload, id_)}" for id_ in _ids(workload, np.array(circle)))
    drop(int(np.sum(inside)), f"{path}: a circle, in which no job can ever start")
    return edges.rows(~inside)
