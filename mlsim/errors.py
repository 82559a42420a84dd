"""The errors mlsim raises, and the exit code each one ends the command line with."""

from __future__ import annotations

__all__ = ["InputError", "MlsimError", "OutputError"]


class MlsimError(Exception):
    """Base of every error that mlsim raises on purpose; its message is complete for a person."""

    exit_code = 1


class InputError(MlsimError):
    """Something the user gave cannot be used: a scenario, a log, an option.

    The message names the place (file, line, key), what was found, what is allowed and what to try.
    """

    exit_code = 2


class OutputError(MlsimError):
    """Results could not be written: no space, no permission, a directory in the way."""

    exit_code = 1
