"""Values that stand for several: lists, ranges, mappings, shares."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Annotated, Any, TypeVar

from mlsim.scenario.amount_types import Amount
from mlsim.scenario.field_types import FieldType, Number, Whole
from mlsim.scenario.unit_types import TIME, nearest, shown

_INTERVALS = re.compile(r"\d{1,18}(-\d{1,18})?([ ,]+\d{1,18}(-\d{1,18})?)*")


@dataclass(frozen=True)
class Extents(FieldType[tuple[int, ...]]):
    """Lengths of a grid, one a dimension: ``4x4x2``, or a list of whole numbers."""

    most: int

    @property
    def allowed(self) -> str:
        """What is accepted, in words."""
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

    @property
    def allowed(self) -> str:
        """What is accepted, in words."""
        return "a number, more than 0, or a range [low, high] of them"

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

    @property
    def allowed(self) -> str:
        """What is accepted, in words."""
        return "a list [begin, end] of two times, of which the first comes before the second"

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

    @property
    def allowed(self) -> str:
        """What is accepted, in words."""
        return "a list of numbers of jobs, such as [17, 18]"

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

    @property
    def allowed(self) -> str:
        """What is accepted, in words."""
        return "a list of names of columns, such as [deadline, project]"

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

    @property
    def allowed(self) -> str:
        """What is accepted, in words."""
        return "numbers of nodes such as 0-3 7, or the name of a group"

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
    """Return the numbers of the nodes a text names; None stands for all nodes.

    Parameters
    ----------
    choice
        The name of a group, or numbers and intervals: ``0-3 7``.
    groups
        Name and number of nodes of every group; nodes are numbered in this order, from 0.

    Raises
    ------
    ValueError
        If there are no such nodes; the text says which there are.

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


def as_mapping(value: object, allowed: str) -> Mapping[Any, Any]:
    """Return a value that is a mapping.

    Raises
    ------
    ValueError
        If it is none; the message ends with what is allowed.
    """
    if not isinstance(value, Mapping):
        raise ValueError(f"{shown(value)} is no mapping; allowed: {allowed}")
    return value


class NamedShares(Pairs[str, float]):
    """Shares by name; a mapping that can be hashed."""


@dataclass(frozen=True)
class NamedSharesKind(FieldType[NamedShares]):
    """Numbers from 0 to 1 by name."""

    @property
    def allowed(self) -> str:
        """What is accepted, in words."""
        return "names of resources with shares, 0 to 1, e.g. {gpu: 0.75}"

    def parse(self, value: object) -> NamedShares:
        """Read a mapping."""
        given = as_mapping(value, self.allowed)
        pairs = []
        for name, share in given.items():
            number = share if isinstance(share, int | float) and not isinstance(share, bool) else -1
            if not 0 <= number <= 1:
                raise ValueError(f"{shown(name)}: {shown(share)}; allowed: {self.allowed}")
            pairs.append((str(name), float(number)))
        return NamedShares(tuple(pairs))

    def show(self, value: NamedShares) -> object:
        """Return the mapping."""
        return dict(value)

    def json(self) -> dict[str, Any]:
        """Return the JSON schema of what is accepted."""
        return {"type": "object", "additionalProperties": {"type": "number", "minimum": 0, "maximum": 1}}
