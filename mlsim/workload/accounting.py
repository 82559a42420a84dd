"""Accounting files of batch systems: records of text become columns of jobs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from mlsim._files import decode
from mlsim.errors import InputError
from mlsim.workload.compression import read_whole
from mlsim.workload.format_record import Reading, WholeLog

_CLOCK = re.compile(r"(?:(?:(\d{1,9}):)?(\d{1,9}):)?(\d{1,9})(?:\.\d+)?")

Record = Mapping[str, str]


def record_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file that are not blank, with their numbers."""
    text = decode(read_whole(path, lines=True), path, "workload")
    return ((number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip())


def read_records(
    path: Path,
    records: Iterator[tuple[int, Record]],
    job: Callable[[Record], dict[str, str]],
    options: Reading,
    counts: Callable[[], Mapping[str, int]] = dict,
) -> WholeLog:
    """Make a log of numbered records.

    ``job`` turns a record into cells of CSV columns; its ValueError says what is wrong, its KeyError what is
    missing. ``counts`` is called after the last record.
    """
    from mlsim.workload.log_table import log_of_accounting

    rows: list[dict[str, str]] = []
    broken = 0
    for number, record in records:
        try:
            rows.append(job(record))
        except (ValueError, KeyError) as error:
            found = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
            if not options.lenient:
                raise InputError(
                    f"{path}: line {number}: {found}\n"
                    "  to skip and count such lines, set workload.lenient: true"
                ) from error
            broken += 1
    if not rows:
        raise InputError(f"{path}: holds no job that ended")
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return log_of_accounting(path, columns, {}, options, broken=broken, counts=counts())


def whole_number(text: str, what: str) -> int:
    """Return a whole number of at most 15 digits."""
    if not text.isascii() or not text.isdecimal() or len(text) > 15:
        raise ValueError(f"{what} is {text!r:.60}; expected a whole number")
    return int(text)


def clock_seconds(text: str, what: str) -> str:
    """Return the seconds of ``hours:minutes:seconds`` or of a number; nothing for nothing."""
    if not text:
        return ""
    found = _CLOCK.fullmatch(text)
    if found is None:
        raise ValueError(f"{what} is {text!r:.60}; expected a time such as 04:00:00")
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return str(3600 * hours + 60 * minutes + seconds)
