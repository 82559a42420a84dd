"""Options that the commands of learning share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["Jobs", "Out"]

Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        "-j",
        min=1,
        help="Processes at work at a time.  [default: as many as cores, 1 if all is done soon]",
        show_default=False,
    ),
]

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
