"""Entry point of ``mlsim``: executes a command, and ends the process on its errors and on signals."""

import atexit
import os
import signal
import sys
import threading
import time
import traceback
from typing import Any, NoReturn

from mlsim._runtime import late, memory, places, processes
from mlsim.cli.command_output import finish, prepare
from mlsim.errors import DEBUG, SIGNALS, MlsimError, StoppedError, printable, sentence_of

app: Any
"""All commands, as a Typer program."""


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mlsim.cli.commands import program

    globals()["app"] = program(())
    return globals()["app"]


def _run() -> None:
    """Execute the command line; Typer ends with SystemExit."""
    memory.start_no_threads()
    memory.without_colours()
    with late.importing():
        from mlsim.cli.commands import program

        command = program(())
    if os.environ.get("_MLSIM_COMPLETE", "").startswith("complete_"):
        from mlsim.cli.completion import answer

        answer(command)
    else:
        command()


_RANK = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")  # set by launchers of MPI for their processes
_RESEND_SECONDS = 0.05
_PATIENCE = 1.0  # Seconds that compiled code may take to return to Python after a signal
_INTERRUPTED = "mlsim: interrupted; no partial files are left"
_ends_now = threading.Event()


def main() -> NoReturn:
    """Execute the command line and exit."""
    prepare()
    _on_signals(_stop)
    _watch()
    sys.unraisablehook = _stop_again
    try:
        code = _exit_code()
        # All is written and reported; only the interpreter is left to end. MPI may wait for ranks meanwhile.
        _on_signals(signal.SIG_DFL if "mpi4py" in sys.modules else signal.SIG_IGN)
    except StoppedError as stopped:  # a second one, while the first was being reported
        code = 128 + stopped.number
    if SIGNALS and any(name in os.environ for name in _RANK):
        # A launcher ends the other ranks after a signal; after an exit code it may wait for ever.
        finish()
        _on_signals(signal.SIG_DFL)
        os.kill(os.getpid(), SIGNALS[0])
    if _may_end_at_once():
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _exit_code() -> int:
    """Execute the command line; return its exit code, once everything is printed."""
    code = 0
    try:
        _run()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except StoppedError as stopped:
        code = _interrupted(stopped.number)
    except BaseException as error:  # also panics of compiled libraries, which are no Exceptions
        # LLVM's callbacks drop exceptions; the compiler then stumbles over what they have not done.
        if SIGNALS:
            code = _interrupted(SIGNALS[0])
        else:
            if os.environ.get(DEBUG, "0") not in ("", "0"):
                traceback.print_exception(error)
            known = isinstance(error, MlsimError)
            print(f"mlsim: {printable(str(error) if known else sentence_of(error))}", file=sys.stderr)
            code = error.exit_code if isinstance(error, MlsimError) else 1
    return code if finish() else code or 1


def _interrupted(number: int) -> int:
    print(_INTERRUPTED, file=sys.stderr)
    return 128 + number


def _on_signals(handler: Any) -> None:
    """Handle what asks a command to stop; under nohup, a closed terminal does not."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handler)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # not on Windows
        signal.signal(signal.SIGHUP, handler)


def _stop(number: int, _: Any) -> None:
    if processes.postponed.takes(number):  # for at most as long as the other thread waits
        return
    SIGNALS.append(number)
    if _ends_now.is_set():  # the other thread is about to end the process
        threading.Event().wait()
    raise StoppedError(number)


def _stop_again(unraisable: Any) -> None:
    """Send the signal once more where Python ignored its exception, as in finalizers and C's callbacks.

    Not from here: what is raised in this function is ignored as well.
    """
    if isinstance(unraisable.exc_value, StoppedError):
        timer = threading.Timer(_RESEND_SECONDS, os.kill, (os.getpid(), unraisable.exc_value.number))
        timer.daemon = True
        timer.start()
    else:
        sys.__unraisablehook__(unraisable)


def _watch() -> None:
    """End the process where a signal finds it in compiled code that does not return soon.

    Python handles signals between two of its own instructions only. Kernels leave the interpreter to other
    threads: one of them learns of signals at once, by the pipe to which Python's handler in C writes them.
    """
    if not hasattr(os, "register_at_fork"):  # on Windows, where signals are others
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))  # a child's signals are its own
    threading.Thread(target=_end_if_stuck, args=(reading,), name="mlsim-signals", daemon=True).start()


def _end_if_stuck(reading: int) -> None:
    while True:
        number = os.read(reading, 1)[0]
        if signal.getsignal(number) is _stop and _is_stuck():
            _ends_now.set()
            places.remove_unfinished()
            if sys.stderr.isatty():
                sys.stderr.write("\r\x1b[K\x1b[?25h")  # show the cursor, which progress bars hide
            print(_INTERRUPTED, file=sys.stderr)
            finish()
            os._exit(128 + number)


def _is_stuck() -> bool:
    """Return, if the process has not ended before, whether its main thread does not return to Python.

    What is raised while a kernel calls back is kept until it returns: then, too, only the kernel goes on.
    """
    looks, between = 0, _PATIENCE / 50
    began = time.monotonic()
    while time.monotonic() < began + 30 * _PATIENCE:
        time.sleep(between)
        frame = sys._current_frames().get(threading.main_thread().ident or 0)
        in_kernel = frame is not None and f"{os.sep}_jit{os.sep}" in frame.f_code.co_filename
        looks = looks + 1 if not SIGNALS or in_kernel else 0
        if looks >= 50:
            return True
    return False


def _may_end_at_once() -> bool:
    """Whether the interpreter shutdown can be skipped, which takes 25 ms, or 0.2 s with pictures.

    It cannot with user-defined code, which may leave files for Python to close, with MPI, which it finalizes,
    or under a debugger or profiler, which expects a regular end of the command.
    """
    plugins = sys.modules.get("mlsim.plugins")
    monitoring = getattr(sys, "monitoring", None)  # of Python 3.12 on
    looks_on = (
        sys.flags.inspect
        or sys.gettrace() is not None
        or sys.getprofile() is not None
        or (monitoring is not None and any(monitoring.get_tool(number) for number in range(6)))
    )
    # No daemon counts: Python waits for none, and threads of Polars that have called Python look like one.
    waited_for = [thread for thread in threading.enumerate() if not thread.daemon]
    alone = waited_for == [threading.main_thread()] == [threading.current_thread()]
    by_user = plugins is not None and plugins.any_loaded()
    return alone and not (looks_on or by_user or "mpi4py" in sys.modules)
