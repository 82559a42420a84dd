"""Values with units, dates, lists, ranges and mappings."""

from __future__ import annotations

import datetime
import math
import re
from abc import abstractmethod
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from mlsim.scenario.field_types import FieldType, Number, Whole, literal
from mlsim.scenario.unit_types import (
    BANDWIDTH,
    FLOP,
    POWER,
    RATE,
    SIZE,
    TIME,
    Dimension,
    format_value,
    nearest,
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
        """Accepted values, in words."""
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
    """Amount."""
    unit: Literal["s", "FLOP"]
    """Of what: ``"s"`` or ``"FLOP"``."""


@dataclass(frozen=True)
class WorkAmount(FieldType[Quantity]):
    """A time at the reference speed, or a number of operations."""

    positive: bool = False

    @property
    def allowed(self) -> str:
        """Accepted values, in words."""
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

    allowed = "a date, or a date and a time, such as 2002-08-01 or 2002-08-01T12:30"

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

    allowed = "a week such as 3, or weeks such as 1-4, counted from 1 (from 0 with workload.weeks)"

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

    allowed = "a user's number or name, or a list of them"

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


_INTERVALS = re.compile(r"\d{1,18}(-\d{1,18})?([ ,]+\d{1,18}(-\d{1,18})?)*")


@dataclass(frozen=True)
class Extents(FieldType[tuple[int, ...]]):
    """Lengths of a grid, one a dimension: ``4x4x2``, or a list of whole numbers."""

    most: int

    @property
    def allowed(self) -> str:
        """Accepted values, in words."""
        return f"lengths such as 4x4x2, each 1 or more, together at most {self.most}"

    def parse(self, value: object) -> tuple[int, ...]:
        """Read a text or a list."""
        parts: list[Any]
        if isinstance(value, str) and re.fullmatch(r"\s*\d{1,18}(\s*x\s*\d{1,18})*\s*", value):
            parts = [int(part) for part in value.split("x")]
        elif isinstance(value, list | tuple) and value:
            parts = list(value)
        elif isinstance(value, Integral) and not isinstance(value, bool):
            parts = [value]
        else:
            raise ValueError(f"{shown(value)} are no lengths of dimensions; allowed: {self.allowed}")
        lengths = tuple(map(Whole(1).parse, parts))
        if math.prod(lengths) > self.most:
            raise ValueError(f"{self.show(lengths)} is too large; allowed: {self.allowed}")
        return lengths

    def show(self, value: tuple[int, ...]) -> str:
        """Return the text."""
        return "x".join(map(str, value))

    def json(self) -> dict[str, Any]:
        """Return the JSON schema of what is accepted."""
        whole = Whole(1).json()
        text = {"type": "string", "pattern": r"^\s*\d{1,18}(\s*x\s*\d{1,18})*\s*$"}
        return {"anyOf": [text, whole, {"type": "array", "items": whole, "minItems": 1}]}


@dataclass(frozen=True)
class FactorRange(FieldType[tuple[float, float]]):
    """A factor above 0, or the two ends of a range of them."""

    allowed = "a number, more than 0, or a range [low, high] of them"

    def parse(self, value: object) -> tuple[float, float]:
        """Read a number as a range of one, or a list of two."""
        if not isinstance(value, list | tuple):
            factor = self._factor(value)
            return factor, factor
        if len(value) != 2:
            raise ValueError(f"a list of {len(value)} is no range; allowed: {self.allowed}")
        low, high = map(self._factor, value)
        if low > high:
            raise ValueError(f"[{low:g}, {high:g}] begins above its end; allowed: {self.allowed}")
        return low, high

    def _factor(self, value: object) -> float:
        try:
            return Number(0, low_belongs=False).parse(value)
        except ValueError as error:
            found = str(error).split(";")[0]
            raise ValueError(f"{found}; allowed: {self.allowed}") from error

    def show(self, value: tuple[float, float]) -> object:
        """Return the number, or the two ends as a list."""
        return value[0] if value[0] == value[1] else list(value)

    def json(self) -> dict[str, Any]:
        """Return the JSON schema of what is accepted."""
        number = Number(0, low_belongs=False).json()
        return {"anyOf": [number, {"type": "array", "items": number, "minItems": 2, "maxItems": 2}]}


@dataclass(frozen=True)
class TimeSpan(FieldType[tuple[float, float]]):
    """A span of time: when it begins and when it ends, in s."""

    allowed = "a list [begin, end] of two times, of which the first comes before the second"

    def parse(self, value: object) -> tuple[float, float]:
        """Read a list of two times."""
        if not isinstance(value, list | tuple) or len(value) != 2:
            raise ValueError(f"{shown(value)} is no span of time; allowed: {self.allowed}")
        begin, end = map(Amount(TIME).parse, value)
        if begin >= end:
            raise ValueError(f"it ends at {end:g} s, and begins at {begin:g} s; allowed: {self.allowed}")
        return begin, end

    def show(self, value: tuple[float, float]) -> object:
        """Return both times as a scenario file would write them."""
        return [Amount(TIME).show(time) for time in value]

    def json(self) -> dict[str, Any]:
        """Return the JSON schema of what is accepted."""
        return {"type": "array", "items": Amount(TIME).json(), "minItems": 2, "maxItems": 2}


@dataclass(frozen=True)
class JobList(FieldType[tuple[int, ...]]):
    """Numbers of jobs, each once."""

    allowed = "a list of numbers of jobs, such as [17, 18]"

    def parse(self, value: object) -> tuple[int, ...]:
        """Read a list of whole numbers, or one."""
        numbers = value if isinstance(value, list | tuple) else [value]
        if not numbers:
            raise ValueError(f"{shown(value)} names no job; allowed: {self.allowed}")
        jobs = tuple(map(Whole(0).parse, numbers))
        if len(set(jobs)) < len(jobs):
            twice = next(job for job in jobs if jobs.count(job) > 1)
            raise ValueError(f"{twice} is there twice; allowed: {self.allowed}")
        return jobs

    def show(self, value: tuple[int, ...]) -> object:
        """Return the numbers as a list."""
        return list(value)

    def json(self) -> dict[str, Any]:
        """Return the JSON schema of what is accepted."""
        whole = Whole(0).json()
        return {"anyOf": [whole, {"type": "array", "items": whole, "minItems": 1, "uniqueItems": True}]}


@dataclass(frozen=True)
class ColumnNames(FieldType[tuple[str, ...]]):
    """Names of columns of a table, each once."""

    allowed = "a list of names of columns, such as [deadline, project]"

    def parse(self, value: object) -> tuple[str, ...]:
        """Read a list of texts, or one."""
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, list | tuple) or not names:
            raise ValueError(f"{shown(value)} names no columns; allowed: {self.allowed}")
        for name in names:
            if not isinstance(name, str) or not name.strip() or not name.isprintable():
                raise ValueError(f"{shown(name)} is no name of a column; allowed: {self.allowed}")
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"{twice!r} is there twice; allowed: {self.allowed}")
        return tuple(names)

    def show(self, value: tuple[str, ...]) -> object:
        """Return the names as a list."""
        return list(value)

    def json(self) -> dict[str, Any]:
        """Return the JSON schema of what is accepted."""
        text = {"type": "string", "minLength": 1}
        return {"anyOf": [text, {"type": "array", "items": text, "minItems": 1, "uniqueItems": True}]}


@dataclass(frozen=True)
class NodeText(FieldType[str]):
    """Some nodes: numbers and intervals of numbers, or the name of a group."""

    allowed = "numbers of nodes such as 0-3 7, or the name of a group"

    def parse(self, value: object) -> str:
        """Read a text or one number; which nodes there are is checked with the groups."""
        if isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0:
            return str(value)
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise ValueError(f"{shown(value)} names no nodes; allowed: {self.allowed}")
        return value.strip()

    def json(self) -> dict[str, Any]:
        """Return the JSON schema of what is accepted."""
        return {"anyOf": [{"type": "string", "minLength": 1}, {"type": "integer", "minimum": 0}]}


def node_ranges(choice: str | None, groups: list[tuple[str, int]]) -> list[range]:
    """Return the numbers of the nodes that a text names: a group, or numbers such as ``0-3 7``; None: all.

    ``groups``: name and size of each, numbered in this order. The ValueError lists the nodes that exist.

    Examples
    --------
    >>> node_ranges("0-3 7", [("fast", 4), ("slow", 4)])
    [range(0, 4), range(7, 8)]
    >>> node_ranges("slow", [("fast", 4), ("slow", 4)])
    [range(4, 8)]
    """
    nodes = sum(count for _, count in groups)
    if choice is None:
        return [range(nodes)]
    first = 0
    for name, count in groups:
        if name == choice:
            return [range(first, first + count)]
        first += count
    names = [name for name, _ in groups]
    allowed = f"allowed: 0 to {nodes - 1}, or a group: {', '.join(names)}"
    if not _INTERVALS.fullmatch(choice):
        meant = nearest(choice, names)
        raise ValueError(f"{shown(choice)} is neither node numbers nor a group;{meant} {allowed}")
    return [_interval(part, nodes, allowed) for part in re.split("[ ,]+", choice)]


def _interval(text: str, nodes: int, allowed: str) -> range:
    first, _, last = text.partition("-")
    low, high = int(first), int(last or first)
    if low > high:
        raise ValueError(f"{text} begins after its end; write {high}-{low}")
    if high >= nodes:
        raise ValueError(f"there is no node {high}; {allowed}")
    return range(low, high + 1)


Torus = Annotated[tuple[int, ...], Extents(1_000_000)]
Factors = Annotated[tuple[float, float], FactorRange()]
TimeWindow = Annotated[tuple[float, float], TimeSpan()]
JobNumbers = Annotated[tuple[int, ...], JobList()]
NodeChoice = Annotated[str, NodeText()]


Name = TypeVar("Name", bound=Hashable)
Value = TypeVar("Value", covariant=True)


@dataclass(frozen=True)
class Pairs(Mapping[Name, Value]):
    """A mapping that can be hashed."""

    pairs: tuple[tuple[Name, Value], ...] = ()

    def __getitem__(self, name: Name) -> Value:
        return dict(self.pairs)[name]

    def __iter__(self) -> Iterator[Name]:
        return (name for name, _ in self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)


class MappingType(FieldType[Pairs[Any, Any]]):
    """A mapping of names to values."""

    @abstractmethod
    def pair(self, name: object, value: object) -> tuple[Any, Any]:
        """Read a name and its value; raise ValueError with the reason if invalid."""

    def parse(self, value: object) -> Pairs[Any, Any]:
        """Read a mapping."""
        if not isinstance(value, Mapping):
            raise ValueError(f"{shown(value)} is no mapping; allowed: {self.allowed}")
        return Pairs(tuple(self.pair(name, item) for name, item in value.items()))

    def show(self, value: Pairs[Any, Any]) -> object:
        """Return the mapping as a scenario file would write it."""
        return dict(value)


NamedShares = Pairs[str, float]


class NamedSharesKind(MappingType):
    """Numbers from 0 to 1 by name."""

    allowed = "names of resources with shares, 0 to 1, e.g. {gpu: 0.75}"

    def pair(self, name: object, value: object) -> tuple[str, float]:
        """Read a share."""
        number = value if isinstance(value, int | float) and not isinstance(value, bool) else -1
        if not 0 <= number <= 1:
            raise ValueError(f"{shown(name)}: {shown(value)}; allowed: {self.allowed}")
        return str(name), float(number)

    def json(self) -> dict[str, Any]:
        """Return the JSON schema of what is accepted."""
        return {"type": "object", "additionalProperties": {"type": "number", "minimum": 0, "maximum": 1}}
