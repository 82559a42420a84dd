"""Names behind the codes of users, groups, executables, queues, partitions and classes of service.

A log says them in its header in one of two ways: as a list ``<column>_names`` of the names of 1, 2, ...,
which readers of columns of names make; or in lines ``; Queue: 3 night``, code first, as the Standard Workload
Format has them for queues and partitions. Here the other columns may have such lines too (``User``,
``Group``, ``Executable``, ``QOS``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from mlsim.workload.fields import CODED
from mlsim.workload.header import Header, is_directive

__all__ = ["JOB_NAMES", "Names", "directives_of", "job_names", "listed_names", "names_of"]

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
