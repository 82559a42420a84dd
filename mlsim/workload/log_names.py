"""Names behind codes of logs, and columns of the user's own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlsim.workload.swf_fields import CODED, Header, is_directive

JOB_NAMES = "job_names"
"""Key of the header under which it keeps the names of jobs whose identifiers are no numbers."""

Names = dict[str, dict[int, str]]
"""Column of codes -> code -> name."""

_KEYS = {column: "QOS" if column == "qos" else column.capitalize() for column in CODED}
_LINE = re.compile(r"(\d{1,15})(?:\s*[:=-]\s*|\s+)(\S.*)")


def names_of(header: Header) -> Names:
    """Return the names that the header of a log has for codes; columns without names are left out.

    Examples
    --------
    >>> names_of({"Queue": ["0 interactive", "1 - day"], "user_names": ["ada"], "Partition": "1"})
    {'user': {1: 'ada'}, 'queue': {0: 'interactive', 1: 'day'}}
    """
    found = {column: _names_of_column(column, header) for column in CODED}
    return {column: names for column, names in found.items() if names}


def _names_of_column(column: str, header: Header) -> dict[int, str]:
    listed = header.get(f"{column}_names")
    if isinstance(listed, list):
        return {code: name for code, name in enumerate(listed, 1) if name}
    lines = header.get(_KEYS[column], [])
    matches = (_LINE.fullmatch(line.strip()) for line in ([lines] if isinstance(lines, str) else lines))
    return {int(match[1]): match[2] for match in matches if match}


def job_names(header: Header) -> list[str] | None:
    """Return the names that a log has for the jobs 1, 2, ...; None where identifiers are numbers."""
    names = header.get(JOB_NAMES)
    return names if isinstance(names, list) else None


def listed_names(header: Header) -> Names:
    """Return the names that readers of text columns have put into lists of the header."""
    lists = {f"{column}_names" for column in CODED}
    return names_of({key: value for key, value in header.items() if key in lists})


def directives_of(names: Mapping[str, Mapping[int, str]]) -> Header:
    """Return names as lines of a header, without those that cannot be written in a line.

    Examples
    --------
    >>> directives_of({"queue": {0: "day", 1: "night"}})
    {'Queue': ['0 day', '1 night']}
    """
    header: Header = {}
    for column, of_codes in names.items():
        key = _KEYS[column]
        lines = [f"{code} {name}" for code, name in of_codes.items() if _can_be_written(key, code, name)]
        if lines:
            header[key] = lines
    return header


def _can_be_written(key: str, code: int, name: str) -> bool:
    """Whether a line says a code and its name so that they read back equal."""
    line = f"{code} {name}"
    match = _LINE.fullmatch(line)
    return match is not None and match[2] == name == name.strip() and is_directive(key, line)


@dataclass(frozen=True, slots=True)
class OwnColumns:
    """Further columns of jobs, row by row."""

    of: dict[str, NDArray[Any]]
    """Name -> values: int64 where every job has a whole number; float64 for other numbers, NaN where there is
    none; else objects, texts or None.
    """

    def select(self, rows: NDArray[Any] | slice) -> OwnColumns:
        """Return the jobs that a mask, an index array or a slice names."""
        return OwnColumns({name: np.ascontiguousarray(values[rows]) for name, values in self.of.items()})


def joined_own(parts: Sequence[OwnColumns | None]) -> OwnColumns | None:
    """Join the columns of blocks of jobs of one log end to end."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    return OwnColumns({name: np.concatenate([part.of[name] for part in known]) for name in known[0].of})
