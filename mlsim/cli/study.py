"""``mlsim study``: loops or runs under every combination of some choices, as tables."""

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.text import Text

from mlsim.analysis.table_layout import NumberTable
from mlsim.cli import command_options as cli
from mlsim.cli.command_output import print_json, quiet, show
from mlsim.errors import InputError, printable
from mlsim.experiment import study as studies
from mlsim.experiment.study import axes, cluster_executors, study_executors, study_runner
from mlsim.experiment.study.study_tables import Table, notes_on, study_tables


class _Study(cli.Commands):
    """The group of study commands; a first word that names none of them means ``run``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, "-h", "--help"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


study = cli.CommandGroup("study", cls=_Study)


class _RunOptions(cli.Options):
    path: Path = cli.argument("Directory with study.yaml, or such a file.")
    out: Path | None = cli.output(
        "Directory for results and store; an existing one is continued.", "DIR", show_default="runs/NAME"
    )
    jobs: cli.Processes = None
    executor: Literal["processes", "mpi", "dask"] = cli.option(
        "Where runs execute: local processes, MPI ranks, or Dask workers.", default="processes"
    )
    scheduler: str | None = cli.option("With --executor dask: its scheduler, or slurm.", "ADDRESS|slurm")
    force: bool = cli.flag("Repeat stored runs.", "--force")
    retry_failed: bool = cli.flag("Repeat failed runs.", "--retry-failed")
    dry_run: bool = cli.flag("Print the runs to do and a time estimate.", "--dry-run")
    quiet: cli.Quiet = False
    json_: cli.Json = False


@study.command()
def run(options: _RunOptions) -> None:
    """Simulate every combination that a study names, of loops or of whole runs; write tables and pictures.

    What its store has is not simulated again. Runs that fail do not end the study; exit code 1 then.
    """
    if options.json_ and options.dry_run:
        raise InputError("--json prints results, and --dry-run has none; leave one of them out")
    is_quiet = options.quiet or options.json_
    if is_quiet:
        quiet()
    if (options.scheduler is None) == (options.executor == "dask"):
        raise InputError("--scheduler: needed with --executor dask, and with no other: its address, or slurm")
    with _executor(options) as executor:
        if executor is None:  # another rank than the first
            return
        chosen = studies.load_study(options.path)
        target = options.out or Path("runs") / chosen.name
        if options.dry_run:
            _print_plan(chosen, target, options)
            return
        rows = study_runner.run_study(
            chosen,
            out=target,
            executor=executor,
            force=options.force,
            retry_failed=options.retry_failed,
            watch=study_runner.ProgressDisplay(chosen.name, shown=not is_quiet),
        )
    if options.json_:
        runs = [  # metrics by title: null where a run has none
            {
                "labels": dict(row.labels),
                "metrics": {
                    title: value if isfinite(value) else None for title, value in row.metrics.items()
                },
                "failed": row.failed or None,
            }
            for row in rows
        ]
        found = {"schema_version": 1, "study": chosen.name, "directory": str(target), "runs": runs}
        print_json(found, ensure_ascii=False)
    elif not is_quiet:
        _print_tables(chosen, rows, target)
    if any(row.failed for row in rows):
        _print_failed(rows)
        raise typer.Exit(1)


def _executor(options: _RunOptions) -> AbstractContextManager[study_executors.Executor | None]:
    """Return the executor of runs; None where this process only does the runs of the first rank."""
    if options.executor == "mpi":
        return cluster_executors.over_ranks()
    if options.executor == "dask":
        return cluster_executors.on_cluster(options.scheduler or "", options.jobs)
    return nullcontext(study_executors.Processes(options.jobs))


def _print_plan(chosen: studies.Study, target: Path, options: _RunOptions) -> None:
    """Print the runs to do, and a time estimate from the runs that are stored."""
    again = {"force": options.force, "retry_failed": options.retry_failed}
    total, tasks, known = study_runner.missing_tasks(chosen, target, **again)
    there, left = total - len(tasks), len(tasks)
    for task in tasks:
        print(axes.words_of(task.labels))
    line = f"{target}: {there} of {total} runs done, {left} to do"
    if chosen.search is not None and tasks:
        total = max(chosen.search.most_runs, total)
        left = total - there
        line = (
            f"{target}: {there} of at most {total} runs done, {len(tasks)} to do next; their results decide "
            f"on the others, at most {left - len(tasks)}"
        )
    if tasks and known:
        mean = sum(known) / len(known)
        line += f"; about {study_runner.time_words(mean * left)} on one core ({mean:.3g} s per run so far)"
    elif tasks:
        line += "; no time estimate yet"
    print(line)


def _print_tables(chosen: studies.Study, rows: Sequence[studies.StudyRow], target: Path) -> None:
    tables_of = study_tables
    if chosen.search is not None:
        from mlsim.experiment.study.study_results import search_tables as tables_of

    found = tables_of(chosen, rows)
    for title, table in found.items():
        show(_shown(f"{chosen.name}: {title}", table), "")
    if note := notes_on(chosen, found.values(), "*"):
        show(note, "", style="dim")
    print(f"Results: {target}")


def _shown(title: str, table: Table) -> NumberTable:
    """Lay out a table of a study; the best cell of a row has a star."""
    starred = {column for _, column in table.best}
    shown = NumberTable(
        table.titles, keys=table.keys, beside=("source", "low", "high", "p"), heading=title, ruled=True
    )
    for row, line in enumerate(table.lines):
        cells: list[Text | str] = []
        for column, text in enumerate(line):
            best = (row, column) in table.best
            space = "  " if column in starred else ""
            cells.append(Text(f"{text} *", "bold green") if best else f"{text}{space}")
        shown.add(*cells)
    return shown


_MOST_FAILED = 20


def _print_failed(rows: Sequence[studies.StudyRow]) -> None:
    """Print which runs have failed."""
    failed = [row for row in rows if row.failed]
    for row in failed[:_MOST_FAILED]:
        print(f"mlsim: failed: {printable(axes.words_of(row.labels) + ': ' + row.failed)}", file=sys.stderr)
    more = f", {len(failed) - _MOST_FAILED} more than are listed" if len(failed) > _MOST_FAILED else ""
    print(
        f"mlsim: {len(failed)} of {len(rows)} runs have failed{more}; all others are done. "
        "--retry-failed does them once more",
        file=sys.stderr,
    )


@study.command()
def status(directory: Annotated[Path, typer.Argument(metavar="DIR", help="Results of a study.")]) -> None:
    """Show the progress of a study, also while another process works on it."""
    for line in study_runner.status_of(directory):
        print(line)
