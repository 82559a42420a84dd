"""Kinds of values about calendar time and weeks of a log, and about users."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from numbers import Integral
from typing import Annotated, Any

from mlsim.scenario.values.field_types import FieldType
from mlsim.scenario.values.hints import shown

__all__ = ["Moment", "Users", "WeekRange", "Weeks"]

_WEEKS = re.compile(r"\s*(\d{1,6})\s*(?:-\s*(\d{1,6})\s*)?")
WeekRange = tuple[int, int]


@dataclass(frozen=True)
class MomentKind(FieldType[str]):
    """A date, or a date with a time of day; held as text in ISO 8601."""

    @property
    def allowed(self) -> str:
        """What is accepted, in words."""
        return "a date, or a date and a time, such as 2002-08-01 or 2002-08-01T12:30"

    def parse(self, value: object) -> str:
        """Read a text, or what YAML makes of one that is not quoted."""
        if isinstance(value, datetime.date):  # a datetime is one too
            return value.isoformat()
        if not isinstance(value, str):
            raise ValueError(f"{shown(value)} is not a date; allowed: {self.allowed}")
        try:
            moment = datetime.datetime.fromisoformat(value.strip())
        except ValueError as error:
            raise ValueError(f"{shown(value)} is not a date; allowed: {self.allowed}") from error
        return value.strip() if len(value.strip()) == 10 else moment.isoformat()

    def json(self) -> dict[str, Any]:
        """Return the JSON schema of what is accepted."""
        return {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}([T ].*)?$"}


@dataclass(frozen=True)
class WeeksKind(FieldType[WeekRange]):
    """One week, or several that follow each other."""

    @property
    def allowed(self) -> str:
        """What is accepted, in words."""
        return "a week such as 3, or weeks such as 1-4, counted from 1 (from 0 with workload.weeks)"

    def parse(self, value: object) -> WeekRange:
        """Read a number, or a text of one or two."""
        if isinstance(value, tuple) and len(value) == 2:
            value = f"{value[0]}-{value[1]}"
        if isinstance(value, Integral) and not isinstance(value, bool):
            value = str(value)
        found = _WEEKS.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            raise ValueError(f"{shown(value)} names no weeks; allowed: {self.allowed}")
        first, last = int(found[1]), int(found[2] or found[1])
        if first > last:
            raise ValueError(f"{shown(value)} names no weeks; allowed: {self.allowed}")
        return first, last

    def show(self, value: WeekRange) -> object:
        """Return the number, or the text of two."""
        return value[0] if value[0] == value[1] else f"{value[0]}-{value[1]}"

    def json(self) -> dict[str, Any]:
        """Return the JSON schema of what is accepted."""
        text = {"type": "string", "pattern": r"^\s*[0-9]+\s*(-\s*[0-9]+\s*)?$"}
        return {"anyOf": [{"type": "integer", "minimum": 0}, text]}


User = int | str


@dataclass(frozen=True)
class UsersKind(FieldType[tuple[User, ...]]):
    """One user, or a list of users: numbers of the log, or names where the log has names."""

    @property
    def allowed(self) -> str:
        """What is accepted, in words."""
        return "a user's number or name, or a list of them"

    def parse(self, value: object) -> tuple[User, ...]:
        """Read one, or a list."""
        items = list(value) if isinstance(value, list | tuple) else [value]
        if not items:
            raise ValueError(f"an empty list names no user; allowed: {self.allowed}")
        return tuple(map(self._user, items))

    def _user(self, value: object) -> User:
        if isinstance(value, Integral) and not isinstance(value, bool):
            return int(value)
        if isinstance(value, str) and value.strip():
            return value
        raise ValueError(f"{shown(value)} is not a user; allowed: {self.allowed}")

    def show(self, value: tuple[User, ...]) -> object:
        """Return the one, or the list."""
        return value[0] if len(value) == 1 else list(value)

    def json(self) -> dict[str, Any]:
        """Return the JSON schema of what is accepted."""
        user = {"type": ["integer", "string"]}
        return {"anyOf": [user, {"type": "array", "items": user, "minItems": 1}]}


Moment = Annotated[str, MomentKind()]
Weeks = Annotated[WeekRange, WeeksKind()]
Users = Annotated[tuple[User, ...], UsersKind()]
