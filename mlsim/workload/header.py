"""The header of an SWF log: comment lines of the form `; Key: value`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from mlsim._files import json_of
from mlsim.errors import InputError

__all__ = [
    "Header",
    "HeaderValue",
    "add_directive",
    "header_lines",
    "header_of_json",
    "is_directive",
    "is_header",
]

HeaderValue = str | list[str]
Header = dict[str, HeaderValue]

# "http://..." on a line of its own is the rest of the line above, not a key.
_DIRECTIVE = re.compile(r"\s*([A-Za-z][A-Za-z0-9_]*)\s*:(?!//)\s*(.*?)\s*")


def add_directive(header: Header, comment: str) -> None:
    """Add the directive of one comment line; lines of free text are ignored.

    A key that comes again makes its value a list, in the order of the lines.

    Parameters
    ----------
    header
        Extended in place.
    comment
        The line without its semicolon.

    Examples
    --------
    >>> header = {}
    >>> for line in (" MaxProcs: 240", " Queue: 1 day", " Queue: 2 night", " see there"):
    ...     add_directive(header, line)
    >>> header
    {'MaxProcs': '240', 'Queue': ['1 day', '2 night']}
    """
    found = _DIRECTIVE.fullmatch(comment)
    if found is None:
        return
    key, value = found.groups()
    before = header.get(key)
    if before is None:
        header[key] = value
    elif isinstance(before, list):
        before.append(value)
    else:
        header[key] = [before, value]


def header_lines(header: Mapping[str, str | Sequence[str]]) -> Iterator[str]:
    """Yield the comment lines that :func:`add_directive` reads back as `header`.

    Raises
    ------
    ValueError
        A key or a value cannot be written in a comment line.
    """
    for key, values in header.items():
        if not is_directive(key, values):
            raise ValueError(f"{key!r}: {values!r} cannot be an SWF directive (one word, one line of text)")
        for value in [values] if isinstance(values, str) else values:
            yield f";{_line(key, value)}"


def is_directive(key: str, values: str | Sequence[str]) -> bool:
    """Whether a key and its values can be written in comment lines."""
    for value in [values] if isinstance(values, str) else values:
        found = _DIRECTIVE.fullmatch(_line(key, value))
        if found is None or found.groups() != (key, value):
            return False
    return True


def _line(key: str, value: str) -> str:
    return f" {key}: {value}".rstrip()


def header_of_json(text: str) -> Header | None:
    """Read a header written as JSON; None if it is no object of texts and lists of texts."""
    try:
        header = json_of(text, "header")
    except InputError:
        return None
    return header if is_header(header) else None


def is_header(value: object) -> bool:
    """Whether a value has the form of a header."""
    return isinstance(value, dict) and all(
        isinstance(item, str) or (isinstance(item, list) and all(isinstance(word, str) for word in item))
        for item in value.values()
    )
