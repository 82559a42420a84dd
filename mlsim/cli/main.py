"""Entry point of ``mlsim``: the commands, and how errors become messages and exit codes.

Exit codes: 0 done; 1 not everything could be written, or an internal error; 2 bad input or wrong usage; 129
ended by SIGHUP (the terminal was closed), 130 by Ctrl-C, 143 by SIGTERM.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

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
    streams,
    study,
    workload,
)
from mlsim.errors import MlsimError, StoppedError, user_code_error

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
        os.environ[_DEBUG] = "1"


_DEBUG = "MLSIM_DEBUG"


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
            help=f"Show the traceback of errors, for reports; as {_DEBUG}=1 does.",
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


_signals: list[int] = []
_RESEND_SECONDS = 0.05


def _stop(number: int, _: Any) -> NoReturn:
    _signals.append(number)
    raise StoppedError(number)


def _stop_again(unraisable: Any) -> None:
    """Send the signal once more where Python ignored its exception, as in finalizers and C's callbacks.

    Not from here: what is raised in this function is ignored as well.
    """
    if isinstance(unraisable.exc_value, StoppedError):
        arguments = (os.getpid(), unraisable.exc_value.number)
        timer = threading.Timer(_RESEND_SECONDS, os.kill, arguments)
        timer.daemon = True
        timer.start()
    else:
        sys.__unraisablehook__(unraisable)


def main() -> NoReturn:
    """Run the command line and exit."""
    streams.prepare()
    _on_signals(_stop)
    sys.unraisablehook = _stop_again
    try:
        code = _run()
        _on_signals(signal.SIG_IGN)  # all is written and told; only the interpreter is to be left
    except StoppedError as stopped:  # a second one, while the first was being told
        code = 128 + stopped.number
    sys.exit(code)


def _on_signals(handler: Any) -> None:
    """Handle what asks a command to stop; under nohup, a closed terminal does not."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
            continue
        signal.signal(number, handler)


def _run() -> int:
    """Run a command; give the exit code, once everything has been told."""
    try:
        code = _command()
    except StoppedError as stopped:
        code = _interrupted(stopped.number)
    except BaseException as error:  # also panics of compiled libraries, which are no Exceptions
        # LLVM's callbacks drop exceptions; the compiler then stumbles over what they have not done.
        code = _interrupted(_signals[0]) if _signals else _told(error)
    return code if streams.finish() else code or 1


def _command() -> int:
    try:
        app()
    except SystemExit as ended:  # how Typer ends every command, with 0 or another code
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


def _told(error: BaseException) -> int:
    """Say what went wrong, in a sentence; give the exit code."""
    if os.environ.get(_DEBUG, "0") not in ("", "0"):
        traceback.print_exception(error)
    if isinstance(error, MlsimError):
        print(f"mlsim: {error}", file=sys.stderr)
        return error.exit_code
    print(f"mlsim: {_sentence(error)}", file=sys.stderr)
    return 1


def _sentence(error: BaseException) -> str:
    """Say what went wrong where nobody has thought of it."""
    if isinstance(error, MemoryError):
        return (
            "there is not enough memory; nothing half-written is left. Try fewer jobs, nodes or iterations, "
            "output.trace=none, or a machine with more memory."
        )
    lines = str(error).strip().splitlines() or ["no message"]
    kind = type(error).__name__
    return (
        f"internal error: {kind}: {lines[0][:_LONGEST]}; nothing half-written is left. Please report it to "
        "the developers (CONTRIBUTING.md says how), with the command, its input, and the traceback that "
        f"`mlsim --debug` or {_DEBUG}=1 shows."
    )


_LONGEST = 300


def _interrupted(number: int) -> int:
    print("mlsim: interrupted; nothing half-written is left", file=sys.stderr)
    return 128 + number
