"""Columns of logs, the header, the names that it has for codes, and calendar dates and times."""

import datetime
import re
import zoneinfo
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import IntEnum
from pathlib import Path
from typing import Final, TypeGuard

import numpy as np

from mlsim._runtime.arrays import Floats, NDArray
from mlsim.errors import InputError
from mlsim.scenario.workload_section import DatesConfig


class Field(IntEnum):
    """A column of SWF v2.2 (Chapin et al. 1999) by its place from 0; s, KB per processor; -1: not known."""

    JOB_ID = 0
    SUBMIT_TIME = 1
    WAIT_TIME = 2
    RUN_TIME = 3
    ALLOCATED_PROCESSORS = 4
    AVERAGE_CPU_TIME = 5
    USED_MEMORY = 6
    REQUESTED_PROCESSORS = 7
    REQUESTED_TIME = 8
    REQUESTED_MEMORY = 9
    STATUS = 10
    USER = 11
    GROUP = 12
    EXECUTABLE = 13
    QUEUE = 14
    PARTITION = 15
    PRECEDING_JOB = 16
    THINK_TIME = 17

    @property
    def label(self) -> str:
        """Its name in messages and CSV columns."""
        return self.name.lower()

    @property
    def is_whole(self) -> bool:
        """Whether only whole numbers make sense: identifiers, counts and codes."""
        return self not in _MEASURES

    @property
    def expected(self) -> str:
        """Values that can stand in this column, for messages."""
        if self is Field.JOB_ID:
            return "a whole number from 0 up, below 2^63"
        if self in (Field.SUBMIT_TIME, Field.RUN_TIME):
            return "seconds from 0 up, or -1 for unknown, below 2^53"
        if self is Field.REQUESTED_TIME:
            return "a finite decimal number of seconds below 2^53, or -1 for unknown"
        return "a whole number" if self.is_whole else "a finite decimal number"

    def allows(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which of the values the column allows."""
        fits = np.isfinite(values)
        if self.is_whole:
            most = _LARGEST_ID if self in IDENTIFIERS else LARGEST_WHOLE
            fits &= (np.floor(values) == values) & (np.abs(values) <= most)
        if self is Field.JOB_ID:
            fits &= values >= 0
        if self in (Field.SUBMIT_TIME, Field.RUN_TIME):
            fits &= (values >= 0) | (values == -1)
        if self in SCHEDULED:
            fits &= values < LARGEST_WHOLE
        return fits


class ExtraField(IntEnum):
    """A column that SWF logs do not have; its place follows those of :class:`Field`, -1 is "not known"."""

    LOOP_ITERATIONS = 18  # Iterations of the loop that the job executes
    LOOP_LIMIT = 19  # Most steps of a pixel, where the iterations are those of a Mandelbrot image
    QOS = 20  # Class (quality) of service, a code
    NODE_COUNT = 21  # Nodes that the job asks for
    WITHDRAW_TIME = 22  # Time at which a job that never ran left the queue [s, log time]
    RECORDED_START = 23  # Time at which it started [s, log time]; SWF has the wait instead

    @property
    def expected(self) -> str:
        """Values that can stand in this column, for messages."""
        if self in (ExtraField.WITHDRAW_TIME, ExtraField.RECORDED_START):
            return Field.SUBMIT_TIME.expected
        return "a whole number" if self is ExtraField.QOS else "a whole number from 1 up, or -1 for unknown"

    def allows(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which of the values the column allows."""
        if self in (ExtraField.WITHDRAW_TIME, ExtraField.RECORDED_START):
            return Field.SUBMIT_TIME.allows(values)
        fits: NDArray[np.bool_] = (np.floor(values) == values) & (np.abs(values) <= LARGEST_WHOLE)
        return fits if self is ExtraField.QOS else fits & ((values >= 1) | (values == -1))


N_COLUMNS = len(Field) + len(ExtraField)  # Columns of a log, those of SWF first

CODED = ("user", "group", "executable", "queue", "partition", "qos")  # Columns of codes, which may have names

_MEASURES = frozenset(
    (
        *(Field.SUBMIT_TIME, Field.WAIT_TIME, Field.RUN_TIME, Field.REQUESTED_TIME, Field.THINK_TIME),
        *(Field.AVERAGE_CPU_TIME, Field.USED_MEMORY, Field.REQUESTED_MEMORY),
    )
)

# Columns of identifiers of jobs, which are exact as int64 where float64 would round them.
IDENTIFIERS = (Field.JOB_ID, Field.PRECEDING_JOB)
_LARGEST_ID = 2.0**63  # itself too large, but what the largest one becomes as float64

# Times that a simulation adds up: from 2^53 s on (285 million years) not even whole seconds differ.
SCHEDULED = (Field.SUBMIT_TIME, Field.RUN_TIME, Field.REQUESTED_TIME)

LARGEST_WHOLE = 2.0**53  # up to here every whole number is a float64 of its own


HeaderValue = str | list[str]
Header = dict[str, HeaderValue]

# "http://..." on a line of its own is the rest of the line above, not a key.
_DIRECTIVE = re.compile(r"\s*([A-Za-z][A-Za-z0-9_]*)\s*:(?!//)\s*(.*?)\s*")


def add_directive(header: Header, comment: str) -> None:
    """Add the directive of one comment line, if it is one; values of a repeated key become a list."""
    found = _DIRECTIVE.fullmatch(comment)
    if found is None:
        return
    key, value = found.groups()
    before = header.get(key)
    if isinstance(before, list):
        before.append(value)
    else:
        header[key] = value if before is None else [before, value]


def header_lines(header: Mapping[str, str | Sequence[str]]) -> Iterator[str]:
    """Yield the comment lines that :func:`add_directive` reads back as `header`; else a ValueError."""
    for key, values in header.items():
        if not is_directive(key, values):
            raise ValueError(f"{key!r}: {values!r} cannot be an SWF directive (one word, one line of text)")
        for value in [values] if isinstance(values, str) else values:
            yield f"; {key}: {value}".rstrip()


def is_directive(key: str, values: str | Sequence[str]) -> bool:
    """Whether a key and its values can be written in comment lines."""
    for value in [values] if isinstance(values, str) else values:
        found = _DIRECTIVE.fullmatch(f" {key}: {value}".rstrip())
        if found is None or found.groups() != (key, value):
            return False
    return True


def machine_processors(header: Header, keys: Sequence[str] = ("MaxProcs", "MaxNodes")) -> int | None:
    """Return the processors of the machine, by the first of these keys that has a number above 0."""
    for key in keys:
        value = header.get(key) or []
        words = [value] if isinstance(value, str) else value
        numbers = (int(word) for word in words if word.isascii() and word.strip().isdecimal())
        if (found := max(numbers, default=0)) > 0:
            return found
    return None


def is_header(value: object) -> TypeGuard[Header]:
    """Whether a value has the form of a header."""
    return isinstance(value, dict) and all(
        isinstance(item, str) or (isinstance(item, list) and all(isinstance(word, str) for word in item))
        for item in value.values()
    )


JOB_NAMES = "job_names"  # key of the header for the names of jobs whose identifiers are no numbers

Names = dict[str, dict[int, str]]  # Column of codes -> code -> name

_KEYS = {column: "QOS" if column == "qos" else column.capitalize() for column in CODED}
_LINE = re.compile(r"(\d{1,15})(?:\s*[:=-]\s*|\s+)(\S.*)")


def names_of(header: Header) -> Names:
    """Return the names that the header of a log has for codes; columns without names are left out.

    Examples
    --------
    >>> names_of({"Queue": ["0 interactive", "1 - day"], "user_names": ["ada"], "Partition": "1"})
    {'user': {1: 'ada'}, 'queue': {0: 'interactive', 1: 'day'}}
    """
    found: Names = {}
    for column, key in _KEYS.items():
        listed, lines = header.get(f"{column}_names"), header.get(key, [])
        if isinstance(listed, list):
            found[column] = {code: name for code, name in enumerate(listed, 1) if name}
        else:
            lines = [lines] if isinstance(lines, str) else lines
            matches = (_LINE.fullmatch(line.strip()) for line in lines)
            found[column] = {int(match[1]): match[2] for match in matches if match}
    return {column: names for column, names in found.items() if names}


def job_names(header: Header) -> list[str] | None:
    """Return the names that a log has for the jobs 1, 2, ...; None where identifiers are numbers."""
    names = header.get(JOB_NAMES)
    return names if isinstance(names, list) else None


def listed_names(header: Header) -> Names:
    """Return the names that readers of text columns keep in lists of the header."""
    lists = {f"{column}_names" for column in CODED}
    return names_of({key: value for key, value in header.items() if key in lists})


def directives_of(names: Mapping[str, Mapping[int, str]]) -> Header:
    """Return names as lines of a header (``Queue: 0 day``), without those that no line can hold."""
    header: Header = {}
    for column, of_codes in names.items():
        key = _KEYS[column]
        matches = ((_LINE.fullmatch(f"{code} {name}"), name) for code, name in of_codes.items())
        read_back = [match[0] for match, name in matches if match and match[2] == name == name.strip()]
        if lines := [line for line in read_back if is_directive(key, line)]:
            header[key] = lines
    return header


def number_words(column: NDArray[np.float64] | NDArray[np.int64]) -> list[str]:
    """Return the shortest decimal texts that read back as the same numbers."""
    if column.dtype == np.float64 and np.all(
        (column == np.floor(column)) & (np.abs(column) <= LARGEST_WHOLE)
    ):
        column = column.astype(np.int64)
    if column.dtype == np.int64:
        return [str(value) for value in column.tolist()]
    return [str(int(v)) if v.is_integer() and abs(v) <= LARGEST_WHOLE else repr(v) for v in column.tolist()]


HOUR: Final = 3600.0
DAY: Final = 86400.0
_QUARTER = 900.0  # Seconds between which no clock is changed


def dates_in_log_time(dates: DatesConfig, header: Header, path: Path) -> tuple[float, float]:
    """Convert dates, without a zone on the log's clocks, to log time [s]; infinite: no bound."""
    zero, zone = start_and_zone(header, path)
    if zero is None:
        raise InputError(
            f"{path}: the header has no UnixStartTime, so that calendar dates mean nothing\n"
            "  select by workload.select.window or weeks instead"
        )
    start, end = (None if text is None else unix_time(text, zone) - zero for text in (dates.start, dates.end))
    return -np.inf if start is None else start, np.inf if end is None else end


def start_and_zone(header: Header, path: Path) -> tuple[float | None, datetime.tzinfo]:
    """Return time 0 of a log in seconds since 1970 (UTC), None if its header lacks it, and its zone."""
    return _number(header, "UnixStartTime", path), _zone(header, path)


def unix_time(text: str, zone: datetime.tzinfo = datetime.UTC) -> float:
    """Return seconds since 1970 of an ISO date, on the clocks of ``zone`` unless it names its own."""
    moment = datetime.datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp()


_CLOCK = re.compile(r"(?:(?:(?:(\d{1,9})-)?(\d{1,9}):)?(\d{1,9}):)?(\d{1,9})(?:\.\d+)?")


def clock_seconds(text: str) -> int | None:
    """Return the seconds of ``[[[days-]hours:]minutes:]seconds``, rounded down; None for other texts."""
    found = _CLOCK.fullmatch(text)
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return ((24 * days + hours) * 60 + minutes) * 60 + seconds


def _zone(header: Header, path: Path) -> datetime.tzinfo:
    name = header.get("TimeZoneString")
    if isinstance(name, str) and name:
        try:
            return zoneinfo.ZoneInfo(name)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError) as error:
            raise InputError(
                f"{path}: the time zone {name!r} of the header is not in this system's time zone database\n"
                "  install tzdata, or give dates with their distance from UTC: 2002-08-01T00:00+02:00"
            ) from error
    east = _number(header, "TimeZone", path)
    return datetime.timezone(datetime.timedelta(seconds=east or 0))


def _number(header: Header, key: str, path: Path) -> float | None:
    value = header.get(key)
    if value is None:
        return None
    try:
        return float(value) if isinstance(value, str) else float(value[0])
    except ValueError as error:
        raise InputError(f"{path}: {key} of the header is {value!r}, which is no number") from error


def local_times(times: Floats, header: Header, path: Path) -> Floats:
    """Convert times of a log [s] to seconds since 1970, or since an unknown start, on its clocks."""
    zero = _number(header, "UnixStartTime", path)
    if zero is None:
        return times
    zone = _zone(header, path)
    unix = times + zero
    quarters, of = np.unique(unix // _QUARTER, return_inverse=True)
    moments = (datetime.datetime.fromtimestamp(quarter * _QUARTER, zone) for quarter in quarters.tolist())
    east = [(moment.utcoffset() or datetime.timedelta()).total_seconds() for moment in moments]
    found: Floats = unix + np.array(east)[of]
    return found


SURE_DIGITS = 15  # Decimal numbers of up to this many digits are all different as float64
_FINEST = Decimal("1e-9")


def check_distinct(place: str, texts: Sequence[str], values: Floats, job: Callable[[int], object]) -> None:
    """Check that submit times which are written differently (an empty text: as float64) stay different."""
    order = np.argsort(values, kind="stable")
    for row in np.flatnonzero(np.diff(values[order]) == 0).tolist():
        one, other = sorted(order[row : row + 2].tolist())
        if texts[one] == texts[other]:
            continue
        if abs(_exact(texts[one], values[one]) - _exact(texts[other], values[other])) >= _FINEST:
            shown = [texts[each][:60] or repr(float(values[each])) for each in (one, other)]
            raise InputError(
                f"{place}: jobs {job(one)} and {job(other)}: submit_time {' and '.join(shown)} "
                f"cannot be told apart: so far from 0 both become {float(values[one])!r}\n"
                "  subtract the first submit time from all, or round them"
            )


def _exact(text: str, value: float) -> Decimal:
    try:
        return Decimal(text or repr(float(value)))
    except InvalidOperation:
        return Decimal(float(value))  # no number; that is for the column's own check


def exact_id(text: str | bytes) -> int | None:
    """Return the identifier in a text, exactly; None unless it is a whole number from 0 below 2^63."""
    number = text.removeprefix("+") if isinstance(text, str) else text.removeprefix(b"+")
    if number.isdigit() and number.isascii():
        return int(number) if int(number) < 2**63 else None
    try:
        value = float(number)
    except ValueError:
        return None
    return int(value) if 0 <= value < 2.0**63 and value.is_integer() else None


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates that convert operations and bytes to seconds."""

    speed: float | None = None  # FLOP/s of a processor of the log
    bandwidth: float | None = None  # bit/s of the link of a processor
    files: float | None = None  # bit/s at which tasks move their files; None: run times contain that
