"""The compiled part of the SWF reader."""

import numpy as np

from mlsim._jit import kernel
from mlsim._runtime.arrays import Floats, Ints, NDArray
from mlsim.workload.log_fields import LARGEST_WHOLE, SCHEDULED, Field

COLUMNS = len(Field)

# What `scan` answers.
END = 0  # all bytes are used up
FULL = 1  # the columns are full
LOOK = 2  # the line at the position needs Python: header, broken, or a number of many digits

# What the state array holds.
POSITION = 0  # where the next line starts
ROW = 1  # rows filled so far
LINE = 2  # number of the next line, from 1
WIDTH = 3  # columns a line must have; 0 until the first line of numbers was seen
STATE_LENGTH = 4


Bytes = NDArray[np.uint8]

_NEWLINE = 10
_SPACE = 32
_TAB, _CARRIAGE_RETURN = 9, 13
_SEMICOLON, _PLUS, _MINUS, _DOT, _ZERO, _NINE = 59, 43, 45, 46, 48, 57
_SMALL_E, _CAPITAL_E = 101, 69

# A mantissa up to 2^53 and a power of ten up to 10^22 make one correctly rounded operation; mantissas up to
# 2^52 of one power make different numbers, which :mod:`mlsim.workload.log_fields` relies on.
_MANTISSA_LIMIT = 2**52
_EXPONENT_LIMIT = 22
_POWERS = np.array([10.0**power for power in range(_EXPONENT_LIMIT + 1)])
_WHOLE = np.array([field.is_whole for field in Field])
_SUBMIT, _RUN, _ID = int(Field.SUBMIT_TIME), int(Field.RUN_TIME), int(Field.JOB_ID)
_SCHEDULED = np.array([field in SCHEDULED for field in Field])


@kernel
def _is_blank(byte: int) -> bool:
    """Whether the byte separates columns (space, tab, vertical tab, form feed, carriage return)."""
    return byte == _SPACE or (byte >= _TAB and byte <= _CARRIAGE_RETURN and byte != _NEWLINE)


@kernel
def _skip_blanks(text: Bytes, at: int) -> int:
    while _is_blank(text[at]):
        at += 1
    return at


@kernel
def _digit(byte: int) -> int:
    # Widened, as bytes would overflow where kernels are not compiled.
    return np.int64(byte) - _ZERO  # type: ignore[return-value]  # an int to kernels


@kernel
def _exponent(text: Bytes, at: int) -> tuple[int, int]:
    """Read the digits after an `e`; returns (exponent, next position), position -1 if there are none."""
    negative = text[at] == _MINUS
    if negative or text[at] == _PLUS:
        at += 1
    first = at
    value = 0
    while text[at] >= _ZERO and text[at] <= _NINE and at - first < 5:
        value = value * 10 + _digit(text[at])
        at += 1
    if at == first:
        return 0, -1
    return (-value if negative else value), at


@kernel
def _scale(mantissa: int, exponent: int) -> float:
    """Return `mantissa` times ten to the `exponent`; the operands are exact, so it is correctly rounded."""
    scale: float = _POWERS[abs(exponent)]
    return mantissa / scale if exponent < 0 else mantissa * scale


@kernel
def _number(text: Bytes, at: int) -> tuple[float, int]:
    """Read one decimal number; returns (value, next position), position -1 if it is not an easy one."""
    negative = text[at] == _MINUS
    if negative or text[at] == _PLUS:
        at += 1
    mantissa, exponent, digits = 0, 0, 0
    while text[at] >= _ZERO and text[at] <= _NINE and mantissa < _MANTISSA_LIMIT:
        mantissa = mantissa * 10 + _digit(text[at])
        digits += 1
        at += 1
    if text[at] == _DOT:
        at += 1
        while text[at] >= _ZERO and text[at] <= _NINE and mantissa < _MANTISSA_LIMIT:
            mantissa = mantissa * 10 + _digit(text[at])
            exponent -= 1
            digits += 1
            at += 1
    if digits == 0 or mantissa > _MANTISSA_LIMIT:
        return 0.0, -1
    if text[at] == _SMALL_E or text[at] == _CAPITAL_E:
        shift, at = _exponent(text, at + 1)
        exponent += shift
    if at < 0 or abs(exponent) > _EXPONENT_LIMIT or not (_is_blank(text[at]) or text[at] == _NEWLINE):
        return 0.0, -1
    value = _scale(mantissa, exponent)
    return (-value if negative else value), at


@kernel
def _allowed(column: int, value: float) -> bool:
    """Whether the column allows the value, by the rules of `Field.allows`."""
    if _SCHEDULED[column] and value >= LARGEST_WHOLE:
        return False
    if column in (_SUBMIT, _RUN):
        return value >= 0.0 or value == -1.0
    if _WHOLE[column] and (value != np.floor(value) or abs(value) > LARGEST_WHOLE):
        return False
    return column != _ID or value >= 0.0


@kernel
def _skip_extras(text: Bytes, at: int) -> tuple[int, int]:
    """Skip further columns of any text; returns (how many, position of the line's end)."""
    count = 0
    at = _skip_blanks(text, at)
    while text[at] != _NEWLINE:
        count += 1
        while text[at] != _NEWLINE and not _is_blank(text[at]):
            at += 1
        at = _skip_blanks(text, at)
    return count, at


@kernel
def _row(text: Bytes, at: int, width: int, row: int, columns: Floats, tails: Ints) -> int:
    """Read one line into `columns[:, row]`; returns the position of its end, or -1 to look closer."""
    for column in range(COLUMNS):
        at = _skip_blanks(text, at)
        value, at = _number(text, at)
        if at < 0 or not _allowed(column, value):
            return -1
        columns[column, row] = value
    tails[row, 0] = at
    extras, at = _skip_extras(text, at)
    tails[row, 1] = at
    return at if COLUMNS + extras == width else -1


@kernel
def scan(text: Bytes, state: Ints, columns: Floats, lines: Ints, tails: Ints) -> int:
    """Read lines until the bytes or the rows end or a line needs a closer look: `END`, `FULL` or `LOOK`.

    ``text`` holds whole lines. ``state`` (`POSITION`, `ROW`, `LINE`, `WIDTH`) is updated; ``columns`` (18,
    rows) and ``lines`` are filled from row `state[ROW]` on; ``tails`` (rows, 2) gets the places in `text` of
    the columns after the 18th.
    """
    while state[POSITION] < text.size:
        row = state[ROW]
        if row == lines.size:
            return FULL
        at = _skip_blanks(text, state[POSITION])
        if text[at] == _SEMICOLON and state[WIDTH] > 0:
            while text[at] != _NEWLINE:
                at += 1
        elif text[at] != _NEWLINE:
            at = _row(text, at, state[WIDTH], row, columns, tails)
            if at < 0:
                return LOOK
            lines[row] = state[LINE]
            state[ROW] = row + 1
        state[POSITION] = at + 1
        state[LINE] += 1
    return END
