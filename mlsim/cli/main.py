"""Entry point of ``mlsim``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from mlsim._runtime.late import importing
from mlsim._runtime.memory import start_no_threads, without_colours
from mlsim.cli.terminal import run_and_exit

if TYPE_CHECKING:
    import typer

    app: typer.Typer
    """All commands."""


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mlsim.cli.commands import program

    globals()["app"] = program()
    return globals()["app"]


def main() -> NoReturn:
    """Run the command line and exit."""
    run_and_exit(_run)


def _run() -> None:
    start_no_threads()
    without_colours()
    with importing():
        from typer.main import get_command

        command = get_command(_program(sys.argv[1:]))
    command()


def _program(words: Sequence[str]) -> typer.Typer:
    """Make the program that these words ask for: with one command where it is clear which."""
    from mlsim.cli.commands import COMMANDS, program

    rest = [word for word in words if word != "--debug"]
    if rest == ["--version"]:
        return program(())
    return program(rest[:1] if rest and rest[0] in COMMANDS else COMMANDS)
