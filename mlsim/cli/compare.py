"""``mlsim compare``: runs against the first of them, in tables, JSON and pictures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from mlsim.experiment.comparison import RunComparison

__all__ = ["compare"]


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN RUN...",
            help="Directories of runs (`mlsim run --out`); the first is what others are compared with.",
            show_default=False,
        ),
    ],
    labels: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME,...", help="Names for the runs.", show_default="those of their directories"
        ),
    ] = None,
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
    json_: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    tau: Annotated[float, typer.Option(help="Bound of bounded slowdowns, in s.", min=1e-9)] = 10.0,
    tolerance: Annotated[
        float, typer.Option(help="Relative difference up to which no run is called better.", min=0.0)
    ] = 0.01,
) -> None:
    """Compare RUNs with the first: metrics with differences and which is better, jobs in pairs, pictures."""
    from mlsim.experiment.comparison import compare as compare_runs
    from mlsim.experiment.directories import check_target

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

    from mlsim.analysis.compare_tables import comparison_table, differences_table, pairs_table

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
