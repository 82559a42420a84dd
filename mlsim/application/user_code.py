"""What the user's own techniques and models have in common: parameters of compiled code, and its errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlsim.errors import InputError

__all__ = ["compilable", "compiler_message"]


def compilable(place: str, value: Any) -> Any:
    """Return a parameter as compiled code takes it.

    Parameters
    ----------
    place
        The scenario's key, for the message.
    value
        What stands there.

    Raises
    ------
    InputError
        If it is neither a number, a boolean, a text nor a list of numbers.
    """
    if isinstance(value, bool | int | float | str):
        return value
    numbers = isinstance(value, list | tuple) and value
    if numbers and all(isinstance(item, int | float) and not isinstance(item, bool) for item in value):
        return np.array(value)
    raise InputError(
        f"{place}: {value!r:.60} cannot be compiled; allowed: a number, a boolean, a text, a list of numbers"
    )


def compiler_message(error: Exception) -> str:
    """Return what a person needs of a compiler's message."""
    lines = [line.strip() for line in str(error).splitlines()]
    found = [line for line in lines if line and not line.startswith(("Failed in", "During:", "^", "See "))]
    return "; ".join(found[:3])
