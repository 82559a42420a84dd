"""Logs from which other workloads are made: their jobs as a simulation gets them, and their headers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mlsim import __version__
from mlsim.errors import InputError
from mlsim.scenario import WorkloadConfig
from mlsim.workload.convert import ANY_SIZE, shifted_header
from mlsim.workload.header import Header
from mlsim.workload.jobs import JobBlock
from mlsim.workload.source import AS_LOGGED, open_workload

__all__ = ["SourceLog", "offered_load"]


class SourceLog:
    """A log: its jobs cleaned, in arrival order, the first one submitted at time 0.

    Parameters
    ----------
    path
        The file: SWF, CSV, Parquet or Batsim JSON, compressed or not.
    lenient
        Whether broken lines are skipped.
    options
        Other keys of the section ``workload`` on how it is read: ``format``, ``cleaning``, ``estimates``.

    Raises
    ------
    InputError
        If it cannot be read, or has no job.
    """

    def __init__(self, path: str | Path, lenient: bool = False, **options: Any) -> None:
        self.path = Path(path)
        config = WorkloadConfig(path=str(path), lenient=lenient, dependencies=True, **options)
        self._workload = open_workload(config, self.path, ANY_SIZE, AS_LOGGED)

    def blocks(self) -> Iterator[JobBlock]:
        """Yield the jobs in arrival order; every call reads them anew."""
        return self._workload.blocks()

    def jobs(self) -> JobBlock:
        """Return all jobs at once."""
        return JobBlock.concatenate(list(self.blocks()))

    def header(self, note: str) -> Header:
        """Return the header of what is made of it; the note says how that was done."""
        header = self.start_header()
        before = header.get("Note", [])
        notes = [before] if isinstance(before, str) else list(before)
        return header | {"Note": [*notes, f"{note}, of {self.path.name}, by mlsim {__version__}"]}

    def start_header(self) -> Header:
        """Return the log's header, the time of which begins with the first job."""
        return shifted_header(self._workload.header, self._workload.origin)

    def processors(self) -> int:
        """Return how many processors its machine has, as its header says.

        Raises
        ------
        InputError
            If it does not say.
        """
        for key in ("MaxProcs", "MaxNodes"):
            value = self._workload.header.get(key)
            if isinstance(value, str) and value.isdecimal() and int(value) > 0:
                return int(value)
        raise InputError(f"{self.path}: its header does not say how many processors there are; say it")


def offered_load(blocks: Iterator[JobBlock], processors: int) -> float:
    """Return run time x processors of all jobs over those of the machine until the last submission."""
    work = last = 0.0
    for block in blocks:
        work += float(np.sum(block.run_time * block.processors))
        last = float(block.submit_time[-1])
    return work / (processors * last) if last > 0 else np.nan
