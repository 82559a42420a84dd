"""Options that the commands of ``mlsim mpi`` have in common, and what is checked of them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from mlsim.scenario import Scenario


__all__ = ["Launcher", "Settings", "check_ranks", "note_keys_left_aside"]


Launcher = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[-- LAUNCHER...]",
        help="How to start the ranks, after --, such as -- srun, or -- mpiexec -n 8. Default: the mpiexec of "
        "this machine.",
        show_default=False,
    ),
]

Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set a key of the scenario; may be repeated."),
]


def check_ranks(launcher: list[str] | None, ranks: int | None) -> None:
    """Check that either the launcher or ``--ranks`` sets the number of ranks."""
    from mlsim.errors import InputError

    if launcher and ranks is not None:
        raise InputError(
            f"--ranks {ranks}: the launcher after -- says how many; give one of the two, or -- "
            f"{' '.join(launcher)} -n {ranks}"
        )


def note_keys_left_aside(loop: Scenario, read: tuple[str, ...], repetitions: int = 1) -> None:
    """Print notes on keys of a file that only a simulation reads, or nothing does."""
    from mlsim.mpi.reading import left_aside
    from mlsim.scenario import warnings_of

    keys = left_aside(loop, read)
    notes = [f"a real run does not read {', '.join(keys)}"] if keys else []
    for note in (*notes, *warnings_of(loop, repetitions=repetitions)):
        print(f"mlsim: note: {note}", file=sys.stderr)
