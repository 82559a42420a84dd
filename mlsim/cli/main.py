"""Entry point of ``mlsim``: the commands, and how errors become messages and exit codes.

Exit codes: 0 done, 1 results could not be written, 2 bad input or wrong usage, 130 Ctrl-C, 143 ended
by SIGTERM.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Annotated, Any, NoReturn

import typer

from mlsim.cli import (
    compare,
    convert,
    cp,
    esp,
    info,
    loop,
    machines,
    metrics,
    mpi,
    predict,
    rca,
    run,
    study,
    workload,
)
from mlsim.errors import MlsimError

__all__ = ["app", "main"]

app = typer.Typer(
    name="mlsim",
    help="Simulate HPC scheduling at the batch and the application level at once.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"mlsim {version('mlsim')}")
        raise typer.Exit


@app.callback()
def _options(
    _: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
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
app.command("list")(info.list_)
workload.workload.command("esp")(esp.esp)
workload.workload.command("eurora")(machines.eurora)
workload.workload.command("kit")(machines.kit)
workload.workload.command("predict")(predict.predict)
workload.workload.command("convert")(convert.convert)
app.add_typer(workload.workload)
app.add_typer(cp.cp)
app.add_typer(mpi.mpi)
app.add_typer(rca.rca)


class _StoppedError(BaseException):
    """A signal asked the process to stop; an exception, so that everything half-written is removed."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


_signals: list[int] = []
_RESEND_SECONDS = 0.05


def _stop(number: int, _: Any) -> NoReturn:
    _signals.append(number)
    raise _StoppedError(number)


def _stop_again(unraisable: Any) -> None:
    """Send the signal once more where Python ignored its exception, as in finalizers and C's callbacks.

    Not from here: what is raised in this function is ignored as well.
    """
    if isinstance(unraisable.exc_value, _StoppedError):
        arguments = (os.getpid(), unraisable.exc_value.number)
        timer = threading.Timer(_RESEND_SECONDS, os.kill, arguments)
        timer.daemon = True
        timer.start()
    else:
        sys.__unraisablehook__(unraisable)


def main() -> NoReturn:
    """Run the command line and exit."""
    signal.signal(signal.SIGINT, _stop)
    signal.signal(signal.SIGTERM, _stop)
    sys.unraisablehook = _stop_again
    code = 0
    try:
        app()
    except _StoppedError as stopped:
        code = _interrupted(stopped.number)
    except BrokenPipeError:
        # The reader of our output has gone; there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except Exception as error:
        if _signals:
            # LLVM's callbacks drop exceptions; the compiler then stumbles over what they have not done.
            code = _interrupted(_signals[0])
        elif isinstance(error, MlsimError):
            print(f"mlsim: {error}", file=sys.stderr)
            code = error.exit_code
        else:
            raise
    sys.exit(code)


def _interrupted(number: int) -> int:
    print("mlsim: interrupted; nothing half-written is left", file=sys.stderr)
    return 128 + number
