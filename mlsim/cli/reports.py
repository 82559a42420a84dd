"""``mlsim compare``, ``metrics``, ``report`` and ``plot``, of runs; ``mlsim trace``, of OTF2 traces."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import RenderableType
from rich.text import Text

from mlsim import traces
from mlsim._runtime.work_progress import followed
from mlsim.analysis import summary_table, terminal_tables
from mlsim.analysis.table_layout import NumberTable
from mlsim.cli import command_options as cli
from mlsim.cli.command_output import new_files, print_json, show, working
from mlsim.errors import InputError
from mlsim.experiment import comparison, manifest, result_directories, stored_runs

Grouping = Literal[
    "class", "size", "user", "group", "executable", "queue", "partition", "qos", "application", "technique",
    "week",
]  # fmt: skip


class _CompareOptions(cli.Options):
    runs: list[Path] = cli.argument(
        "Directories of runs (`mlsim run --out`); the first is what others are compared with.", "RUN..."
    )
    recorded: bool = cli.flag("Compare one RUN with the recorded starts of its log.", "--recorded")
    by: Grouping | None = cli.option("With --recorded: the groups of jobs to show.")
    labels: cli.Labels = None
    pictures: Path | None = cli.option("Draw pictures (PNG and PDF) into DIR, which must not exist.", "DIR")
    out: Path | None = cli.output(
        "Write tables, pairs of jobs and pictures into DIR, which must not exist.", "DIR"
    )
    all_: bool = cli.flag("Show all metrics, not only the eight usual ones.", "--all")
    metric: list[str] | None = cli.option(
        "Compare this metric, such as wait_time.p99 or all of wait_time; may be repeated.", "--metric", "NAME"
    )
    json_: cli.Json = False
    tau: cli.Tau = 10.0
    tolerance: cli.Tolerance = 0.01


def compare(options: _CompareOptions) -> None:
    """Compare RUNs with the first, or one RUN with its log: metrics, differences, jobs, pictures."""
    from mlsim.analysis import comparison_tables, run_comparison

    if options.recorded or options.by:
        _compare_with_log(options)
        return
    if options.all_ and options.metric:
        raise InputError("--all and --metric: both choose metrics; leave one of them out")

    targets = [target for target in (options.pictures, options.out) if target is not None]
    for target in targets:
        result_directories.check_target(target)
    with working("comparing"):
        found = comparison.compare(
            *options.runs,
            labels=_names(options.labels),
            tau=options.tau,
            tolerance=options.tolerance,
            metrics=options.metric or (),
        )
        metrics = found.metrics  # which refuses unknown names before anything is written
        if options.pictures is not None:
            found.draw(options.pictures)
        if options.out is not None:
            found.write(options.out)
    if options.json_:
        print_json(found.to_dict())
        return
    if found.differences:
        show(comparison_tables.differences_table(found.labels, found.differences), "")
    shown = metrics if options.all_ or options.metric else run_comparison.main_metrics(metrics)
    show(comparison_tables.comparison_table(found.labels, shown, found.tolerance))
    if left := len(metrics) - len(shown):
        differ = sum(
            bool({"better", "worse"} & {*metric["verdicts"]}) for metric in metrics if metric not in shown
        )
        show(f"--all shows {left} further metrics, {differ} of which are better or worse.", style="dim")
    show("", comparison_tables.pairs_table(found.labels, found.pairs))
    for note in found.notes:
        show("", f"Note: {note}", style="yellow")
    if targets and not all(len(run.records.passes.time) for run in found.runs):
        show("", "Pass times by queue length need runs with --set output.passes=on.", style="dim")
    for target in targets:
        print(f"Written: {target}  ({', '.join(sorted(path.name for path in target.iterdir()))})")


def _compare_with_log(options: _CompareOptions) -> None:
    """Compare the waits of a run with those that its log has."""
    from mlsim.analysis.comparison_tables import recorded_tables
    from mlsim.analysis.recorded_waits import RecordedWaits
    from mlsim.analysis.run_summary import json_safe

    if not options.recorded or options.all_ or options.metric or options.labels:
        raise InputError("--by needs --recorded, which goes without --all, --metric and --labels")
    found = stored_runs.find_runs(options.runs)
    if len(found) != 1:
        raise InputError(f"--recorded compares one run with its log; given: {len(found)}")
    targets = {options.pictures: False, options.out: True}
    written = [target for target in targets if target is not None]
    for target in written:
        result_directories.check_target(target)
    with working("comparing"):
        run = stored_runs.read_run(found[0])
        waits = RecordedWaits(run.records)
        for target in written:
            comparison.write_recorded(target, run, tables=targets[target])
    if options.json_:
        groups = {f"by_{options.by}": waits.by(options.by).to_dicts()} if options.by else {}
        print_json(json_safe({"run": run.label, **waits.to_dict(), **groups}))
        return
    show(recorded_tables(waits, options.by))
    for target in written:
        print(f"Written: {target}  ({', '.join(sorted(path.name for path in target.iterdir()))})")


def _names(labels: str | None) -> list[str] | None:
    return None if labels is None else [name.strip() for name in labels.split(",")]


class _MetricsOptions(cli.Options):
    runs: cli.Runs
    by: Grouping | None = cli.option("Break jobs down by this, instead of the overview.")
    json_: cli.Json = False
    csv: Path | None = cli.option(
        "Also write CSV: one row a run, or one a group with --by; must not exist.", "FILE"
    )
    tau: cli.Tau = 10.0


def metrics(options: _MetricsOptions) -> None:
    """Print the metrics of RUNs: aggregates, slowdowns in bins, breakdowns, weeks, pass times."""
    import polars as pl

    by, csv, found = options.by, options.csv, stored_runs.find_runs(options.runs)
    measured: list[dict[str, Any]] = []
    rows, shown, notes = [], list[RenderableType](), []
    # What cannot be written is refused before anything is read.
    with new_files([] if csv is None else [csv]) as files:
        with working("reading runs", len(found)) as work:
            for directory, label in followed(zip(found, stored_runs.name_runs(found), strict=True), work):
                # One run is in memory at a time.
                stored = stored_runs.read_run(directory, label)
                notes += [stored.note] if stored.note else []
                result = stored_runs.measure_run(stored, by, options.tau)
                rows.append(result.rows())
                if options.json_:
                    measured.append(result.to_dict())
                else:
                    shown += _metrics_tables(result, many=len(found) > 1)
        for file in files:
            # Runs of other scenarios may have other keys.
            pl.concat(rows, how="diagonal_relaxed").write_csv(file)
    for note in notes:
        print(f"mlsim: note: {note}", file=sys.stderr)
    if options.json_:
        print_json({"tau": options.tau, "runs": measured})
        return
    for part in shown:
        show(part)
    if csv is not None:
        print(f"Written: {csv}")


def _metrics_tables(result: stored_runs.RunMetrics, many: bool) -> list[RenderableType]:
    """Return the tables of a run, below its name where there are several or groups."""
    label = result.run.label
    if result.groups is not None and result.by is not None:
        return [Text(label, "bold"), terminal_tables.breakdown_table(result.groups, result.by), ""]
    name = [Text(f"── {label}", "bold")] if many else []
    table = terminal_tables.metrics_table(result.summary, result.by_class, result.pass_times)
    return [*name, summary_table(result.summary), "", table]


class _ReportOptions(cli.Options):
    runs: list[Path] = cli.argument(
        "Directories of runs, loops or studies; further runs are compared with the first.", "RUN..."
    )
    out: Path = cli.output("The page; must not exist.", "FILE", default=Path("report.html"))
    labels: cli.Labels = None
    most_runs: int = cli.option(
        "So many runs are shown in full, others compared.", "--runs", "N", default=12, min=1
    )
    chunks: int = cli.option(
        "So many chunks of a run go into the page: those of the jobs whose PEs lost most time.",
        "N",
        default=300_000,
        min=0,
    )
    tolerance: cli.Tolerance = 0.01


def report(options: _ReportOptions) -> None:
    """Write a page on RUNs: summary, jobs, Gantt chart, loops, utilization, waits, comparison; no network."""
    with new_files([options.out]) as (partial,), working("writing the page"):
        text = comparison.make_page(
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
    "recorded-ecdf",
    "recorded-waits",
    "recorded-utilization",
]


Colouring = Literal[
    "job", "user", "group", "application", "executable", "technique", "partition", "queue", "qos"
]


class _PlotOptions(cli.Options):
    kind: PlotKind = cli.argument("What to draw.")
    runs: list[Path] = cli.argument("Directories of runs or loops.", "RUN...")
    out: Path | None = cli.output(
        "The figure: .png, .svg or .pdf; must not exist.", "FILE", show_default="KIND.pdf"
    )
    labels: cli.Labels = None
    width: float = cli.option("Width in mm; a column of a paper has 85.", default=85.0, min=30, max=500)
    height: float | None = cli.option("Height in mm.", show_default="one that suits", min=20, max=500)
    job: int | None = cli.option("Whose loop is drawn.", show_default="the job whose PEs lost most time")
    colour: Colouring = cli.option(
        "What the colours of a Gantt chart mean: a job, or all jobs of a user, partition, ...",
        "--colour",
        "--color",
        default="job",
    )
    tau: cli.Tau = 10.0


def plot(options: _PlotOptions) -> None:
    """Draw KIND of RUNs for a paper: PNG, SVG or PDF, legible at the width of a column."""
    from mlsim.analysis.plots.chart_style import figures, write_figure

    kind, job = options.kind, options.job
    target, what = options.out or Path(f"{kind}.pdf"), figures()[kind]
    if target.suffix not in (".png", ".svg", ".pdf"):
        raise InputError(f"{target}: a figure is written as .png, .svg or .pdf; end its name so")
    if job is not None and not what.of_loops:
        loops = ", ".join(name for name, other in figures().items() if other.of_loops)
        raise InputError(f"--job: {kind} is not of one loop; it is for {loops}")
    if options.colour != "job" and kind != "gantt":
        raise InputError(f"--colour: {kind} has no colours of jobs; it is for gantt")
    more = {"colour": options.colour} if kind == "gantt" else {}
    with new_files([target]) as (partial,), working(f"drawing {kind}"):
        found = comparison.read_for_plot(
            options.runs, _names(options.labels), of_loops=what.of_loops, job=job
        )
        if what.is_single and len(found) > 1:
            raise InputError(
                f"{kind} shows one run; found {len(found)}: {', '.join(found)}. Name one of them"
            )
        write_figure(what.draw(found, options.width, options.height, options.tau, **more), partial)
    print(f"Written: {target}  ({what.meaning})")


trace = cli.CommandGroup("trace")

_Trace = Annotated[
    Path, typer.Argument(metavar="TRACE", help="A run, the directory of a trace, or its anchor (*.otf2).")
]
_MOST_PROBLEMS = 100


@trace.command()
def info(
    path: _Trace,
    json_: cli.Json = False,
    regions: Annotated[int, typer.Option(min=0, metavar="N", help="Show the N longest regions.")] = 10,
) -> None:
    """Show the content of TRACE: events by kind, regions with their times, messages, locations, bytes."""
    with _readable(path) as (anchor, opened):
        found = traces.survey(opened, anchor)
    if json_:
        times = {name: vars(times) for name, times in found.regions.items()}
        print_json(vars(found) | {"events": dict(found.events), "regions": times})
    else:
        _print_survey(anchor, found, regions)


def _print_survey(anchor: Path, found: traces.Survey, most: int) -> None:
    each = found.bytes / found.total if found.total else 0.0
    rows = {
        "written by": found.creator or "-",
        "of": found.machine or "-",
        "length": f"{found.length:.9g} s, {found.resolution:,} ticks a second",
        "events": f"{found.total:,}, {each:.1f} bytes each with definitions",
        "locations": ", ".join(f"{many:,} {kind}" for kind, many in found.locations.items()),
        "processes": f"{found.processes:,}",
        "messages": f"{found.sent:,}, {found.sent_bytes:,} bytes",
        "metrics": ", ".join(found.metrics) or "-",
    }
    print(f"{anchor}")
    counts = sorted(found.events.items(), key=lambda item: (-item[1], item[0]))
    longest = sorted(found.regions.items(), key=lambda item: (-item[1].inclusive, item[0]))[:most]
    show(NumberTable(("", ""), rows.items(), left=("",)), "")
    show(NumberTable(("event", "count"), ((kind, f"{many:,}") for kind, many in counts)))
    if longest:
        times = ((of.visits, of.inclusive, of.exclusive) for _, of in longest)
        cells = ((f"{visits:,}", f"{whole:.6f}", f"{own:.6f}") for visits, whole, own in times)
        named = ((name, *row) for (name, _), row in zip(longest, cells, strict=True))
        show("", NumberTable(("region", "visits", "inclusive (s)", "exclusive (s)"), named))


@trace.command()
def check(path: _Trace) -> None:
    """Check TRACE: times that go back, enters, leaves and messages that do not match.

    Says each with its place and time; ends with 1 if there is anything.
    """
    many = 0
    with _readable(path) as (anchor, opened):
        for problem in traces.problems_of(opened):
            many += 1
            if many <= _MOST_PROBLEMS:
                print(problem)
    if many > _MOST_PROBLEMS:
        print(f"... and {many - _MOST_PROBLEMS:,} more")
    print(f"{anchor}: {f'{many:,} problems' if many else 'no problem'}", file=sys.stderr)
    if many:
        raise typer.Exit(1)


@trace.command()
def convert(
    path: _Trace,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="File to write: .json or .json.gz (Chrome's trace events; Perfetto opens it), .parquet "
            "(a row an event); with --for a directory. Must not exist.",
        ),
    ],
    reader: Annotated[
        Literal["pipit"] | None,
        typer.Option(
            "--for",
            metavar="READER",
            help="Write an OTF2 trace for this reader: pipit sorts events by their times alone, so events of "
            "a row at the same time are moved apart, by 1 ns each.",
        ),
    ] = None,
) -> None:
    """Write TRACE in another format, by the name of FILE, or for another reader."""
    if reader is not None:
        _write_trace(path, out, traces.move_apart)
        return
    if not out.name.endswith(tuple(traces.FORMATS)):
        allowed = ", ".join(f"{suffix} ({words})" for suffix, (words, _) in traces.FORMATS.items())
        raise InputError(f"--out {out}: no format for this name; allowed: {allowed}")
    with new_files([out]) as (partial,), _readable(path) as (_, opened):
        traces.convert(opened, partial)
    print(f"Written: {out}")


def _write_trace(path: Path, out: Path, write: Callable[[Any, Path], int]) -> None:
    """Write a trace made from another one into a new directory."""
    with result_directories.reserved(out) as place, result_directories.writing(out, place.partial):
        with _readable(path) as (_, opened):
            events = write(opened, place.partial)
        place.keep(manifest=False)
    print(f"{out}: {events:,} events")


class _CutOptions(cli.Options):
    path: _Trace
    out: Path = cli.output("Directory of the new trace; must not exist.", "DIR", default=cli.REQUIRED)
    begin: str | None = cli.option("Where it begins, e.g. '2 h'.", "--from", "TIME", show_default="0 s")
    end: str | None = cli.option("Where it ends.", "--to", "TIME", show_default="the trace's end")
    jobs: str | None = cli.option("Only these jobs, by their numbers.", "N,N...")


@trace.command()
def cut(options: _CutOptions) -> None:
    """Write a part of TRACE as a trace: a span of time, some of the jobs."""
    jobs = cli.listed(options.jobs)
    begin = cli.time_of(f"--from {options.begin}", options.begin, positive=False)
    end = cli.time_of(f"--to {options.end}", options.end, positive=False)
    if begin is None and end is None and not jobs:
        raise InputError("nothing to cut; give --from, --to or --jobs")

    def write(opened: Any, place: Path) -> int:
        return traces.cut(opened, place, begin=begin, end=end, jobs=jobs)

    _write_trace(options.path, options.out, write)


@contextmanager
def _readable(path: Path) -> Iterator[tuple[Path, Any]]:
    """Open a trace that is as the run wrote it, or that was read to its end by another process."""
    anchor = traces.anchor_of(path)
    with working("checking files"):
        if not _vouched(anchor):
            traces.trace_reader.check_apart(anchor)
    with traces.opened(anchor) as reader, working("trace"):
        yield anchor, reader


def _vouched(anchor: Path) -> bool:
    """Whether a run's manifest has the checksums of the trace; InputError if one is wrong."""
    run, inside = anchor.resolve().parent.parent, f"{anchor.resolve().parent.name}/"
    if not (run / manifest.MANIFEST).is_file():
        return False
    found = manifest.verify(run)
    for name in (*found.damaged, *found.missing):
        if name.startswith(inside):
            how = "is missing" if name in found.missing else "is not what the run wrote"
            raise InputError(f"{run / name}: {how}. Run the scenario again.")
    return not any(name.startswith(inside) for name in found.foreign)
