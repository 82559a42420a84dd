"""``mlsim study``: a loop or a run under every combination of some choices, as a table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mlsim.cli import streams

if TYPE_CHECKING:
    from mlsim.experiment import StudyRow

__all__ = ["study"]


def study(
    path: Annotated[
        Path, typer.Argument(help="Directory with study.yaml, or such a file.", show_default=False)
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Directory for the results; must not exist.  [default: runs/NAME-001 …]"
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Simulate every combination that a study names, of loops or of whole runs; write tables and pictures."""
    from mlsim.experiment.batch_study import is_batch_study

    if is_batch_study(path):
        from mlsim.cli.batch_study import batch_study

        batch_study(path, out, quiet)
        return
    from mlsim.experiment import load_study
    from mlsim.experiment.directories import NextFree, complete_or_gone
    from mlsim.experiment.study import study_into
    from mlsim.experiment.study_results import study_table

    if quiet:
        streams.quiet()
    chosen = load_study(path)
    counter = None if quiet or not sys.stderr.isatty() else _Counter()
    with complete_or_gone(out or NextFree(Path("runs"), chosen.name)) as place:
        rows = study_into(place, chosen, counter)
    if quiet:
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    titles, lines = study_table(chosen, rows)
    table = Table(*titles, box=box.SIMPLE_HEAD, title=f"{chosen.name}: T_loop (s)", title_justify="left")
    for line in lines:
        table.add_row(*map(Text, line))
    console = Console()
    console.print(table)
    console.print(f"Results: {place.directory}", highlight=False, soft_wrap=True)


class _Counter:
    """Counts on one line of the terminal how many loops are done."""

    def __init__(self) -> None:
        self._done = 0

    def __call__(self, row: StudyRow, total: int) -> None:
        self._done += 1
        end = "\n" if self._done == total else ""
        words = ", ".join(row.labels.values())
        print(f"\r\033[K{self._done}/{total}  {words}", end=end, file=sys.stderr, flush=True)
