"""``mlsim compare``, ``metrics``, ``report`` and ``plot``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mlsim.cli.command_options import Json, Labels, Options, Runs, Tau, Tolerance, argument, option, output
from mlsim.cli.new_files import new_files
from mlsim.cli.terminal import print_json
from mlsim.errors import InputError

if TYPE_CHECKING:
    from mlsim.experiment.stored_runs import RunMetrics


class _CompareOptions(Options):
    runs: list[Path] = argument(
        "Directories of runs (`mlsim run --out`); the first is what others are compared with.", "RUN RUN..."
    )
    labels: Labels = None
    pictures: Path | None = option("Draw pictures (PNG and PDF) into DIR, which must not exist.", "DIR")
    out: Path | None = output(
        "Write tables, pairs of jobs and pictures into DIR, which must not exist.", "DIR"
    )
    json_: Json = False
    tau: Tau = 10.0
    tolerance: Tolerance = 0.01


def compare(options: _CompareOptions) -> None:
    """Compare RUNs with the first: metrics with differences and which is better, jobs in pairs, pictures."""
    from rich.console import Console

    from mlsim.analysis.run_comparison import comparison_table, differences_table, pairs_table
    from mlsim.experiment.comparison import compare as compare_runs
    from mlsim.experiment.result_directories import check_target

    targets = [target for target in (options.pictures, options.out) if target is not None]
    for target in targets:
        check_target(target)
    comparison = compare_runs(
        *options.runs, labels=_names(options.labels), tau=options.tau, tolerance=options.tolerance
    )
    if options.pictures is not None:
        comparison.draw(options.pictures)
    if options.out is not None:
        comparison.write(options.out)
    if options.json_:
        print_json(comparison.to_dict())
        return
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
    for target in targets:
        print(f"Written: {target}  ({', '.join(sorted(path.name for path in target.iterdir()))})")


def _names(labels: str | None) -> list[str] | None:
    return None if labels is None else [name.strip() for name in labels.split(",")]


Grouping = Literal["class", "size", "user", "group", "executable", "queue", "partition", "qos", "week"]


class _MetricsOptions(Options):
    runs: Runs
    by: Grouping | None = option("Break jobs down by this, instead of the overview.")
    json_: Json = False
    csv: Path | None = option(
        "Also write CSV: one row a run, or one a group with --by; must not exist.", "FILE"
    )
    tau: Tau = 10.0


def metrics(options: _MetricsOptions) -> None:
    """Print the metrics of RUNs: aggregates, slowdowns in bins, breakdowns, weeks, pass times."""
    import polars as pl

    from mlsim.experiment.stored_runs import find_runs, measure_run, name_runs, read_run

    by, csv, found = options.by, options.csv, find_runs(options.runs)
    measured: list[dict[str, Any]] = []
    rows = []
    # What cannot be written is refused before anything is printed.
    with new_files([] if csv is None else [csv]) as files:
        for directory, label in zip(found, name_runs(found), strict=True):
            # One run is in memory at a time.
            stored = read_run(directory, label)
            if stored.note:
                print(f"mlsim: note: {stored.note}", file=sys.stderr)
            result = measure_run(stored, by, options.tau)
            rows.append(result.rows())
            if options.json_:
                measured.append(result.to_dict())
            else:
                _print_metrics(result, many=len(found) > 1)
        for file in files:
            # Runs of other scenarios may have other keys.
            pl.concat(rows, how="diagonal_relaxed").write_csv(file)
    if options.json_:
        print_json({"tau": options.tau, "runs": measured})
    elif csv is not None:
        print(f"Written: {csv}")


def _print_metrics(result: RunMetrics, many: bool) -> None:
    from rich.console import Console

    from mlsim.analysis import summary_table
    from mlsim.analysis.terminal_tables import breakdown_table, metrics_table

    console = Console()
    if result.groups is not None and result.by is not None:
        console.print(f"[bold]{result.run.label}[/bold]", highlight=False)
        console.print(breakdown_table(result.groups, result.by))
        console.print()
        return
    if many:
        console.rule(result.run.label, align="left")
    console.print(summary_table(result.summary))
    console.print()
    console.print(metrics_table(result.summary, result.by_class, result.pass_times))


class _ReportOptions(Options):
    runs: list[Path] = argument(
        "Directories of runs, loops or studies; further runs are compared with the first.", "RUN..."
    )
    out: Path = output("The page; must not exist.", "FILE", default=Path("report.html"))
    labels: Labels = None
    most_runs: int = option(
        "So many runs are shown in full, others compared.", "--runs", "N", default=12, min=1
    )
    chunks: int = option(
        "So many chunks of a run go into the page: those of the jobs whose PEs lost most time.",
        "N",
        default=300_000,
        min=0,
    )
    tolerance: Tolerance = 0.01


def report(options: _ReportOptions) -> None:
    """Write a page on RUNs: summary, jobs, Gantt chart, loops, utilization, waits, comparison; no network."""
    from mlsim.experiment.comparison import make_page

    with new_files([options.out]) as (partial,):
        text = make_page(
            options.runs,
            labels=_names(options.labels),
            most_runs=options.most_runs,
            most_chunks=options.chunks,
            tolerance=options.tolerance,
        )
        partial.write_text(text, encoding="utf-8")
    print(f"Written: {options.out}  ({len(text.encode()) / 1e6:.1f} MB)")


# Declared where they are drawn (mlsim.analysis.plots), which loads Matplotlib; a test compares the two.
PlotKind = Literal[
    "gantt",
    "utilization",
    "queue",
    "slowdown-box",
    "slowdown-ecdf",
    "wait-ecdf",
    "wait-by-size",
    "chunk-sizes",
    "loop-timeline",
    "imbalance-profile",
    "weekly",
    "energy",
]


class _PlotOptions(Options):
    kind: PlotKind = argument("What to draw.")
    runs: list[Path] = argument("Directories of runs or loops.", "RUN...")
    out: Path | None = output(
        "The figure: .png, .svg or .pdf; must not exist.", "FILE", show_default="KIND.pdf"
    )
    labels: Labels = None
    width: float = option("Width in mm; a column of a paper has 85.", default=85.0, min=30, max=500)
    height: float | None = option("Height in mm.", show_default="one that suits", min=20, max=500)
    job: int | None = option("Whose loop is drawn.", show_default="the job whose PEs lost most time")
    tau: Tau = 10.0


def plot(options: _PlotOptions) -> None:
    """Draw KIND of RUNs for a paper: PNG, SVG or PDF, legible at the width of a column."""
    from mlsim.analysis.plots.chart_style import figures, write_figure
    from mlsim.experiment.comparison import read_for_plot

    kind, job = options.kind, options.job
    target, what = options.out or Path(f"{kind}.pdf"), figures()[kind]
    if target.suffix not in (".png", ".svg", ".pdf"):
        raise InputError(f"{target}: a figure is written as .png, .svg or .pdf; end its name so")
    if job is not None and not what.of_loops:
        loops = ", ".join(name for name, other in figures().items() if other.of_loops)
        raise InputError(f"--job: {kind} is not of one loop; it is for {loops}")
    with new_files([target]) as (partial,):
        found = read_for_plot(options.runs, _names(options.labels), of_loops=what.of_loops, job=job)
        if what.is_single and len(found) > 1:
            raise InputError(
                f"{kind} shows one run; found {len(found)}: {', '.join(found)}. Name one of them"
            )
        write_figure(what.draw(found, options.width, options.height, options.tau), partial)
    print(f"Written: {target}  ({what.meaning})")
