"""The errors mlsim raises, and the exit code each one ends the command line with."""

from __future__ import annotations

import os
import signal
from types import TracebackType

__all__ = ["InputError", "MlsimError", "NothingLeftError", "OutputError", "StoppedError", "user_code_error"]


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
    """A signal asked the command to stop; an exception, so that everything half-written is removed.

    Attributes
    ----------
    number
        The signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def user_code_error(place: str, error: BaseException) -> InputError:
    """Return the error that says what the user's code raised.

    ``SystemExit`` and ``KeyboardInterrupt`` that the code raises are failures of the code like any other:
    a plugin cannot end the simulation as if it were done.

    Parameters
    ----------
    place
        Whose code, and where it was: ``policy mine.py:Mine: failed at 3 s``.
    error
        What it raised.

    Raises
    ------
    BaseException
        ``error`` itself, where it is not the code's own: an :class:`InputError`, which says all there is to
        say; a signal that asked the command to stop; Ctrl-C, where Python turns it into KeyboardInterrupt.
    """
    if isinstance(error, InputError | StoppedError) or _is_ctrl_c(error):
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


def _is_ctrl_c(error: BaseException) -> bool:
    """Whether Ctrl-C may have raised this; the command line's handler raises a StoppedError instead."""
    handler = signal.getsignal(signal.SIGINT)
    return isinstance(error, KeyboardInterrupt) and handler is signal.default_int_handler
