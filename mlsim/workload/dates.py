"""Calendar dates in log time, by the log's header."""

from __future__ import annotations

import datetime
import zoneinfo
from pathlib import Path

import numpy as np

from mlsim.errors import InputError
from mlsim.scenario import DatesConfig
from mlsim.workload.header import Header

__all__ = ["dates_in_log_time", "start_and_zone"]


def dates_in_log_time(dates: DatesConfig, header: Header, path: Path) -> tuple[float, float]:
    """Convert dates to log time [s].

    Parameters
    ----------
    dates
        Dates, with or without a time of day; one without a zone is on the clocks of the log's time zone.
    header
        Of the log: ``UnixStartTime`` is time 0 as seconds since 1970 (UTC); the zone is
        ``TimeZoneString`` (a name of the time zone database), else ``TimeZone`` (s east of UTC), else UTC.
    path
        The log, for messages.

    Returns
    -------
    start, end
        Infinite where there is no bound.

    Raises
    ------
    InputError
        The header does not tell its start, or its time zone is not known.
    """
    zero, zone = start_and_zone(header, path)
    if zero is None:
        raise InputError(
            f"{path}: the header has no UnixStartTime, so that calendar dates mean nothing\n"
            "  select by workload.select.window or weeks instead"
        )
    start, end = (None if text is None else _unix(text, zone) - zero for text in (dates.start, dates.end))
    return -np.inf if start is None else start, np.inf if end is None else end


def start_and_zone(header: Header, path: Path) -> tuple[float | None, datetime.tzinfo]:
    """Return time 0 of a log in seconds since 1970 (UTC), None if its header does not tell, and its zone.

    Raises
    ------
    InputError
        One of them makes no sense.
    """
    return _number(header, "UnixStartTime", path), _zone(header, path)


def _unix(text: str, zone: datetime.tzinfo) -> float:
    moment = datetime.datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp()


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
