"""The result of one run: a summary, data frames, and what a notebook shows."""

from __future__ import annotations

import io
from base64 import b64encode
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from mlsim._files import read_bytes
from mlsim.errors import InputError
from mlsim.record import Records, table_files
from mlsim.scenario import Scenario

if TYPE_CHECKING:
    import pandas
    import polars as pl
    from rich.console import RenderableType

    from mlsim.analysis.recorded_waits import RecordedWaits


def table_property(name: str) -> cached_property[pl.DataFrame]:
    """Return a property of results: a table, made on first use."""
    return cached_property(lambda result: _frame(result, name))


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

    jobs = table_property("jobs")
    """One row per job, as in ``jobs.parquet``."""
    occupancy = table_property("occupancy")
    """Nodes held by each job, as in ``occupancy.parquet``."""
    loops = table_property("loops")
    """One row a simulated loop, as in ``loops.parquet``."""
    chunks = table_property("chunks")
    """One row per chunk, as in ``chunks.parquet``; empty unless the trace shows chunks."""
    pes = table_property("pes")
    """One row per PE of a job, as in ``pes.parquet``; kept from trace level ``nodes`` on."""
    messages = table_property("messages")
    """The coordination messages, as in ``messages.parquet``."""
    power_steps = table_property("power_steps")
    """The measured power of jobs over time, as in ``power_steps.parquet``."""
    passes = table_property("passes")
    """The passes of the dispatcher, as in ``passes.parquet``; empty unless ``output.passes`` is on."""
    outages = table_property("outages")
    """When nodes were out of use, as in ``outages.parquet``."""
    selections = table_property("selections")
    """Techniques chosen for time steps of loops, as in ``selections.parquet``."""
    attempts = table_property("attempts")
    """Attempts that failures ended, as in ``attempts.parquet``."""
    nodes = table_property("nodes")
    """One row per node of the machine, as in ``nodes.parquet``."""
    solves = table_property("solves")
    """Inputs and results of the solver, as in ``solves.parquet``; empty without one."""
    shared = table_property("shared")
    """Machine-wide resources, as in ``shared.parquet``; empty if there are none."""

    @cached_property
    def recorded(self) -> RecordedWaits:
        """The waits in the log beside those of the run; only where the log has the starts of jobs."""
        from mlsim.analysis.recorded_waits import RecordedWaits

        return RecordedWaits(self.records)

    def by(self, group: str, tau: float = 10.0) -> pl.DataFrame:
        """Break the metrics of jobs down: one row a group, every aggregate of every metric a column.

        Parameters
        ----------
        group
            ``class`` (short, medium, long), ``size`` (processors in powers of two), ``week``; or by name
            or number ``user``, ``group``, ``executable``, ``queue``, ``partition``, ``qos``.
        tau
            The bound of bounded slowdowns, in seconds.

        Examples
        --------
        >>> import mlsim
        >>> result = mlsim.run("scenarios/quickstart.yaml")
        >>> result.by("class").columns[:3]
        ['class', 'jobs', 'share']
        """
        from mlsim.analysis import breakdowns, job_metrics

        if group not in job_metrics.GROUPINGS:
            allowed = ", ".join(job_metrics.GROUPINGS)
            raise InputError(f"by({group!r}): no such grouping; allowed: {allowed}")
        return breakdowns.breakdown(self.records.jobs, group, tau, self.records.names.of)

    def to_pandas(self, name: str = "jobs") -> pandas.DataFrame:
        """Return one of the tables as a data frame of pandas (extra ``pandas``).

        Whole numbers stay whole: where some are missing the column is of pandas' type ``Int64``. Words of
        closed sets are categories.
        """
        return to_pandas(self.table(name))

    def table(self, name: str) -> pl.DataFrame:
        """Return one of the tables, by the name of its file without suffix; empty where it has no rows."""
        if name not in table_files.FILES:
            raise InputError(f"table({name!r}): no such table; allowed: {', '.join(table_files.FILES)}")
        return _frame(self, name)

    def __repr__(self) -> str:
        return f"Result(scenario={self.scenario.name!r}, jobs={self.summary['jobs']['submitted']})"

    def _repr_html_(self) -> str:
        from mlsim._runtime.late import load_matplotlib
        from mlsim.analysis import summary_table

        text = html_of(summary_table(self.summary))
        if not len(self.records.occupancy.job):
            return text
        load_matplotlib()
        from mlsim.analysis.plots import utilization_over_time, write_picture

        with TemporaryDirectory(prefix="mlsim-") as directory:
            picture = utilization_over_time(self.records, self.scenario.name)
            path = write_picture(picture, Path(directory, "utilization.png"))
            data = b64encode(read_bytes(path)).decode()
        style = 'style="max-width:100%"'
        return f'{text}<img alt="utilization over time" {style} src="data:image/png;base64,{data}">'


def _frame(result: Any, table: str) -> pl.DataFrame:
    from mlsim.record.parquet_tables import frame

    return frame(table, result.records, technique_of(result.scenario))


def technique_of(scenario: Scenario) -> str | None:
    """Name the loop technique of a scenario; None if its jobs execute no loops, or loops of several."""
    sections = [one.application for one in scenario.by_application.values()]
    techniques = {str(section.technique) for section in sections if section.model.value == "loop"}
    return techniques.pop() if len(techniques) == 1 else None


def run_times_of(scenario: Scenario) -> dict[str, str]:
    """Return how the costs of loops follow run times, for a summary; empty if jobs execute no loops."""
    found: dict[str, list[str]] = {"calibrate": [], "calibrate_to": []}
    for name, one in scenario.by_application.items():
        application, prefix = one.application, f"{name}: " if name else ""
        if application.model.value == "loop":
            calibrate, loop = application.costs.calibrate.value, application.recorded()
            found["calibrate"].append(prefix + calibrate)
            if calibrate == "recorded":
                how = f"{loop.technique} with {loop.execution.model}, coordination off"
                found["calibrate_to"].append(prefix + how)
    return {key: "; ".join(words) for key, words in found.items() if words}


def polars_of(table: Any) -> pl.DataFrame:
    """Return a table of jobs, a data frame of Polars or pandas, as one of Polars."""
    import polars as pl

    if isinstance(table, pl.LazyFrame):
        table = table.collect()
    elif type(table).__module__.partition(".")[0] == "pandas":
        try:
            table = pl.from_pandas(table)
        except ImportError as error:
            raise _lacking("to take this data frame of pandas as a workload", error) from error
        except (AttributeError, TypeError, ValueError, pl.exceptions.PolarsError) as error:
            raise InputError(f"workload: the data frame of pandas cannot be read: {error}") from error
    if not isinstance(table, pl.DataFrame):
        raise InputError(
            f"workload: found {type(table).__name__}; allowed: a data frame of polars or pandas, with the "
            "columns of a workload in CSV (job_id, submit_time, run_time, walltime, processors, ...)"
        )
    if not table.height:
        raise InputError("workload: the table has no rows; a run needs a job")
    return table


def to_pandas(table: pl.DataFrame) -> pandas.DataFrame:
    """Return a table as a data frame of pandas; integers stay integers where some are missing."""
    try:
        import pandas

        frame = table.to_pandas()
    except ImportError as error:
        raise _lacking("a data frame of pandas cannot be made", error) from error
    for column in table.iter_columns():
        if column.dtype.is_integer() and column.null_count():
            frame[column.name] = pandas.array(column.to_list(), dtype="Int64")
    return frame


def _lacking(what: str, error: ImportError) -> InputError:
    return InputError(f"{what}: {error}; install the extra: pip install 'mlsim[pandas]'")


_UNLIMITED = 1_000_000
_TEXT = '<pre style="white-space:pre;overflow-x:auto;line-height:normal;font-family:monospace">{code}</pre>'


def html_of(*parts: RenderableType) -> str:
    """Return tables as the command line prints them, for notebooks."""
    from rich.console import Console, Group
    from rich.measure import Measurement

    console = Console(record=True, file=io.StringIO())
    whole = Measurement.get(console, console.options.update(width=_UNLIMITED), Group(*parts))
    console.width = whole.maximum
    console.print(Group(*parts))
    return console.export_html(inline_styles=True, code_format=_TEXT)
