"""Results of others, which tables show beside ours."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

__all__ = ["results_of_others"]


def results_of_others(path: Path, shown: Mapping[str, Collection[str]]) -> dict[tuple[str, str], str]:
    """Return what others found, by the first two columns of a CSV file.

    Parameters
    ----------
    path
        The file.
    shown
        Names of these columns, and what results stand beside; the third column has values.

    Raises
    ------
    InputError
        If the file has other columns, a value is no number, or no row is of what is shown.
    """
    import csv
    import math
    from operator import contains

    from mlsim._files.lines import read_lines
    from mlsim.errors import InputError

    lines = csv.reader(read_lines(path, "table of results"))
    first, second = shown
    names = next(lines, [])
    if names[:2] != [first, second] or len(names) < 3:
        found = ", ".join(names) or "none"
        raise InputError(f"{path}: columns: {found}; needed: {first}, {second}, and one of values")
    results = {}
    for row in lines:
        place = f"{path}:{lines.line_num}"
        if not row:
            continue
        if len(row) < 3:
            raise InputError(f"{place}: has {len(row)} columns; needed: {first}, {second}, {names[2]}")
        try:
            known = math.isfinite(float(row[2]))
        except ValueError:
            known = False
        if not known:
            raise InputError(f"{place}: {names[2]}: {row[2]!r} is no number")
        results[row[0], row[1]] = row[2]
    if not any(all(map(contains, shown.values(), row)) for row in results):
        words = "; ".join(f"{name}: {', '.join(values)}" for name, values in shown.items())
        raise InputError(f"{path}: none of its rows is of what it would stand beside. Shown are {words}")
    return results
