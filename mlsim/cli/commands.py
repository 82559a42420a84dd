"""The commands of ``mlsim``, of which a process imports the one that it executes."""

import os
from collections.abc import Collection
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.main import get_command

from mlsim import __version__
from mlsim._runtime.late import importing
from mlsim.cli.command_options import CommandGroup, Commands
from mlsim.errors import DEBUG

# The commands by panel of the help, in its order: module and function or group, and the line of the help.
PANELS = {
    "Start": {
        "init": ("scenario_files:init", "Write an example with everything that it needs, to begin with."),
        "run": ("run:run", "Simulate a scenario and write its results."),
        "loop": ("loop:loop", "Simulate a loop alone, under one or many techniques and execution models."),
        "check": ("scenario_files:check", "Check a scenario and its files, or the directory of a run."),
        "verify": ("verify:verify", "Find the faults of any schedule: capacity, order, reservations."),
        "list": ("listing:list_", "List available policies, techniques, models, options ..."),
        "schema": ("scenario_files:schema", "Print the JSON schema of scenario files, loops or studies."),
        "doctor": ("doctor:doctor", "Show what is installed, and what each missing part is for."),
    },
    "Look": {
        "metrics": ("reports:metrics", "Print the metrics of runs."),
        "report": ("reports:report", "Write an HTML page on runs."),
        "plot": ("reports:plot", "Draw a figure of runs for a paper: PNG, SVG or PDF."),
        "watch": ("run:watch", "Show the progress of a running simulation or study."),
        "trace": ("reports:trace", "Inspect, check, convert and cut OTF2 traces, of mlsim or of others."),
    },
    "Compare": {
        "compare": ("reports:compare", "Compare runs: metrics, differences, jobs in pairs, pictures."),
        "advise": ("loop:advise", "Recommend a technique and an execution model for a loop."),
    },
    "Study": {
        "study": (
            "study:study",
            "Run a parameter study: simulate all combinations, store and compare them.\n\n"
            "mlsim study DIR is short for mlsim study run DIR.",
        ),
        "learn": (
            "learn_policies:learn",
            "Learn policies or classes of jobs from a log, and test them on other weeks or logs.",
        ),
        "cp": ("cp:cp", "Save and re-solve instances of CP dispatchers."),
    },
    "Workloads": {
        "workload": (
            "log_commands:workload",
            "Generate, learn, resample, scale, convert and analyse workloads.",
        )
    },
    "Real machines": {
        "mpi": (
            "mpi:mpi",
            "Run loops for real, on MPI; receive their messages on idle nodes.\n\n"
            "calibrate measures what messages cost here, run executes a loop, validate compares it with its "
            "simulation. Applications with RCA report idle nodes to listen, or under Slurm to the plugin of "
            "mlsim slurm.",
        ),
        "slurm": (
            "cluster:slurm",
            "Take idle nodes out of jobs of a real Slurm (RCA); a Slurm on one machine.\n\n"
            "build-plugin makes the plugin that receives messages of mlsim mpi on idle nodes. Without "
            "it, mlsim mpi listen receives them, and calls give-back. cluster is a Slurm to try both on.",
        ),
    },
}
COMMANDS = {name: entry for panel in PANELS.values() for name, entry in panel.items()}
# Earlier names of commands, which keep working and are not in the help.
HIDDEN = {"rca": ("listen:rca", "The RCA agent for MPI runs: an earlier name of mlsim mpi listen.")}


def _print_version(wanted: bool) -> None:
    if wanted:
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


def _unloaded() -> None:
    """Represent a command that is not loaded."""


class _Program(Commands):
    """All commands, of which each is loaded when a command line names it."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that the words name, and load it."""
        if args[0] in COMMANDS or args[0] in HIDDEN:
            with importing():
                loaded: Any = get_command(program(args[:1]))
            self.commands |= loaded.commands
        return super().resolve_command(ctx, args)


def program(names: Collection[str] = COMMANDS) -> typer.Typer:
    """Make the program with the commands of these names, or, of no names, with all but their options."""
    made = CommandGroup(
        "mlsim",
        "Simulate HPC scheduling at the batch and the application level at once.",
        cls=Commands if names else _Program,
        add_completion=len(names) != 1,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    made.callback()(_options)
    panel_of = {name: panel for panel, commands in PANELS.items() for name in commands}
    for name, (place, text) in (COMMANDS | HIDDEN).items():
        more: dict[str, Any] = {"rich_help_panel": panel_of.get(name), "hidden": name in HIDDEN}
        if not names:
            made.command(name, help=text, **more)(_unloaded)
        elif name in names or (name in HIDDEN and len(names) > 1):
            module, _, attribute = place.partition(":")
            command = getattr(import_module(f"mlsim.cli.{module}"), attribute)
            if isinstance(command, typer.Typer):
                made.add_typer(command, help=text, **more)
            else:
                made.command(name, **more)(command)
    return made
