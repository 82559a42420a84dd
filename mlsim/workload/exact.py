"""Exactness of times: two submit times that are written differently and round to one float64 are an error.

A float64 has 53 binary digits. So 10^15 + 0.01 and 10^15 + 0.02 are one number, and two jobs submitted then
would be taken for submitted at once, in whatever order ties have. Times that differ by less than 1 ns are
taken for the same: no clock is as fine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation

import numpy as np

from mlsim._arrays import Floats
from mlsim.errors import InputError

__all__ = ["SURE_DIGITS", "check_distinct", "exact_id"]


SURE_DIGITS = 15
"""Decimal numbers of so many digits are all different as float64."""
_FINEST = Decimal("1e-9")
_LIMIT = 2.0**63


def check_distinct(place: str, texts: Sequence[str], values: Floats, job: Callable[[int], object]) -> None:
    """Check that submit times which are written differently stay different.

    Parameters
    ----------
    place
        What the message begins with.
    texts
        As they are written, decimal numbers; an empty one stands for what its float64 is in short.
    values
        What they are as float64.
    job
        What the message calls the job of a row.

    Raises
    ------
    InputError
        If two of them become one; the message names both.
    """
    found = _merged(texts, values)
    if found is not None:
        one, other = min(found), max(found)
        raise InputError(
            f"{place}: jobs {job(one)} and {job(other)}: submit_time {_shown(texts, values, one)} and "
            f"{_shown(texts, values, other)} cannot be told apart: so far from 0 both become "
            f"{float(values[one])!r}\n  subtract the first submit time from all, or round them"
        )


def _merged(texts: Sequence[str], values: Floats) -> tuple[int, int] | None:
    """Find two times that are written differently and are one float64."""
    order = np.argsort(values, kind="stable")
    for place in np.flatnonzero(np.diff(values[order]) == 0).tolist():
        one, other = int(order[place]), int(order[place + 1])
        if texts[one] != texts[other]:
            difference = _exact(texts[one], values[one]) - _exact(texts[other], values[other])
            if abs(difference) >= _FINEST:
                return one, other
    return None


def _exact(text: str, value: float) -> Decimal:
    try:
        return Decimal(text or repr(float(value)))
    except InvalidOperation:
        return Decimal(float(value))  # no number; that is for the column's own check


def _shown(texts: Sequence[str], values: Floats, row: int) -> str:
    return texts[row][:60] or repr(float(values[row]))


def exact_id(text: str | bytes) -> int | None:
    """Return the identifier that a text is, exactly; None unless it is a whole number from 0 below 2^63."""
    number = text.removeprefix("+") if isinstance(text, str) else text.removeprefix(b"+")
    if number.isdigit() and number.isascii():
        found = int(number)
    else:
        try:
            value = float(number)
        except ValueError:
            return None
        if not 0 <= value < _LIMIT or not value.is_integer():
            return None
        found = int(value)
    return found if found < 2**63 else None
