"""Options that the commands of learning share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["Jobs", "Out", "check_read", "read_by_methods", "weeks_of_option"]

Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        "-j",
        min=1,
        help="Processes at work at a time.",
        show_default="as many as cores, 1 if all is done soon",
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


def read_by_methods(method: str, *, also: Mapping[str, tuple[bool, str]]) -> dict[str, tuple[bool, str]]:
    """Return which options of a search are read, and with what: those of searches, and others."""
    evolution = (method != "grid", "--method xnes or cma-es")
    searches = {"points": (method == "grid", "--method grid"), "evaluations": evolution, "seed": evolution}
    return searches | dict(also)


def check_read(context: typer.Context, readers: Mapping[str, tuple[bool, str]]) -> None:
    """Check that no option is given that nothing reads.

    Parameters
    ----------
    context
        Of the command.
    readers
        Parameter to whether it is read, and with what it would be.

    Raises
    ------
    InputError
        If one is given.
    """
    from mlsim.errors import InputError

    for name, (read, needed) in readers.items():
        source = context.get_parameter_source(name)
        if not read and source is not None and source.name == "COMMANDLINE":
            option = name.replace("_", "-")
            raise InputError(f"--{option}: read with {needed} only; take it out, or write that")


def weeks_of_option(name: str, text: str) -> tuple[int, int]:
    """Return the first and the last week that an option names.

    Raises
    ------
    InputError
        If it names none.
    """
    from mlsim.errors import InputError
    from mlsim.scenario.values.dates import WeeksKind

    try:
        return WeeksKind().parse(text)
    except ValueError as error:
        raise InputError(f"--{name}: {error}") from error
