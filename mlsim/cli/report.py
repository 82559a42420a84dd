"""``mlsim report``: one page on runs, loops and studies, with all that it needs inside."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["report"]


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="Directories of runs, loops or studies; further runs are compared with the first.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="The page; must not exist.")
    ] = Path("report.html"),
    labels: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME,...", help="Names for the runs.", show_default="those of their directories"
        ),
    ] = None,
    most_runs: Annotated[
        int,
        typer.Option("--runs", metavar="N", help="So many runs are shown in full, others compared.", min=1),
    ] = 12,
    chunks: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="So many chunks of a run go into the page: those of the jobs whose PEs lost most time.",
            min=0,
        ),
    ] = 300_000,
    tolerance: Annotated[
        float, typer.Option(help="Relative difference up to which no run is called better.", min=0.0)
    ] = 0.01,
) -> None:
    """Write a page on RUNs: summary, jobs, Gantt chart, loops, utilization, waits, comparison; no network."""
    from mlsim.cli.newfiles import new_files
    from mlsim.experiment.pages import make_page

    names = None if labels is None else [name.strip() for name in labels.split(",")]
    with new_files([out]) as (partial,):
        text = make_page(runs, labels=names, most_runs=most_runs, most_chunks=chunks, tolerance=tolerance)
        partial.write_text(text, encoding="utf-8")
    print(f"Written: {out}  ({len(text.encode()) / 1e6:.1f} MB)")
