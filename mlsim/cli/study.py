"""``mlsim study``: loops or runs under every combination of some choices, as tables."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mlsim.cli import terminal
from mlsim.cli.command_options import Json, Processes, Quiet
from mlsim.cli.usage_errors import Commands

if TYPE_CHECKING:
    from mlsim.experiment.study import Study, StudyRow
    from mlsim.experiment.study.study_executors import Executor


class _Study(Commands):
    """Commands of studies; ``run`` where another word than theirs stands first."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, "-h", "--help"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


study = typer.Typer(
    name="study",
    cls=_Study,
    help="Run a parameter study: simulate all combinations, store and compare them.\n\n"
    "mlsim study DIR is short for mlsim study run DIR.",
    no_args_is_help=True,
)


class ExecutorKind(StrEnum):
    """The executor of the runs."""

    PROCESSES = "processes"
    MPI = "mpi"
    DASK = "dask"


_StudyPath = Annotated[
    Path, typer.Argument(help="Directory with study.yaml, or such a file.", show_default=False)
]


@study.command("run")
def run(
    path: _StudyPath,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="DIR",
            help="Directory for results and store; an existing one is continued.",
            show_default="runs/NAME",
        ),
    ] = None,
    jobs: Processes = None,
    executor: Annotated[
        ExecutorKind, typer.Option(help="Where runs execute: local processes, MPI ranks, or Dask workers.")
    ] = ExecutorKind.PROCESSES,
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS|slurm", help="With --executor dask: its scheduler, or slurm.", show_default=False
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Repeat stored runs.")] = False,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Repeat failed runs.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the runs to do and a time estimate.")
    ] = False,
    quiet: Quiet = False,
    json_: Json = False,
) -> None:
    """Simulate every combination that a study names, of loops or of whole runs; write tables and pictures.

    What its store has is not simulated again. Runs that fail do not end the study; exit code 1 then.
    """
    from mlsim.errors import InputError

    if json_ and dry_run:
        raise InputError("--json prints results, and --dry-run has none; leave one of them out")
    quiet = quiet or json_
    if quiet:
        terminal.quiet()
    if (scheduler is None) == (executor is ExecutorKind.DASK):
        raise InputError("--scheduler: needed with --executor dask, and with no other: its address, or slurm")
    with _hands(executor, scheduler, jobs) as (is_first, hands):
        if not is_first:
            return
        from mlsim.experiment.study import load_study
        from mlsim.experiment.study.study_engine import default_directory

        chosen = load_study(path)
        target = out or default_directory(chosen)
        if dry_run:
            _print_plan(chosen, target, force=force, retry_failed=retry_failed)
            return
        rows = _done(chosen, target, jobs, hands, quiet, force=force, retry_failed=retry_failed)
    if json_:
        _print_json(chosen, rows, target)
    elif not quiet:
        _print_tables(chosen, rows, target)
    failed = _print_failed(rows)
    if failed:
        raise typer.Exit(1)


@contextmanager
def _hands(
    kind: ExecutorKind, scheduler: str | None, jobs: int | None
) -> Iterator[tuple[bool, Executor | None]]:
    """Yield whether this process is the first, and the executor of runs; None: local processes."""
    if kind is ExecutorKind.MPI:
        from mlsim.experiment.study.cluster_executors import over_ranks

        with over_ranks() as ranks:
            yield ranks is not None, ranks
    elif kind is ExecutorKind.DASK:
        from mlsim.experiment.study.cluster_executors import on_cluster

        with on_cluster(scheduler or "", jobs) as cluster:
            yield True, cluster
    else:
        yield True, None


def _done(
    chosen: Study,
    target: Path,
    jobs: int | None,
    hands: Executor | None,
    quiet: bool,
    *,
    force: bool,
    retry_failed: bool,
) -> list[StudyRow]:
    from mlsim.experiment.study.study_engine import ProgressDisplay, run_study
    from mlsim.experiment.study.study_executors import Processes

    return run_study(
        chosen,
        out=target,
        executor=hands or Processes(jobs),
        force=force,
        retry_failed=retry_failed,
        watch=ProgressDisplay(chosen.name, shown=not quiet),
    )


def _print_plan(chosen: Study, target: Path, *, force: bool, retry_failed: bool) -> None:
    """Print the runs to do, and a time estimate from the runs that are stored."""
    from mlsim.experiment.study.axes import words_of
    from mlsim.experiment.study.study_engine import missing_tasks, seconds_there, time_words

    keys, tasks, store = missing_tasks(chosen, target, force=force, retry_failed=retry_failed)
    total = there = len(set(keys))
    there -= len(tasks)
    left = len(tasks)
    for task in tasks:
        print(words_of(task.labels))
    if chosen.search is not None and tasks:
        total = max(chosen.search.most_runs, total)
        left = total - there
        print(
            f"{target}: {there} of at most {total} runs done, {len(tasks)} to do next; their results decide "
            f"on the others, at most {left - len(tasks)}",
            end="",
        )
    else:
        print(f"{target}: {there} of {total} runs done, {left} to do", end="")
    known = seconds_there(keys, store)
    if tasks and known:
        mean = sum(known) / len(known)
        print(f"; about {time_words(mean * left)} on one core ({mean:.3g} s per run so far)", end="")
    elif tasks:
        print("; no time estimate yet", end="")
    print()


def _print_tables(chosen: Study, rows: Sequence[StudyRow], target: Path) -> None:
    from rich import box
    from rich import table as rich_table
    from rich.console import Console
    from rich.text import Text

    if chosen.search is None:
        from mlsim.experiment.study.study_tables import study_tables as tables_of
    else:
        from mlsim.experiment.study.search_results import search_tables as tables_of

    console = Console()
    for title, (titles, lines) in tables_of(chosen, rows).items():
        shown = rich_table.Table(
            *titles, box=box.SIMPLE_HEAD, title=f"{chosen.name}: {title}", title_justify="left"
        )
        for line in lines:
            shown.add_row(*map(Text, line))
        console.print(shown)
    console.print(f"Results: {target}", highlight=False, soft_wrap=True)


def _print_json(chosen: Study, rows: Sequence[StudyRow], target: Path) -> None:
    """Print each run: its labels, its metrics by title (null where it has none), why it failed."""
    import json
    from math import isfinite

    runs = [
        {
            "labels": dict(row.labels),
            "metrics": {title: value if isfinite(value) else None for title, value in row.metrics.items()},
            "failed": row.failed or None,
        }
        for row in rows
    ]
    found = {"schema_version": 1, "study": chosen.name, "directory": str(target), "runs": runs}
    print(json.dumps(found, indent=2, ensure_ascii=False))


def _print_failed(rows: Sequence[StudyRow]) -> int:
    """Print which runs have failed; return how many."""
    from mlsim.errors import printable
    from mlsim.experiment.study.axes import words_of

    failed = [row for row in rows if row.failed]
    for row in failed[:_MOST_FAILED]:
        print(f"mlsim: failed: {printable(words_of(row.labels) + ': ' + row.failed)}", file=sys.stderr)
    if failed:
        more = f", {len(failed) - _MOST_FAILED} more than are listed" if len(failed) > _MOST_FAILED else ""
        print(
            f"mlsim: {len(failed)} of {len(rows)} runs have failed{more}; all others are done. "
            "--retry-failed does them once more",
            file=sys.stderr,
        )
    return len(failed)


_MOST_FAILED = 20


@study.command("status")
def status(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Results of a study.", show_default=False)],
) -> None:
    """Show the progress of a study, also while another process works on it."""
    from mlsim.experiment.study.study_engine import status_of

    for line in status_of(directory):
        print(line)
