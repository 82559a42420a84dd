"""A log of a format of its own, a policy that reads one of its columns, and a file for another program."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mlsim import Result
from mlsim.batch.view import WaitingJobs

COLUMNS = ("job_id", "submit_time", "run_time", "walltime", "processors", "deadline")


def read(path: Path, separator: str = ";") -> dict[str, list[float | None]]:
    """Read one job a line; an empty cell is unknown."""
    rows = [line.split(separator) for line in path.read_text().splitlines() if not line.startswith("#")]
    return {
        name: [float(row[place]) if row[place].strip() else None for row in rows]
        for place, name in enumerate(COLUMNS)
    }


class EarliestDeadline:
    """Serve the job with the earliest deadline first; those without one count as due after some time."""

    live = False

    def __init__(self, without: float) -> None:
        self.without = without

    def key(self, now: float, jobs: WaitingJobs) -> np.ndarray:
        """Return the time at which each job is due."""
        deadline = jobs.columns["deadline"]
        return np.where(np.isnan(deadline), jobs.submit_time + self.without, deadline)


def write(result: Result, directory: Path, digits: int = 1) -> None:
    """Write when every job started and ended."""
    rows = result.jobs.select("job_id", "start_time", "end_time").iter_rows()
    lines = [f"{job} {start:.{digits}f} {end:.{digits}f}" for job, start, end in rows if start is not None]
    (directory / "schedule.txt").write_text("\n".join(lines) + "\n")
