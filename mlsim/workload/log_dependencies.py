"""Dependencies on other jobs, by job identifier, as a log states them.

The column ``dependencies`` of CSV, Parquet and Batsim workloads is in the form of Slurm's ``--dependency``:
``afterok:12:13,afterany:14``, all of which must hold (``;`` may stand for the comma). ``afterok`` waits until
a job has completed, ``afterany`` until it has ended in any way. A think time may follow a job:
``afterany:14+60s`` (units s, min, h, d).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Floats, Ints, Mask
from mlsim.workload.log_times import exact_id

DEPENDENCIES = "dependencies"
"""Name of the column."""
EXPECTED = (
    "nothing, or jobs to wait for, such as afterok:12:13,afterany:14+60s (afterok and afterany are known; "
    "all must hold; an id is a whole number below 2^63, or a name that the log has, without : + , ;)"
)
"""What a cell of the column can hold."""

_PART = re.compile(r"(afterok|afterany)((?::[^:+,;\s]+(?:\+\d+(?:\.\d+)?(?:s|min|h|d))?)+)")
_JOB = re.compile(r":([^:+]+)(?:\+([0-9.]+)(s|min|h|d))?")
_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}

_Edge = tuple[int, bool, float]


@dataclass(frozen=True, slots=True)
class LogDependencies:
    """Dependencies of some jobs, one row each, in the order of the jobs."""

    n_jobs: int
    """How many jobs they are about."""
    row: Ints
    """Which of these waits, from 0."""
    job: Ints
    """Identifier of the job it waits for."""
    completed: Mask
    """Whether that job must have completed (``afterok``), or only ended."""
    think: Floats
    """What must pass after that [s]."""

    def select(self, rows: Mask | NDArray[np.intp] | slice) -> LogDependencies:
        """Return the dependencies of the jobs that a mask, an index array or a slice names."""
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
        """Return the cell of the column ``dependencies`` for each job, empty where it depends on none.

        Jobs are called by the names of the numbers 1, 2, ..., if there are any.
        """
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
    """Join the dependencies of blocks of jobs end to end; None if no block says anything."""
    if all(part is None for part in parts):
        return None
    known = [
        LogDependencies.none(size) if part is None else part for part, size in zip(parts, sizes, strict=True)
    ]
    firsts = np.cumsum([0, *sizes])
    return LogDependencies(
        int(firsts[-1]),
        np.concatenate([part.row + first for part, first in zip(known, firsts, strict=False)]),
        np.concatenate([part.job for part in known]),
        np.concatenate([part.completed for part in known]),
        np.concatenate([part.think for part in known]),
    )


def with_preceding_jobs(preceding: Ints, think: Floats, more: LogDependencies | None) -> LogDependencies:
    """Make dependencies of the preceding jobs of an SWF log (0 and below: none), and add further ones."""
    row = np.flatnonzero(preceding > 0)
    found = LogDependencies(
        len(preceding),
        row,
        preceding[row].astype(np.int64),
        np.zeros(len(row), np.bool_),
        np.maximum(think[row], 0.0),
    )
    if more is None or not len(more.row):
        return found
    rows = np.concatenate([found.row, more.row])
    order = np.argsort(rows, kind="stable")
    return LogDependencies(
        len(preceding),
        rows[order],
        np.concatenate([found.job, more.job])[order],
        np.concatenate([found.completed, more.completed])[order],
        np.concatenate([found.think, more.think])[order],
    )


def parse_dependencies(
    cells: Sequence[str | None], number: Callable[[str], int | None] = exact_id
) -> tuple[LogDependencies, Mask]:
    """Read the column ``dependencies``.

    Parameters
    ----------
    cells
        None and empty ones wait for nothing.
    number
        Returns the identifier that a text is; None if it is none.

    Returns
    -------
    dependencies, fits
        And which cells make sense; the others wait for nothing.
    """
    edges: list[tuple[int, int, bool, float]] = []
    fits = np.ones(len(cells), np.bool_)
    known: dict[str, list[_Edge] | None] = {}
    for row, text in enumerate(cells):
        cell = (text or "").strip()
        if not cell:
            continue
        if cell not in known:
            known[cell] = _edges(cell, number)
        found = known[cell]
        fits[row] = found is not None
        edges += [(row, *edge) for edge in found or ()]
    if not edges:
        return LogDependencies.none(len(cells)), fits
    rows, jobs, completed, think = zip(*edges, strict=True)
    after = LogDependencies(
        len(cells),
        np.array(rows, np.int64),
        np.array(jobs, np.int64),
        np.array(completed, np.bool_),
        np.array(think, np.float64),
    )
    return after, fits


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
