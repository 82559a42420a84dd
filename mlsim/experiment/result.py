"""The result of one run: a summary, data frames, a notebook's view."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlsim.record import Records
from mlsim.scenario import Scenario

if TYPE_CHECKING:
    import pandas
    import polars as pl


@dataclass(frozen=True)
class Result:
    """The outcome of one run."""

    scenario: Scenario
    """The simulated scenario, with every default filled in."""
    summary: dict[str, Any]
    """The metrics, in the shape of ``summary.json``."""
    records: Records
    """Everything that happened, as NumPy columns."""
    directory: Path | None = None
    """Directory of the written run; None if it was not written."""

    @cached_property
    def jobs(self) -> pl.DataFrame:
        """One row per job, as in ``jobs.parquet``."""
        return self._frame("jobs")

    @cached_property
    def occupancy(self) -> pl.DataFrame:
        """Nodes held by each job, as in ``occupancy.parquet``."""
        return self._frame("occupancy")

    @cached_property
    def loops(self) -> pl.DataFrame:
        """One row a simulated loop, as in ``loops.parquet``."""
        return self._frame("loops")

    @cached_property
    def chunks(self) -> pl.DataFrame:
        """One row per chunk, as in ``chunks.parquet``; empty unless the trace shows chunks."""
        return self._frame("chunks")

    @cached_property
    def pes(self) -> pl.DataFrame:
        """One row per PE of a job, as in ``pes.parquet``; kept from trace level ``nodes`` on."""
        return self._frame("pes")

    @cached_property
    def messages(self) -> pl.DataFrame:
        """The coordination messages, as in ``messages.parquet``."""
        return self._frame("messages")

    @cached_property
    def power_steps(self) -> pl.DataFrame:
        """The measured power of jobs over time, as in ``power_steps.parquet``."""
        return self._frame("power_steps")

    def by(self, group: str, tau: float = 10.0) -> pl.DataFrame:
        """Break the metrics of jobs down: one row a group, every aggregate of every metric a column.

        Parameters
        ----------
        group
            ``class`` (short, medium, long), ``size`` (processors in powers of two), ``week``; or by name
            or number ``user``, ``group``, ``executable``, ``queue``, ``partition``, ``qos``.
        tau
            The bound of bounded slowdowns, in seconds.

        Raises
        ------
        InputError
            If there is no such grouping.

        Examples
        --------
        >>> import mlsim
        >>> result = mlsim.run("scenarios/quickstart.yaml")
        >>> result.by("class").columns[:3]
        ['class', 'jobs', 'share']
        """
        from mlsim.analysis.breakdowns import breakdown
        from mlsim.analysis.group_metrics import GROUPINGS

        if group not in GROUPINGS:
            from mlsim.errors import InputError

            raise InputError(f"by({group!r}): no such grouping; allowed: {', '.join(GROUPINGS)}")
        table: pl.DataFrame = breakdown(self.records.jobs, group, tau, self.records.names.of)
        return table

    @cached_property
    def passes(self) -> pl.DataFrame:
        """The passes of the dispatcher, as in ``passes.parquet``; empty unless ``output.passes`` is on."""
        return self._frame("passes")

    @cached_property
    def outages(self) -> pl.DataFrame:
        """When nodes were out of use, as in ``outages.parquet``."""
        return self._frame("outages")

    @cached_property
    def selections(self) -> pl.DataFrame:
        """Techniques chosen for time steps of loops, as in ``selections.parquet``."""
        return self._frame("selections")

    @property
    def attempts(self) -> pl.DataFrame:
        """Attempts that failures ended, as in ``attempts.parquet``."""
        return self._frame("attempts")

    @cached_property
    def nodes(self) -> pl.DataFrame:
        """One row per node of the machine, as in ``nodes.parquet``."""
        return self._frame("nodes")

    @cached_property
    def solves(self) -> pl.DataFrame:
        """Inputs and results of the solver, as in ``solves.parquet``; empty without one."""
        return self._frame("solves")

    @cached_property
    def shared(self) -> pl.DataFrame:
        """Machine-wide resources, as in ``shared.parquet``; empty if there are none."""
        return self._frame("shared")

    def to_pandas(self, name: str = "jobs") -> pandas.DataFrame:
        """Return one of the tables as a data frame of pandas (extra ``pandas``).

        Whole numbers stay whole: where some are missing the column is of pandas' type ``Int64``, and not of
        floating-point numbers. Words of closed sets are categories.

        Raises
        ------
        InputError
            If there is no such table, or pandas or pyarrow is not installed.
        """
        from mlsim.experiment.notebook_support import to_pandas

        return to_pandas(self.table(name))

    def table(self, name: str) -> pl.DataFrame:
        """Return one of the tables, by the name of its file without suffix; empty where it has no rows.

        Raises
        ------
        InputError
            If there is no such table.
        """
        from mlsim.record.table_files import FILES

        if name not in FILES:
            from mlsim.errors import InputError

            raise InputError(f"table({name!r}): no such table; allowed: {', '.join(FILES)}")
        return self._frame(name)

    def _frame(self, table: str) -> pl.DataFrame:
        from mlsim.record.table_writer import frame

        return frame(table, self.records, technique_of(self.scenario))

    def __repr__(self) -> str:
        return f"Result(scenario={self.scenario.name!r}, jobs={self.summary['jobs']['submitted']})"

    def _repr_html_(self) -> str:
        """Show the summary and the utilization in a notebook."""
        from mlsim.experiment.notebook_support import run_html

        return run_html(self.summary, self.records, self.scenario.name)


def technique_of(scenario: Scenario) -> str | None:
    """Name the loop technique of a scenario; None if its jobs execute no loops."""
    application = scenario.application
    return str(application.technique) if application.model.value == "loop" else None
