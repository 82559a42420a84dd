"""Dates of a run whose log has them."""

from __future__ import annotations

import datetime
import zoneinfo
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

_LATEST = 2.5e11  # s since 1970; Python's dates end with the year 9999
_DAY, _FINEST = 86400.0, 60.0  # s; clocks are changed at whole minutes


@dataclass(frozen=True)
class Calendar:
    """The date of a run's time 0, and the time zone of its log."""

    zero: float  # s since 1970 (UTC)
    zone: datetime.tzinfo | None  # None: unknown; the dates are those of the log as if they were UTC

    @property
    def clock(self) -> datetime.tzinfo:
        """The zone in which dates are written."""
        return datetime.UTC if self.zone is None else self.zone

    @property
    def title(self) -> str:
        """Name of a time axis with these dates."""
        return "date" if self.zone is None else f"date ({self.zone})"

    def reaches(self, time: float) -> bool:
        """Whether a time of the run [s] still has a date."""
        return self.zero + time < _LATEST

    def at(self, time: float) -> datetime.datetime:
        """Return the date of a time of the run [s]."""
        return datetime.datetime.fromtimestamp(self.zero + time, self.clock)

    def shifts(self, begin: float, end: float) -> list[tuple[float, float]]:
        """Return the times [s] within a span from which on the clock is ahead of UTC by so much [s]."""
        found, time = [(begin, self._east(begin))], begin
        while time < end:
            later = min(time + _DAY, end)
            if self._east(later) != found[-1][1]:
                low, high = time, later
                while high - low > _FINEST:
                    middle = (low + high) / 2.0
                    low, high = (middle, high) if self._east(middle) == found[-1][1] else (low, middle)
                change = -(-(self.zero + low) // _FINEST) * _FINEST - self.zero
                found.append((change, self._east(later)))
            time = later
        return found

    def _east(self, time: float) -> float:
        return (self.at(time).utcoffset() or datetime.timedelta()).total_seconds()

    def to_summary(self) -> dict[str, Any]:
        """Return what a summary holds: the date of time 0, and the zone if it is known."""
        if self.zone is None:
            return {"start": self.at(0.0).replace(tzinfo=None).isoformat()}
        return {"start": self.at(0.0).isoformat(), "time_zone": str(self.zone)}

    @staticmethod
    def from_summary(values: Mapping[str, Any]) -> Calendar | None:
        """Return the calendar of a summary, None if it has none; raise ValueError for what is no date."""
        if values.get("start") is None:
            return None
        start = datetime.datetime.fromisoformat(str(values["start"]))
        if start.tzinfo is None:
            return Calendar(start.replace(tzinfo=datetime.UTC).timestamp(), None)
        zone: datetime.tzinfo = start.tzinfo
        with suppress(zoneinfo.ZoneInfoNotFoundError, ValueError):  # of a system without this zone
            zone = zoneinfo.ZoneInfo(str(values.get("time_zone")))
        return Calendar(start.timestamp(), zone)
