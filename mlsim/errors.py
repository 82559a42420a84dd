"""The errors mlsim raises, and the exit code each one ends the command line with."""

import errno
import os
import signal
from types import TracebackType

DEBUG = "MLSIM_DEBUG"  # Variable of the environment: whether the traceback of errors is shown
SIGNALS: list[int] = []
"""Signals that have asked this command to stop: libraries may drop the exceptions raised for them."""
_LONGEST = 300
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

_PACKAGE = os.path.dirname(__file__)
_LIBRARY = os.path.dirname(os.__file__)


class MlsimError(Exception):
    """Base of every error that mlsim raises on purpose; its message is complete for a person."""

    exit_code = 1


class InputError(MlsimError):
    """Something the user gave cannot be used: a scenario, a log, an option.

    The message names the place (file, line, key), what was found, what is allowed and what to try.
    """

    exit_code = 2


class NothingLeftError(InputError):
    """A log has no job, or cleaning and selection leave none."""


class OutputError(MlsimError):
    """Results could not be written: no space, no permission, a directory in the way."""

    exit_code = 1


class StoppedError(BaseException):
    """A signal (``number``) asked the command to stop; an exception, so that unfinished files are removed."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def printable(text: str) -> str:
    r"""Return a message with control characters, and those that turn its direction, as escapes (``\x1b``)."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" else ascii(letter)[1:-1] for letter in text
    )


def sentence_of(error: BaseException) -> str:
    """Return what went wrong where no message is foreseen."""
    if isinstance(error, MemoryError):
        return (
            "there is not enough memory; no partial files are left. Try fewer jobs, nodes or iterations, "
            "output.trace=none, or a machine with more memory."
        )
    if isinstance(error, OSError) and error.errno in _FULL:
        place = error.filename or "a file"
        return (
            f"{place}: cannot be written: {error.strerror}; no partial files are left. "
            "Free some space for results and for temporary files (TMPDIR)."
        )
    if isinstance(error, FileNotFoundError):
        try:
            os.getcwd()
        except OSError:
            return "the current directory has been removed; change to another one. No partial files are left."
    lines = str(error).strip().splitlines() or ["no message"]
    kind = type(error).__name__
    return (
        f"internal error: {kind}: {lines[0][:_LONGEST]}; no partial files are left. Please report it to "
        "the developers (CONTRIBUTING.md says how), with the command, its input, and the traceback that "
        f"`mlsim --debug` or {DEBUG}=1 shows."
    )


def user_code_error(place: str, error: BaseException) -> InputError:
    """Return the error that reports what user-defined code raised; ``place`` names the code and the moment.

    ``SystemExit`` and ``KeyboardInterrupt`` that the code raises are failures like any other: a plugin cannot
    end the simulation as if it were complete. An :class:`InputError`, a signal, and Ctrl-C are raised again.
    """
    # Ctrl-C raises a KeyboardInterrupt; under the command line's handler, a StoppedError instead.
    by_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ctrl_c = isinstance(error, KeyboardInterrupt) and by_default
    if isinstance(error, InputError | StoppedError) or ctrl_c:
        raise error
    return InputError(f"{place}: {type(error).__name__}: {error}{_line(error.__traceback__)}")


def _line(traceback: TracebackType | None) -> str:
    """Return where in the user's file an error was raised, as text; none where no line there was executed."""
    own, line = "", 0
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        library = file.startswith(_LIBRARY) and "site-packages" not in file
        if not own and not library and not file.startswith((_PACKAGE, "<")):
            own = file
        line = traceback.tb_lineno if file == own else line
        traceback = traceback.tb_next
    return f" ({os.path.basename(own)}, line {line})" if own else ""
