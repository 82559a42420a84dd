"""Writing of workloads that are made, for the commands that make them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from mlsim.workload.made import Made

__all__ = ["Out", "write_made"]

Out = Annotated[
    Path,
    typer.Option(
        "--out",
        "-o",
        metavar="FILE",
        help="File to write (.swf, .csv or .parquet, also with .gz, .bz2, .xz or .zst behind it); "
        "must not exist.",
        show_default=False,
    ),
]
"""The option that names the file."""


def write_made(out: Path, made: Made) -> int:
    """Write a workload to a file that is not there; return how many jobs it has."""
    from mlsim.cli.newfiles import new_files
    from mlsim.cli.progress import working
    from mlsim.workload.block_writer import check_format

    check_format(out)
    with new_files([out]) as (partial,), working(f"writing {out.name}"):
        return made.write(partial)
