"""``mlsim study``: a loop or a run under every combination of some choices, as tables."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol, TypeVar

import typer

from mlsim.cli import streams

if TYPE_CHECKING:
    from mlsim.experiment import Study, StudyRow
    from mlsim.experiment.directories import Place

__all__ = ["study"]


class _Named(Protocol):
    @property
    def name(self) -> str: ...


class _Labelled(Protocol):
    @property
    def labels(self) -> Mapping[str, str]: ...


AnyStudy = TypeVar("AnyStudy", bound=_Named)
Row = TypeVar("Row", bound=_Labelled)
Table = tuple[Sequence[str], Sequence[Sequence[str]]]


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

    of_runs = is_batch_study(path)
    if quiet:
        streams.quiet()
    if of_runs:
        from mlsim.experiment.batch_study import batch_study_into, load_batch_study
        from mlsim.experiment.batch_tables import batch_tables

        _simulate(load_batch_study(path), batch_study_into, batch_tables, out, quiet)
    else:
        from mlsim.experiment import load_study
        from mlsim.experiment.study import study_into
        from mlsim.experiment.study_results import study_table

        def tables(chosen: Study, rows: Sequence[StudyRow]) -> dict[str, Table]:
            return {"T_loop (s)": study_table(chosen, rows)}

        _simulate(load_study(path), study_into, tables, out, quiet)


def _simulate(
    chosen: AnyStudy,
    into: Callable[[Place, AnyStudy, Callable[[Row, int], None] | None], list[Row]],
    tables: Callable[[AnyStudy, list[Row]], Mapping[str, Table]],
    out: Path | None,
    quiet: bool,
) -> None:
    """Simulate a study and write its results, then print its tables."""
    from mlsim.experiment.directories import NextFree, complete_or_gone

    counter = None if quiet or not sys.stderr.isatty() else _Counter()
    with complete_or_gone(out or NextFree(Path("runs"), chosen.name)) as place:
        rows = into(place, chosen, counter)
    if quiet:
        return
    from rich import box
    from rich import table as rich_table
    from rich.console import Console
    from rich.text import Text

    console = Console()
    for title, (titles, lines) in tables(chosen, rows).items():
        shown = rich_table.Table(
            *titles, box=box.SIMPLE_HEAD, title=f"{chosen.name}: {title}", title_justify="left"
        )
        for line in lines:
            shown.add_row(*map(Text, line))
        console.print(shown)
    console.print(f"Results: {place.directory}", highlight=False, soft_wrap=True)


class _Counter:
    """Counts on one line of the terminal how many combinations are done."""

    def __init__(self) -> None:
        self._done = 0

    def __call__(self, row: _Labelled, total: int) -> None:
        self._done += 1
        end = "\n" if self._done == total else ""
        words = ", ".join(row.labels.values())
        print(f"\r\033[K{self._done}/{total}  {words}", end=end, file=sys.stderr, flush=True)
