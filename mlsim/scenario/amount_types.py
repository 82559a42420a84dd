"""Times, speeds, sizes, amounts, and calendar time."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from numbers import Integral
from typing import Annotated, Any, Literal, NamedTuple

from mlsim.scenario.field_types import FieldType, literal
from mlsim.scenario.unit_types import (
    BANDWIDTH,
    FLOP,
    POWER,
    RATE,
    SIZE,
    TIME,
    Dimension,
    format_value,
    parse_value,
    shown,
)


@dataclass(frozen=True)
class Amount(FieldType[float]):
    """A number with a unit, held in the dimension's base unit."""

    dimension: Dimension
    positive: bool = False

    @property
    def allowed(self) -> str:
        """What is accepted, in words."""
        return f"{self.dimension.noun} ({', '.join(self.dimension.units)}), {self._limit}"

    @property
    def _limit(self) -> str:
        return f"more than 0 {self.dimension.base}" if self.positive else f"0 {self.dimension.base} or more"

    def parse(self, value: object) -> float:
        """Read a number, taken in the base unit, or a text with a unit."""
        number, _ = parse_value(value, self.dimension)
        _check_size(value, number, self.positive, self._limit, self.dimension)
        return number

    def show(self, value: float) -> str:
        """Return the value as a scenario file would write it."""
        return format_value(value, self.dimension)

    def json(self) -> dict[str, Any]:
        """Return the JSON schema of what is accepted."""
        return _amount_schema(self.positive, self.dimension)


class Quantity(NamedTuple):
    """An amount of work: a time at the reference speed, or a number of operations."""

    value: float
    """How much."""
    unit: Literal["s", "FLOP"]
    """Of what: ``"s"`` or ``"FLOP"``."""


@dataclass(frozen=True)
class WorkAmount(FieldType[Quantity]):
    """A time at the reference speed, or a number of operations."""

    positive: bool = False

    @property
    def allowed(self) -> str:
        """What is accepted, in words."""
        units = ", ".join(TIME.units + FLOP.units)
        return f"a time or a number of FLOP ({units}), {self._limit}"

    @property
    def _limit(self) -> str:
        return "more than 0" if self.positive else "0 or more"

    def parse(self, value: object) -> Quantity:
        """Read a number, taken in seconds, a text with a unit, or a quantity."""
        if isinstance(value, Quantity):
            value = f"{value.value!r} {value.unit}"
        number, unit = parse_value(value, TIME, FLOP)
        _check_size(value, number, self.positive, self._limit, TIME if unit == "s" else FLOP)
        return Quantity(number, "s" if unit == "s" else "FLOP")

    def show(self, value: Quantity) -> str:
        """Return the value as a scenario file would write it."""
        return format_value(value.value, TIME if value.unit == "s" else FLOP)

    def json(self) -> dict[str, Any]:
        """Return the JSON schema of what is accepted."""
        return _amount_schema(self.positive, TIME, FLOP)


def _check_size(value: object, number: float, positive: bool, limit: str, dimension: Dimension) -> None:
    if number > dimension.most:
        most = f"at most {dimension.most:.3g} {dimension.base}"
        raise ValueError(f"{shown(value)} is too large; allowed: {most}")
    if number < 0 or (positive and number == 0):
        raise ValueError(f"{shown(value)} is too small; allowed: {limit}")


def _amount_schema(positive: bool, *dimensions: Dimension) -> dict[str, Any]:
    spellings = [literal(word) for dimension in dimensions for word in dimension.spellings]
    pattern = rf"^\s*\+?[0-9.][0-9._]*([eE][+-]?[0-9]+)?\s*({'|'.join(spellings)})?\s*$"
    number = {"type": "number", "exclusiveMinimum" if positive else "minimum": 0}
    example = [dimension.example for dimension in dimensions]
    return {"anyOf": [number, {"type": "string", "pattern": pattern}], "examples": example}


Seconds = Annotated[float, Amount(TIME)]
Duration = Annotated[float, Amount(TIME, positive=True)]
Speed = Annotated[float, Amount(RATE, positive=True)]
Bandwidth = Annotated[float, Amount(BANDWIDTH, positive=True)]
Size = Annotated[float, Amount(SIZE)]
Power = Annotated[float, Amount(POWER)]
Work = Annotated[Quantity, WorkAmount()]
PositiveWork = Annotated[Quantity, WorkAmount(positive=True)]


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
