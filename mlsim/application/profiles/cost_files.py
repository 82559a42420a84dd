"""Files of iteration costs: a column of a ``.csv`` file or of a ``.npy`` file."""

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mlsim._files import expanded, named, read_lines, read_npy
from mlsim._runtime.arrays import Floats
from mlsim.errors import InputError
from mlsim.scenario.field_types import nearest

_MOST_SECONDS = 2.0**53  # as for times of logs: larger sums of costs would be rounded by whole seconds
_COST_NAMES = ("cost", "costs", "iteration_cost", "seconds", "time", "duration", "s")
_KEY = "application.costs.column (or --column)"
_SHOWN = 3  # values of a column without a name that messages quote

Row = tuple[int, list[str]]  # number of a line, and its fields


def read_costs(path: str | Path, column: str | int | None = None) -> Floats:
    """Read iteration costs in s from a ``.npy`` file or a ``.csv`` file.

    ``column`` is the name of the column of costs, or its number from 1. A file of one column needs none, nor
    does a ``.csv`` file in which one column alone is named ``cost`` (or ``seconds``, ``time`` ...). Raises
    InputError, with file, iteration and line, if it cannot be read or a cost is negative or not finite.
    """
    path = expanded(path)
    readers = {".npy": _read_npy, ".csv": _read_csv}
    if path.suffix.lower() not in readers:
        found = f"costs in a file of type '{path.suffix[:20]}'"
        raise InputError(f"{named(path)}: {found}; allowed: {', '.join(readers)}")
    costs, lines = readers[path.suffix.lower()](path, column)
    if not len(costs):
        raise InputError(f"{path}: holds no costs; allowed: one cost per iteration, 1 or more")
    wrong = np.flatnonzero(~((costs >= 0.0) & (costs < _MOST_SECONDS)))
    if len(wrong):
        k = int(wrong[0])
        place = f"{path}:{lines[k]}" if lines else str(path)
        raise InputError(
            f"{place}: the cost of iteration {k} is {costs[k]} ({len(wrong)} of {len(costs)} costs are "
            "negative, not finite or too large); allowed: 0 s or more, below 2^53 s"
        )
    return costs


def _read_npy(path: Path, column: str | int | None) -> tuple[Floats, list[int]]:
    values = read_npy(path, "column of costs")
    found = f"an array of shape {values.shape} and type {str(values.dtype)[:40]}"
    names = list(values.dtype.names or ())
    if column is not None and values.ndim == 1 and names:
        values = values[names[_index_of(path, column, names, names)]]
    elif column is not None and values.ndim in (1, 2) and not names:
        values = values.reshape(len(values), -1)
        numbers = [str(k) for k in range(1, values.shape[1] + 1)]
        values = values[:, _index_of(path, column, [], numbers)]
    if values.ndim != 1 or values.dtype.kind not in "iuf":
        raise InputError(
            f"{path}: holds {found}; allowed: one column of real numbers, or several columns, one of which "
            f"is chosen by {_KEY}"
        )
    return values.astype(np.float64), []


def _read_csv(path: Path, column: str | int | None) -> tuple[Floats, list[int]]:
    """Read the numbers, and the line of each."""
    rows = [
        (number, fields)
        for number, line in enumerate(read_lines(path, "column of costs"), start=1)
        if (fields := _fields(line))
    ]
    has_names = bool(rows) and rows[0][0] == 1 and all(_number(field) is None for field in rows[0][1])
    names = rows.pop(0)[1] if has_names else []
    width = max((len(fields) for _, fields in rows), default=len(names))
    if column is None and len(names) <= 1 and len(rows) == 1:  # all costs are on one line
        number, fields = rows[0]
        return np.array([_cost(path, number, field) for field in fields]), [number] * width
    index = 0
    if column is not None or max(width, len(names)) > 1:
        index = _column_of(path, column, names, rows, width)
    costs = np.empty(len(rows))
    for k, (number, fields) in enumerate(rows):
        if index >= len(fields):
            raise InputError(f"{path}:{number}: the line ends before column {index + 1}, that of the costs")
        costs[k] = _cost(path, number, fields[index])
    return costs, [number for number, _ in rows]


def _fields(line: str) -> list[str]:
    """Return the fields of a line, without empty ones at its end."""
    parts = next(csv.reader([line], skipinitialspace=True), []) if '"' in line else line.split(",")
    fields = [part.strip() for part in parts]
    while fields and not fields[-1]:
        fields.pop()
    return fields


def _column_of(
    path: Path, column: str | int | None, names: list[str], rows: Sequence[Row], width: int
) -> int:
    """Return the place of the column of costs: the chosen one, or the only one with a name of costs."""
    width = max(width, len(names))
    columns = [f"{names[k]!r:.40}" for k in range(len(names))]
    for k in range(len(names), width):
        first = [fields[k] for _, fields in rows[:_SHOWN] if k < len(fields)]
        columns.append(f"{k + 1} ({', '.join(first)[:40]}{', ...' * (len(rows) > _SHOWN)})")
    if column is not None:
        return _index_of(path, column, names, columns)
    words = [name.lower().replace(" ", "_") for name in names]
    found = [k for k, word in enumerate(words) if word in _COST_NAMES]
    if len(found) == 1 and width == len(names):
        return found[0]
    example, line = (names[-1], 1) if names else ("2", rows[0][0])
    raise InputError(
        f"{path}:{line}: {width} columns, {', '.join(columns):.400}: which one holds the costs? Choose it by "
        f"{_KEY}, e.g. application.costs.column={example:.40}. Allowed without it: one column; or columns "
        "with names, one of which is "
        f"{', '.join(_COST_NAMES[:-1])} or {_COST_NAMES[-1]}"
    )


def _index_of(path: Path, column: str | int, names: list[str], columns: list[str]) -> int:
    """Return the place of a column that is chosen by its name, or by its number from 1."""
    if isinstance(column, int):
        found = [column - 1] if column <= len(columns) else []
    else:
        found = [k for k, name in enumerate(names) if name == column]
        found = found or [k for k, name in enumerate(names) if name.casefold() == column.casefold()]
    if len(found) == 1:
        return found[0]
    wrong = "several columns have this name" if found else "there is no such column"
    meant = "" if found or isinstance(column, int) else nearest(column, names)
    hint = "" if names else "; they have no names: choose by number, from 1"
    raise InputError(
        f"{path}: application.costs.column: {column!r:.60}: {wrong};{meant} the file's columns: "
        f"{', '.join(columns):.400}{hint}"
    )


def _cost(path: Path, line: int, field: str) -> float:
    value = _number(field)
    if value is None:
        raise InputError(f"{path}:{line}: {field[:40]!r} is not a number; allowed: costs in s, 0 or more")
    return value


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
