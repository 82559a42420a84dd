"""``mlsim metrics``: all metrics of the records of a run, without simulating it again."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import polars as pl
    from rich.console import Console

    from mlsim.experiment.measures import RunMetrics

__all__ = ["metrics"]


class Grouping(StrEnum):
    """What jobs can be grouped by."""

    CLASS = "class"
    SIZE = "size"
    USER = "user"
    GROUP = "group"
    EXECUTABLE = "executable"
    QUEUE = "queue"
    PARTITION = "partition"
    QOS = "qos"
    WEEK = "week"


def metrics(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Directories of runs (`mlsim run --out`).", show_default=False),
    ],
    by: Annotated[
        Grouping | None,
        typer.Option(help="Break jobs down by this, instead of the overview.", show_default=False),
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    csv: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Also write CSV: one row a run, or one a group with --by; must not exist."
        ),
    ] = None,
    tau: Annotated[float, typer.Option(help="Bound of bounded slowdowns, in s.", min=1e-9)] = 10.0,
) -> None:
    """Print the metrics of RUNs: aggregates, slowdowns in bins, breakdowns, weeks, pass times."""
    from contextlib import ExitStack

    from mlsim.cli.newfiles import new_files
    from mlsim.experiment.measures import measure_run
    from mlsim.experiment.stored import find_runs, name_runs, read_run

    found = find_runs(runs)
    measured: list[dict[str, Any]] = []
    rows: list[pl.DataFrame] = []
    with ExitStack() as stack:
        # What cannot be written is refused before anything is printed.
        files = stack.enter_context(new_files([] if csv is None else [csv]))
        for directory, label in zip(found, name_runs(found), strict=True):
            # One run is in memory at a time.
            stored = read_run(directory, label)
            if stored.note:
                print(f"mlsim: note: {stored.note}", file=sys.stderr)
            result = measure_run(stored, None if by is None else by.value, tau)
            rows.append(result.rows())
            if json_:
                measured.append(result.to_dict())
            else:
                _print(result, many=len(found) > 1)
        for file in files:
            _write_csv(file, rows)
    if json_:
        print(json.dumps({"tau": tau, "runs": measured}, indent=2, allow_nan=False))
    elif csv is not None:
        print(f"Written: {csv}")


def _print(result: RunMetrics, many: bool) -> None:
    from rich.console import Console

    console = Console()
    if result.groups is not None:
        _print_groups(console, result)
        return
    from mlsim.analysis import summary_table
    from mlsim.analysis.metrics_tables import metrics_table

    if many:
        console.rule(result.run.label, align="left")
    console.print(summary_table(result.summary))
    console.print()
    console.print(metrics_table(result.summary, result.by_class, result.pass_times))


def _print_groups(console: Console, result: RunMetrics) -> None:
    from mlsim.analysis.metrics_tables import breakdown_table

    assert result.groups is not None, "asked for"
    assert result.by is not None, "asked for"
    console.print(f"[bold]{result.run.label}[/bold]", highlight=False)
    console.print(breakdown_table(result.groups, result.by))
    console.print()


def _write_csv(path: Path, rows: list[pl.DataFrame]) -> None:
    import polars as pl

    # Runs of other scenarios may have other keys.
    pl.concat(rows, how="diagonal_relaxed").write_csv(path)
