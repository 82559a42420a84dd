"""Results of others, which tables show beside ours."""

from __future__ import annotations

from pathlib import Path

__all__ = ["results_of_others"]


def results_of_others(path: Path, first: str, second: str) -> dict[tuple[str, str], str]:
    """Return what others found, by the first two columns of a CSV file.

    Parameters
    ----------
    path
        The file.
    first, second
        Names of these columns; the third has values.

    Raises
    ------
    InputError
        If the file has other columns.
    """
    import csv

    from mlsim._files import read_text
    from mlsim.errors import InputError

    rows = list(csv.DictReader(read_text(path, "table of results").splitlines()))
    names = list(rows[0]) if rows else []
    if names[:2] != [first, second] or len(names) < 3:
        raise InputError(f"{path}: columns: {', '.join(names)}; needed: {first}, {second}, and one of values")
    return {(row[first], row[second]): row[names[2]] for row in rows}
