"""``mlsim study`` for studies of whole runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from mlsim.cli import streams

if TYPE_CHECKING:
    from mlsim.experiment.batch_study import RunRow

__all__ = ["batch_study"]


def batch_study(path: Path, out: Path | None, quiet: bool) -> None:
    """Simulate a study of runs, write its tables and pictures, and print the tables.

    Parameters
    ----------
    path
        Directory with ``study.yaml``, or such a file.
    out
        Directory for the results, which must not exist; None: ``runs/NAME-001`` and so on.
    quiet
        Whether to print nothing.
    """
    from mlsim.experiment.batch_study import batch_study_into, load_batch_study
    from mlsim.experiment.batch_tables import batch_tables
    from mlsim.experiment.directories import NextFree, complete_or_gone

    if quiet:
        streams.quiet()
    chosen = load_batch_study(path)
    counter = None if quiet or not sys.stderr.isatty() else _Counter()
    with complete_or_gone(out or NextFree(Path("runs"), chosen.name)) as place:
        rows = batch_study_into(place, chosen, counter)
    if quiet:
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    for title, (titles, lines) in batch_tables(chosen, rows).items():
        table = Table(*titles, box=box.SIMPLE_HEAD, title=f"{chosen.name}: {title}", title_justify="left")
        for line in lines:
            table.add_row(*map(Text, line))
        console.print(table)
    console.print(f"Results: {place.directory}", highlight=False, soft_wrap=True)


class _Counter:
    """Counts on one line of the terminal how many runs are done."""

    def __init__(self) -> None:
        self._done = 0

    def __call__(self, row: RunRow, total: int) -> None:
        self._done += 1
        end = "\n" if self._done == total else ""
        words = ", ".join(row.labels.values())
        print(f"\r\033[K{self._done}/{total}  {words}", end=end, file=sys.stderr, flush=True)
