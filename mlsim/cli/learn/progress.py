"""How far a search over weeks is, and its tables."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["cell", "show", "show_rows", "weeks_done"]

_WIDE = 240


@contextmanager
def weeks_done() -> Iterator[Callable[[int, int], None] | None]:
    """Draw a bar on a terminal; elsewhere nothing is told."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("weeks", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def cell(value: float, form: str) -> str:
    """Return a number as text; nothing of one that is not defined."""
    return "" if math.isnan(value) else format(value, form)


def show(table: Table) -> None:
    """Print a table; whole where the output is no terminal, whose width would cut its cells."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console = Console(width=max(console.width, _WIDE))
    console.print(table)


def show_rows(title: str, rows: Sequence[Mapping[str, object]]) -> None:
    """Print rows of the same columns as a table; numbers with one decimal."""
    from rich.table import Table

    table = Table(title=title)
    for name, value in rows[0].items():
        table.add_column(name, justify="left" if isinstance(value, str) else "right")
    for row in rows:
        table.add_row(
            *(
                cell(value, ",.1f") if isinstance(value, float) else "" if value is None else str(value)
                for value in row.values()
            )
        )
    show(table)
