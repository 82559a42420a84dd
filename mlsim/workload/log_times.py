"""Calendar dates and times of logs, and their exactness."""

import datetime
import re
import zoneinfo
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Final

import numpy as np

from mlsim._runtime.arrays import Floats
from mlsim.errors import InputError
from mlsim.scenario.workload_section import DatesConfig
from mlsim.workload.swf_fields import Header

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

    speed: float  # FLOP/s of a processor of the log
    bandwidth: float  # bit/s of the link of a processor
