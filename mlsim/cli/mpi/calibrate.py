"""``mlsim mpi calibrate``: measure what messages and chunk calculations cost."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from mlsim.cli.mpi.options import Launcher, check_ranks
from mlsim.cli.mpi.tables import print_machine

__all__ = ["calibrate"]


def calibrate(
    launcher: Launcher = None,
    ranks: Annotated[
        int | None, typer.Option("--ranks", "-n", min=1, help="Ranks. Default: 2.", show_default=False)
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON, not a table.")] = False,
) -> None:
    """Measure what messages, atomics and chunk calculations cost here."""
    from mlsim.mpi.launch import launch, launcher_of

    check_ranks(launcher, ranks)
    printed = launch(launcher_of(launcher or [], ranks or 2), ["-m", "mlsim.mpi.calibrate"], quiet=True)
    measured = json.loads(printed.strip().splitlines()[-1])
    if json_:
        print(json.dumps(measured, indent=2))
        return
    print_machine(measured)
