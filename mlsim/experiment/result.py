"""What one run gives back: a summary and data frames."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlsim.record import Records
from mlsim.scenario import Scenario

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Result"]


@dataclass(frozen=True)
class Result:
    """The outcome of one run.

    Attributes
    ----------
    scenario
        What was simulated, with every default filled in.
    summary
        The metrics, in the shape of ``summary.json``.
    records
        Everything that happened, as NumPy columns.
    directory
        Where the run was written; None if it was not.
    """

    scenario: Scenario
    summary: dict[str, Any]
    records: Records
    directory: Path | None = None

    @cached_property
    def jobs(self) -> pl.DataFrame:
        """One row a job, as in ``jobs.parquet``."""
        from mlsim.record.parquet import job_frame

        return job_frame(
            self.records.jobs,
            self.records.occupancy,
            technique_of(self.scenario),
            self.records.rejections,
        )

    @cached_property
    def occupancy(self) -> pl.DataFrame:
        """Which job held which nodes, as in ``occupancy.parquet``."""
        return self._frame("occupancy")

    @cached_property
    def loops(self) -> pl.DataFrame:
        """One row a simulated loop, as in ``loops.parquet``."""
        return self._frame("loops")

    @cached_property
    def chunks(self) -> pl.DataFrame:
        """One row a chunk, as in ``chunks.parquet``; empty unless the trace level is ``chunks``."""
        return self._frame("chunks")

    @cached_property
    def pes(self) -> pl.DataFrame:
        """One row a PE of a job, as in ``pes.parquet``; kept from trace level ``nodes`` on."""
        return self._frame("pes")

    @cached_property
    def messages(self) -> pl.DataFrame:
        """The coordination messages, as in ``messages.parquet``."""
        return self._frame("messages")

    def _frame(self, table: str) -> pl.DataFrame:
        from mlsim.record import parquet

        frame: pl.DataFrame = parquet.frame(table, self.records, technique_of(self.scenario))
        return frame

    def __repr__(self) -> str:
        return f"Result(scenario={self.scenario.name!r}, jobs={self.summary['jobs']['submitted']})"


def technique_of(scenario: Scenario) -> str | None:
    """Name the loop technique of a scenario; None if its jobs execute no loops."""
    application = scenario.application
    return str(application.technique) if application.model.value == "loop" else None
