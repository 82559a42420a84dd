"""Entry point of ``mlsim``: the commands."""

from __future__ import annotations

import os
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from mlsim.cli import (
    compare,
    cp,
    info,
    listing,
    loop,
    metrics,
    mpi,
    rca,
    run,
    study,
    workload,
)
from mlsim.cli.ending import DEBUG, run_and_exit
from mlsim.errors import user_code_error

__all__ = ["app", "main"]


class _Commands(TyperGroup):
    """The commands; none of the code that they call ends the process behind their back."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (SystemExit, KeyboardInterrupt) as error:
            raise user_code_error("code that the command called has tried to end it", error) from error


app = typer.Typer(
    name="mlsim",
    cls=_Commands,
    help="Simulate HPC scheduling at the batch and the application level at once.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from mlsim import __version__

        print(f"mlsim {__version__}")
        raise typer.Exit


def _note_debug(wanted: bool) -> None:
    if wanted:
        os.environ[DEBUG] = "1"


@app.callback()
def _options(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version."),
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


app.command("run")(run.run)
app.command("loop")(loop.loop)
app.command("study")(study.study)
app.command("metrics")(metrics.metrics)
app.command("compare")(compare.compare)
app.command("check")(info.check)
app.command("schema")(info.schema)
app.command("list")(listing.list_)
app.add_typer(workload.workload)
app.add_typer(cp.cp)
app.add_typer(mpi.mpi)
app.add_typer(rca.rca)


def main() -> NoReturn:
    """Run the command line and exit."""
    run_and_exit(app)
