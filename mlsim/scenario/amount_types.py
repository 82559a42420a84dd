"""Values with units, dates, lists and ranges."""

import datetime
import math
import re
from typing import Annotated, Any, Literal, NamedTuple

from mlsim.scenario import field_types
from mlsim.scenario.field_types import FLOP, TIME, AdviceError, Dimension, FieldType, number, shown
from mlsim.scenario.words import EstimateSource, ForecastScope


def amount(dimension: Dimension, *, positive: bool = False) -> FieldType[float]:
    """Return the type of numbers with a unit, held in the dimension's base unit; bare numbers are in it."""
    limit = f"more than 0 {dimension.base}" if positive else f"0 {dimension.base} or more"

    def read(value: object) -> float:
        size, _ = field_types.parse_value(value, dimension)
        _check_size(value, size, positive, limit, dimension)
        return size

    allowed = f"{dimension.noun} ({', '.join(dimension.units)}), {limit}"
    return FieldType(
        allowed,
        read,
        amount_schema(dimension, positive=positive),
        lambda size: field_types.format_value(size, dimension),
    )


class Quantity(NamedTuple):
    """An amount of work: a time at the reference speed, or a number of operations."""

    value: float
    """Amount."""
    unit: Literal["s", "FLOP"]
    """Of what: ``"s"`` or ``"FLOP"``."""


def work(*, positive: bool = False) -> FieldType[Quantity]:
    """Return the type of times at the reference speed (so bare numbers), or numbers of operations."""
    limit = "more than 0" if positive else "0 or more"

    def read(value: object) -> Quantity:
        if isinstance(value, Quantity):
            value = f"{value.value!r} {value.unit}"
        size, unit = field_types.parse_value(value, TIME, FLOP)
        _check_size(value, size, positive, limit, TIME if unit == "s" else FLOP)
        return Quantity(size, "s" if unit == "s" else "FLOP")

    def show(value: Quantity) -> str:
        return field_types.format_value(value.value, TIME if value.unit == "s" else FLOP)

    allowed = f"a time or a number of FLOP ({', '.join(TIME.units + FLOP.units)}), {limit}"
    return FieldType(allowed, read, amount_schema(TIME, FLOP, positive=positive), show)


def _check_size(value: object, number: float, positive: bool, limit: str, dimension: Dimension) -> None:
    if number > dimension.most:
        most = f"at most {dimension.most:.3g} {dimension.base}"
        raise AdviceError(f"{shown(value)} is too large; allowed: {most}")
    if number < 0 or (positive and number == 0):
        raise AdviceError(f"{shown(value)} is too small; allowed: {limit}")


def amount_text(*dimensions: Dimension, needs_unit: bool = False) -> dict[str, Any]:
    """Return the JSON schema of a text of a number with a unit."""
    spellings = "|".join(
        field_types.literal(word) for dimension in dimensions for word in dimension.spellings
    )
    unit = f"({spellings})" if needs_unit else f"({spellings})?"
    return {"type": "string", "pattern": rf"^\s*\+?[0-9.][0-9._]*([eE][+-]?[0-9]+)?\s*{unit}\s*$"}


def amount_schema(*dimensions: Dimension, positive: bool = False) -> dict[str, Any]:
    """Return the JSON schema of an amount."""
    bare = {"type": "number", "exclusiveMinimum" if positive else "minimum": 0}
    example = [dimension.example for dimension in dimensions]
    return {"anyOf": [bare, amount_text(*dimensions)], "examples": example}


def list_schema(item: dict[str, Any], least: int = 1, most: int | None = None, **more: Any) -> dict[str, Any]:
    """Return the JSON schema of a list."""
    limits = {"minItems": least} | ({} if most is None else {"maxItems": most})
    return {"type": "array", "items": item} | limits | more


SECONDS = amount(TIME)
Seconds = Annotated[float, SECONDS]
Duration = Annotated[float, amount(TIME, positive=True)]
Speed = Annotated[float, amount(field_types.RATE, positive=True)]
Bandwidth = Annotated[float, amount(field_types.BANDWIDTH, positive=True)]
Size = Annotated[float, amount(field_types.SIZE)]
Power = Annotated[float, amount(field_types.POWER)]
Work = Annotated[Quantity, work()]
PositiveWork = Annotated[Quantity, work(positive=True)]


def _read_moment(value: object) -> str:
    """Read a text in ISO 8601, or what YAML makes of one that is not quoted."""
    if isinstance(value, datetime.date):  # a datetime is one too
        return value.isoformat()
    try:
        moment = datetime.datetime.fromisoformat(value.strip() if isinstance(value, str) else "")
    except ValueError as error:
        raise ValueError(f"{shown(value)} is not a date") from error
    given = str(value).strip()
    return given if len(given) == 10 else moment.isoformat()


_WEEKS = re.compile(r"\s*(\d{1,6})\s*(?:-\s*(\d{1,6})\s*)?")
WeekRange = tuple[int, int]


def _read_weeks(value: object) -> WeekRange:
    if isinstance(value, tuple) and len(value) == 2:
        value = f"{value[0]}-{value[1]}"
    if field_types.whole_number(value) is not None:
        value = str(value)
    found = _WEEKS.fullmatch(value) if isinstance(value, str) else None
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
    if first > last:
        raise ValueError(f"{shown(value)} names no weeks")
    return first, last


WEEKS = FieldType(
    "a week such as 3, or weeks such as 1-4, counted from 1 (from 0 with workload.weeks)",
    _read_weeks,
    {
        "anyOf": [
            {"type": "integer", "minimum": 0},
            {"type": "string", "pattern": r"^\s*[0-9]+\s*(-\s*[0-9]+\s*)?$"},
        ]
    },
    lambda value: value[0] if value[0] == value[1] else f"{value[0]}-{value[1]}",
)

User = int | str


def _read_users(value: object) -> tuple[User, ...]:
    """Read numbers of the log, or names where the log has names: one, or a list."""
    items = list(value) if isinstance(value, list | tuple) else [value]
    if not items:
        raise ValueError("an empty list names no user")
    users: list[User] = []
    for item in items:
        user = item if isinstance(item, str) and item.strip() else field_types.whole_number(item)
        if user is None:
            raise ValueError(f"{shown(item)} is not a user")
        users.append(user)
    return tuple(users)


_USER = {"type": ["integer", "string"]}
Moment = Annotated[
    str,
    FieldType(
        "a date, or a date and a time, such as 2002-08-01 or 2002-08-01T12:30",
        _read_moment,
        {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}([T ].*)?$"},
    ),
]
Weeks = Annotated[WeekRange, WEEKS]
Users = Annotated[
    tuple[User, ...],
    FieldType(
        "a user's number or name, or a list of them",
        _read_users,
        {"anyOf": [_USER, list_schema(_USER)]},
        lambda value: value[0] if len(value) == 1 else list(value),
    ),
]


_INTERVALS = re.compile(r"\d{1,18}(-\d{1,18})?([ ,]+\d{1,18}(-\d{1,18})?)*")
_LENGTHS = r"\s*\d{1,18}(\s*x\s*\d{1,18})*\s*"
_LENGTH, _JOB = field_types.whole(1), field_types.whole(0)


def lengths(most: int) -> FieldType[tuple[int, ...]]:
    """Return the type of lengths of a grid of ``most`` places at most: ``4x4x2``, or a list of them."""

    def read(value: object) -> tuple[int, ...]:
        parts: list[Any]
        if isinstance(value, str) and re.fullmatch(_LENGTHS, value):
            parts = [int(part) for part in value.split("x")]
        elif isinstance(value, list | tuple) and value:
            parts = list(value)
        elif field_types.whole_number(value) is not None:
            parts = [value]
        else:
            raise ValueError(f"{shown(value)} are no lengths of dimensions")
        found = tuple(map(_LENGTH.parse, parts))
        if math.prod(found) > most:
            raise ValueError(f"{show(found)} is too large")
        return found

    def show(value: tuple[int, ...]) -> str:
        return "x".join(map(str, value))

    schemas = [{"type": "string", "pattern": f"^{_LENGTHS}$"}, _LENGTH.json(), list_schema(_LENGTH.json())]
    allowed = f"lengths such as 4x4x2, each 1 or more, together at most {most}"
    return FieldType(allowed, read, {"anyOf": schemas}, show)


def _read_factors(value: object) -> tuple[float, float]:
    """Read a factor as a range of one, or a list of two."""
    ends = value if isinstance(value, list | tuple) else [value, value]
    if len(ends) != 2:
        raise ValueError(f"a list of {len(ends)} is no range")
    low, high = map(field_types.POSITIVE.read, ends)
    if low > high:
        raise ValueError(f"[{low:g}, {high:g}] begins above its end")
    return low, high


def show_range(value: tuple[float, float]) -> object:
    """Return a number, or the two ends of a range as a list."""
    return value[0] if value[0] == value[1] else list(value)


FACTORS = FieldType(
    "a number, more than 0, or a range [low, high] of them",
    _read_factors,
    {"anyOf": [field_types.POSITIVE.json(), list_schema(field_types.POSITIVE.json(), 2, 2)]},
    show_range,
)


def _read_span(value: object) -> tuple[float, float]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ValueError(f"{shown(value)} is no span of time")
    begin, end = map(SECONDS.parse, value)
    if begin >= end:
        raise ValueError(f"it ends at {end:g} s, and begins at {begin:g} s")
    return begin, end


def _read_jobs(value: object) -> tuple[int, ...]:
    numbers = value if isinstance(value, list | tuple) else [value]
    if not numbers:
        raise ValueError(f"{shown(value)} names no job")
    return _each_once(tuple(map(_JOB.parse, numbers)))


def _read_columns(value: object) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not names:
        raise ValueError(f"{shown(value)} names no columns")
    for name in names:
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise ValueError(f"{shown(name)} is no name of a column")
    return _each_once(tuple(names))


def _each_once(items: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(set(items)) < len(items):
        twice = next(item for item in items if items.count(item) > 1)
        raise ValueError(f"{twice!r} is there twice")
    return items


def _one_or_list(item: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [item, list_schema(item, uniqueItems=True)]}


def _read_nodes(value: object) -> str:
    """Read a text or one number; which nodes there are is checked with the groups."""
    found = field_types.whole_number(value)
    if found is not None and found >= 0:
        return str(value)
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise ValueError(f"{shown(value)} names no nodes")
    return value.strip()


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
        meant = field_types.nearest(choice, names)
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


Torus = Annotated[tuple[int, ...], lengths(1_000_000)]
Factors = Annotated[tuple[float, float], FACTORS]
TimeWindow = Annotated[
    tuple[float, float],
    FieldType(
        "a list [begin, end] of two times, of which the first comes before the second",
        _read_span,
        list_schema(SECONDS.json(), 2, 2),
        lambda value: list(map(SECONDS.show, value)),
    ),
]
JobNumbers = Annotated[
    tuple[int, ...],
    FieldType("a list of numbers of jobs, such as [17, 18]", _read_jobs, _one_or_list(_JOB.json()), list),
]
Columns = Annotated[
    tuple[str, ...],
    FieldType(
        "a list of names of columns, such as [deadline, project]",
        _read_columns,
        _one_or_list({"type": "string", "minLength": 1}),
        list,
    ),
]
RUN_TIME, ANY_QUEUE = "run-time", "*"
WalltimeRule = tuple[tuple[str, float], ...]  # of partitions or queues and seconds; 0: the run time


def _read_estimates(value: object) -> EstimateSource | WalltimeRule:
    """Read a source of estimates, or the walltime of jobs that have none."""
    word = value.strip().lower() if isinstance(value, str) else ""
    if isinstance(value, tuple) or word in list(EstimateSource):
        return value if isinstance(value, tuple) else EstimateSource(word)
    given = value if isinstance(value, dict) and value else {ANY_QUEUE: value}
    read = amount(TIME, positive=True).read
    try:
        return tuple((str(name), 0.0 if word == RUN_TIME else read(word)) for name, word in given.items())
    except ValueError as error:
        raise ValueError(f"{shown(value)} is no estimate") from error


def _show_estimates(value: EstimateSource | WalltimeRule) -> object:
    if not isinstance(value, tuple):
        return value.value
    written = {name: field_types.format_value(size, TIME) if size else RUN_TIME for name, size in value}
    return written[ANY_QUEUE] if list(written) == [ANY_QUEUE] else written


_TIMES = amount_schema(TIME, positive=True)
Estimates = Annotated[
    EstimateSource | WalltimeRule,
    FieldType(
        f"{', '.join(EstimateSource)}, a time such as 24 h, or times by partition or queue, such as "
        "{debug: 30 min, '*': 24 h}",
        _read_estimates,
        {
            "anyOf": [
                {"type": "string", "enum": list(EstimateSource)},
                _TIMES,
                {
                    "type": "object",
                    "propertyNames": {"pattern": "."},
                    "additionalProperties": {"anyOf": [{"enum": [RUN_TIME]}, _TIMES]},
                },
            ]
        },
        _show_estimates,
    ),
]
NodeChoice = Annotated[
    str,
    FieldType(
        "numbers of nodes such as 0-3 7, or the name of a group",
        _read_nodes,
        {"anyOf": [{"type": "string", "minLength": 1}, {"type": "integer", "minimum": 0}]},
    ),
]

_SHARE = number(0, 1)


def _named_share(name: object, value: object) -> tuple[str, float]:
    try:
        return str(name), _SHARE.read(value)
    except ValueError as error:
        raise ValueError(f"{shown(name)}: {shown(value)}") from error


NamedShares = Annotated[
    field_types.Pairs[str, float],
    field_types.mapping_of(
        "names of resources with shares, 0 to 1, e.g. {gpu: 0.75}",
        _named_share,
        {"additionalProperties": _SHARE.json()},
    ),
]

_ERROR = number(0, 10)


def _forecast(name: str, value: object) -> tuple[ForecastScope, float]:
    try:
        return ForecastScope(name), _ERROR.read(value)
    except ValueError as error:
        raise ValueError(f"{shown(name)}: {shown(value)}") from error


ForecastErrors = Annotated[
    field_types.Pairs[ForecastScope, float],
    field_types.mapping_of(
        f"one of {', '.join(ForecastScope)} with its error, 0 to 10, e.g. {{nodes: 0.1}}",
        _forecast,
        {"additionalProperties": _ERROR.json(), "minProperties": 1, "maxProperties": 1},
    ),
]
