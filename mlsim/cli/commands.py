"""The commands of ``mlsim``, of which a process imports those that it is asked for."""

import os
from collections.abc import Collection
from importlib import import_module
from typing import Annotated

import typer

from mlsim.cli.command_options import CommandGroup
from mlsim.errors import DEBUG

# Where each is, in the order of the help.
COMMANDS = {
    "init": "init:init",
    "run": "run:run",
    "loop": "loop:loop",
    "advise": "advise:advise",
    "study": "study:study",
    "metrics": "reports:metrics",
    "compare": "reports:compare",
    "report": "reports:report",
    "plot": "reports:plot",
    "trace": "trace:trace",
    "watch": "progress:watch",
    "check": "checks:check",
    "schema": "checks:schema",
    "list": "listing:list_",
    "workload": "log_commands:workload",
    "learn": "learn_policies:learn",
    "doctor": "doctor:doctor",
    "cp": "cp:cp",
    "mpi": "mpi:mpi",
    "rca": "cluster:rca",
    "slurm": "cluster:slurm",
}


def _print_version(wanted: bool) -> None:
    if wanted:
        from mlsim import __version__

        print(f"mlsim {__version__}")
        raise typer.Exit


def _note_debug(wanted: bool) -> None:
    if wanted:
        os.environ[DEBUG] = "1"


def _options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    _debug: Annotated[
        bool,
        typer.Option(
            "--debug",
            callback=_note_debug,
            is_eager=True,
            help=f"Show the traceback of errors, for reports; as {DEBUG}=1 does.",
        ),
    ] = False,
) -> None:
    pass


def program(names: Collection[str] = COMMANDS) -> typer.Typer:
    """Make the program with the commands of these names."""
    made = CommandGroup(
        "mlsim",
        "Simulate HPC scheduling at the batch and the application level at once.",
        add_completion=not names or len(names) > 1,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    made.callback()(_options)
    for name, place in COMMANDS.items():
        if name in names:
            module, _, attribute = place.partition(":")
            command = getattr(import_module(f"mlsim.cli.{module}"), attribute)
            if isinstance(command, typer.Typer):
                made.add_typer(command)
            else:
                made.command(name)(command)
    return made
