"""``mlsim plot``: figures for papers of runs and loops."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["plot"]


class PlotKind(StrEnum):
    """What is drawn."""

    GANTT = "gantt"
    UTILIZATION = "utilization"
    QUEUE = "queue"
    SLOWDOWN_BOX = "slowdown-box"
    SLOWDOWN_ECDF = "slowdown-ecdf"
    WAIT_ECDF = "wait-ecdf"
    WAIT_BY_SIZE = "wait-by-size"
    CHUNK_SIZES = "chunk-sizes"
    LOOP_TIMELINE = "loop-timeline"
    IMBALANCE_PROFILE = "imbalance-profile"
    WEEKLY = "weekly"
    ENERGY = "energy"


def plot(
    kind: Annotated[PlotKind, typer.Argument(help="What to draw.", show_default=False)],
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Directories of runs or loops.", show_default=False),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="The figure: .png, .svg or .pdf; must not exist.",
            show_default="KIND.pdf",
        ),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME,...", help="Names for the runs.", show_default="those of their directories"
        ),
    ] = None,
    width: Annotated[
        float, typer.Option(help="Width in mm; a column of a paper has 85.", min=30, max=500)
    ] = 85.0,
    height: Annotated[
        float | None, typer.Option(help="Height in mm.", show_default="one that suits", min=20, max=500)
    ] = None,
    job: Annotated[
        int | None,
        typer.Option(help="Whose loop is drawn.", show_default="the job whose PEs lost most time"),
    ] = None,
    tau: Annotated[float, typer.Option(help="Bound of bounded slowdowns, in s.", min=1e-9)] = 10.0,
) -> None:
    """Draw KIND of RUNs for a paper: PNG, SVG or PDF, legible at the width of a column."""
    from mlsim.analysis.plots.kinds import KINDS, draw_kind
    from mlsim.cli.newfiles import new_files
    from mlsim.errors import InputError
    from mlsim.experiment.pages import read_for_plot

    target = out or Path(f"{kind.value}.pdf")
    if target.suffix not in (".png", ".svg", ".pdf"):
        raise InputError(f"{target}: a figure is written as .png, .svg or .pdf; end its name so")
    what = KINDS[kind.value]
    if job is not None and not what.of_loops:
        loops = ", ".join(name for name, other in KINDS.items() if other.of_loops)
        raise InputError(f"--job: {kind.value} is not of one loop; it is for {loops}")
    names = None if labels is None else [name.strip() for name in labels.split(",")]
    with new_files([target]) as (partial,):
        found = read_for_plot(runs, names, of_loops=what.of_loops, job=job)
        if what.is_single and len(found) > 1:
            raise InputError(
                f"{kind.value} shows one run; found {len(found)}: {', '.join(found)}. Name one of them"
            )
        draw_kind(kind.value, found, partial, width, height, tau)
    print(f"Written: {target}  ({what.meaning})")
