"""Options, progress and published results that the commands of ``mlsim learn`` share."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table


Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        metavar="DIR",
        help="Directory for tables and for the store of all parts; one that is there goes on.",
        show_default=False,
    ),
]


def read_by_methods(method: str, *, also: Mapping[str, tuple[bool, str]]) -> dict[str, tuple[bool, str]]:
    """Return which options of a search are read, and with what: those of searches, and others."""
    evolution = (method != "grid", "--method xnes or cma-es")
    searches = {"points": (method == "grid", "--method grid"), "evaluations": evolution, "seed": evolution}
    return searches | dict(also)


def check_read(context: typer.Context, readers: Mapping[str, tuple[bool, str]]) -> None:
    """Refuse options that were given and that nothing reads: parameter -> (is it read, what it needs)."""
    from mlsim.errors import InputError

    for name, (read, needed) in readers.items():
        source = context.get_parameter_source(name)
        if not read and source is not None and source.name == "COMMANDLINE":
            option = name.replace("_", "-")
            raise InputError(f"--{option}: read with {needed} only; take it out, or write that")


def weeks_of_option(name: str, text: str) -> tuple[int, int]:
    """Return the first and the last week that an option names."""
    from mlsim.errors import InputError
    from mlsim.scenario.amount_types import WeeksKind

    try:
        return WeeksKind().parse(text)
    except ValueError as error:
        raise InputError(f"--{name}: {error}") from error


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


def results_of_others(path: Path, shown: Mapping[str, Collection[str]]) -> dict[tuple[str, str], str]:
    """Return published results by the first two columns of a CSV file; the third one has the values.

    ``shown``: the names of the two columns, and the rows beside which results are printed.
    """
    import csv
    import math
    from operator import contains

    from mlsim._files.decoding import read_lines
    from mlsim.errors import InputError

    lines = csv.reader(read_lines(path, "table of results"))
    first, second = shown
    names = next(lines, [])
    if names[:2] != [first, second] or len(names) < 3:
        found = ", ".join(names) or "none"
        raise InputError(f"{path}: columns: {found}; needed: {first}, {second}, and one of values")
    results = {}
    for row in lines:
        place = f"{path}:{lines.line_num}"
        if not row:
            continue
        if len(row) < 3:
            raise InputError(f"{place}: has {len(row)} columns; needed: {first}, {second}, {names[2]}")
        try:
            known = math.isfinite(float(row[2]))
        except ValueError:
            known = False
        if not known:
            raise InputError(f"{place}: {names[2]}: {row[2]!r} is no number")
        results[row[0], row[1]] = row[2]
    if not any(all(map(contains, shown.values(), row)) for row in results):
        words = "; ".join(f"{name}: {', '.join(values)}" for name, values in shown.items())
        raise InputError(f"{path}: none of its rows is of what it would stand beside. Shown are {words}")
    return results
