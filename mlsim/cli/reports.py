"""``mlsim compare``, ``metrics``, ``report`` and ``plot``."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mlsim.analysis.figure_kinds import KINDS
from mlsim.cli.command_options import Json, Labels, Runs, Tau, Tolerance

if TYPE_CHECKING:
    import polars as pl
    from rich.console import Console

    from mlsim.experiment.comparison import RunComparison
    from mlsim.experiment.stored_runs import RunMetrics


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN RUN...",
            help="Directories of runs (`mlsim run --out`); the first is what others are compared with.",
            show_default=False,
        ),
    ],
    labels: Labels = None,
    pictures: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Draw pictures (PNG and PDF) into DIR, which must not exist."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="DIR",
            help="Write tables, pairs of jobs and pictures into DIR, which must not exist.",
        ),
    ] = None,
    json_: Json = False,
    tau: Tau = 10.0,
    tolerance: Tolerance = 0.01,
) -> None:
    """Compare RUNs with the first: metrics with differences and which is better, jobs in pairs, pictures."""
    from mlsim.experiment.comparison import compare as compare_runs
    from mlsim.experiment.result_directories import check_target

    for target in filter(None, (pictures, out)):
        check_target(target)
    names = None if labels is None else [name.strip() for name in labels.split(",")]
    comparison = compare_runs(*runs, labels=names, tau=tau, tolerance=tolerance)
    if pictures is not None:
        comparison.draw(pictures)
    if out is not None:
        comparison.write(out)
    if json_:
        print(json.dumps(comparison.to_dict(), indent=2, allow_nan=False))
        return
    _print(comparison)
    for target in filter(None, (pictures, out)):
        names_there = ", ".join(sorted(path.name for path in target.iterdir()))
        print(f"Written: {target}  ({names_there})")


def _print(comparison: RunComparison) -> None:
    from rich.console import Console

    from mlsim.analysis.run_comparison import comparison_table, differences_table, pairs_table

    console = Console()
    if comparison.differences:
        console.print(differences_table(comparison.labels, comparison.differences))
        console.print()
    console.print(comparison_table(comparison.labels, comparison.metrics, comparison.tolerance))
    console.print(pairs_table(comparison.labels, comparison.pairs))
    for note in comparison.notes:
        console.print(f"\nNote: {note}", style="yellow", highlight=False)
    if not all(len(run.records.passes.time) for run in comparison.runs):
        console.print("\nPass times by queue length need runs with --set output.passes=on.", style="dim")


class Grouping(StrEnum):
    """The column by which jobs are grouped."""

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
    runs: Runs,
    by: Annotated[
        Grouping | None,
        typer.Option(help="Break jobs down by this, instead of the overview.", show_default=False),
    ] = None,
    json_: Json = False,
    csv: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Also write CSV: one row a run, or one a group with --by; must not exist."
        ),
    ] = None,
    tau: Tau = 10.0,
) -> None:
    """Print the metrics of RUNs: aggregates, slowdowns in bins, breakdowns, weeks, pass times."""
    from contextlib import ExitStack

    from mlsim.cli.new_files import new_files
    from mlsim.experiment.stored_runs import find_runs, measure_run, name_runs, read_run

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
                _print_metrics(result, many=len(found) > 1)
        for file in files:
            _write_csv(file, rows)
    if json_:
        print(json.dumps({"tau": tau, "runs": measured}, indent=2, allow_nan=False))
    elif csv is not None:
        print(f"Written: {csv}")


def _print_metrics(result: RunMetrics, many: bool) -> None:
    from rich.console import Console

    console = Console()
    if result.groups is not None:
        _print_groups(console, result)
        return
    from mlsim.analysis import summary_table
    from mlsim.analysis.terminal_tables import metrics_table

    if many:
        console.rule(result.run.label, align="left")
    console.print(summary_table(result.summary))
    console.print()
    console.print(metrics_table(result.summary, result.by_class, result.pass_times))


def _print_groups(console: Console, result: RunMetrics) -> None:
    from mlsim.analysis.terminal_tables import breakdown_table

    assert result.groups is not None, "asked for"
    assert result.by is not None, "asked for"
    console.print(f"[bold]{result.run.label}[/bold]", highlight=False)
    console.print(breakdown_table(result.groups, result.by))
    console.print()


def _write_csv(path: Path, rows: list[pl.DataFrame]) -> None:
    import polars as pl

    # Runs of other scenarios may have other keys.
    pl.concat(rows, how="diagonal_relaxed").write_csv(path)


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="Directories of runs, loops or studies; further runs are compared with the first.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="The page; must not exist.")
    ] = Path("report.html"),
    labels: Labels = None,
    most_runs: Annotated[
        int,
        typer.Option("--runs", metavar="N", help="So many runs are shown in full, others compared.", min=1),
    ] = 12,
    chunks: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="So many chunks of a run go into the page: those of the jobs whose PEs lost most time.",
            min=0,
        ),
    ] = 300_000,
    tolerance: Tolerance = 0.01,
) -> None:
    """Write a page on RUNs: summary, jobs, Gantt chart, loops, utilization, waits, comparison; no network."""
    from mlsim.cli.new_files import new_files
    from mlsim.experiment.report_pages import make_page

    names = None if labels is None else [name.strip() for name in labels.split(",")]
    with new_files([out]) as (partial,):
        text = make_page(runs, labels=names, most_runs=most_runs, most_chunks=chunks, tolerance=tolerance)
        partial.write_text(text, encoding="utf-8")
    print(f"Written: {out}  ({len(text.encode()) / 1e6:.1f} MB)")


if TYPE_CHECKING:
    PlotKind = str
else:
    PlotKind = StrEnum("PlotKind", {kind: kind for kind in KINDS})


def plot(
    kind: Annotated[PlotKind, typer.Argument(help="What to draw.", show_default=False)],
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Directories of runs or loops.", show_default=False)
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="The figure: .png, .svg or .pdf; must not exist.",
            show_default="KIND.pdf",
        ),
    ] = None,
    labels: Labels = None,
    width: Annotated[
        float, typer.Option(help="Width in mm; a column of a paper has 85.", min=30, max=500)
    ] = 85.0,
    height: Annotated[
        float | None, typer.Option(help="Height in mm.", show_default="one that suits", min=20, max=500)
    ] = None,
    job: Annotated[
        int | None, typer.Option(help="Whose loop is drawn.", show_default="the job whose PEs lost most time")
    ] = None,
    tau: Tau = 10.0,
) -> None:
    """Draw KIND of RUNs for a paper: PNG, SVG or PDF, legible at the width of a column."""
    from mlsim.analysis.figure_kinds import draw_kind
    from mlsim.cli.new_files import new_files
    from mlsim.errors import InputError
    from mlsim.experiment.report_pages import read_for_plot

    target = out or Path(f"{kind}.pdf")
    if target.suffix not in (".png", ".svg", ".pdf"):
        raise InputError(f"{target}: a figure is written as .png, .svg or .pdf; end its name so")
    what = KINDS[kind]
    if job is not None and not what.of_loops:
        loops = ", ".join(name for name, other in KINDS.items() if other.of_loops)
        raise InputError(f"--job: {kind} is not of one loop; it is for {loops}")
    names = None if labels is None else [name.strip() for name in labels.split(",")]
    with new_files([target]) as (partial,):
        found = read_for_plot(runs, names, of_loops=what.of_loops, job=job)
        if what.is_single and len(found) > 1:
            raise InputError(
                f"{kind} shows one run; found {len(found)}: {', '.join(found)}. Name one of them"
            )
        draw_kind(kind, found, partial, width, height, tau)
    print(f"Written: {target}  ({what.meaning})")
