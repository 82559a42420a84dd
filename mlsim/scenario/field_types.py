"""Types of the values that keys accept, numbers with units among them, and how messages show values."""

import copy
import difflib
import math
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from numbers import Integral, Real
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from mlsim.scenario.words import Choice

_LONGEST = 60


class AdviceError(ValueError):
    """An error in a value, with what is allowed or what to do."""


def shown(value: object) -> str:
    r"""Show a value the user gave, on one line and not too long.

    Examples
    --------
    >>> shown("a\nb"), shown(True), shown([1, 2])
    ("'a\\nb'", 'true', 'a list')
    """
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if value is None:
        return "nothing"
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 4] + "..." + text[0] * isinstance(value, str)


def nearest(word: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """Ask whether similar words were meant: ``" did you mean 'policy'?"``, or nothing."""
    words = list(dict.fromkeys(map(str, known)))
    close = [candidate for candidate in words if candidate.casefold() == word.casefold()]
    if not close:
        folded = {candidate.casefold(): candidate for candidate in words}
        found = difflib.get_close_matches(word.casefold(), folded, n=5, cutoff=likeness)
        # Swapped letters are the likelier mistake: SFA was meant to be SAF and not SRF.
        found.sort(key=lambda match: sorted(match) != sorted(word.casefold()))
        close = [folded[match] for match in found[:1]]
    return f" did you mean {' or '.join(map(repr, close))}?" if close else ""


@dataclass(frozen=True)
class Dimension:
    """One kind of quantity."""

    noun: str  # in messages: "a time"
    base: str  # the unit in which values are held and bare numbers are read
    units: tuple[str, ...]  # spellings that messages name and that values are written in
    others: tuple[str, ...]  # further spellings that are understood
    example: str  # a value as it would be written
    most: float = 1e30  # the largest value that calculations can be trusted with, in the base unit

    @property
    def spellings(self) -> tuple[str, ...]:
        """Every spelling that is understood."""
        return self.units + self.others


def _prefixed(prefixes: str, *units: str) -> tuple[str, ...]:
    return tuple(prefix + unit for unit in units for prefix in prefixes.split(","))


TIME = Dimension(
    "a time",
    "s",
    ("ns", "us", "ms", "s", "min", "h", "d", "w"),
    (
        *(
            "nsec",
            "usec",
            "µs",
            "μs",
            "msec",
            "sec",
            "secs",
            "second",
            "seconds",
            "mins",
            "minute",
            "minutes",
        ),
        *("hr", "hrs", "hour", "hours", "day", "days", "week", "weeks"),
    ),
    "500 ns",
    2.0**53,
)
FLOP = Dimension(
    "a number of floating-point operations", "FLOP", _prefixed(",k,M,G,T,P", "FLOP"), (), "2.5 MFLOP"
)
RATE = Dimension(
    "a speed", "FLOP/s", _prefixed(",k,M,G,T,P", "FLOP/s"), _prefixed(",k,M,G,T,P", "FLOPS"), "12 GFLOP/s"
)
BANDWIDTH = Dimension(
    "a bandwidth",
    "bit/s",
    _prefixed(",k,M,G,T", "bit/s", "B/s") + _prefixed("Ki,Mi,Gi,Ti", "B/s"),
    _prefixed(",k,M,G,T", "b/s", "bps") + _prefixed("Ki,Mi,Gi,Ti", "bit/s"),
    "50 Gbit/s",
)
SIZE = Dimension(
    "a size",
    "B",
    _prefixed(",k,M,G,T", "B") + _prefixed("Ki,Mi,Gi,Ti", "B") + ("bit",),
    _prefixed("k,M,G,T,Ki,Mi,Gi,Ti", "bit"),
    "16 B",
    1e15,
)
POWER = Dimension("a power", "W", _prefixed(",k,M", "W"), (), "350 W", 1e12)
DIMENSIONS = (TIME, FLOP, RATE, BANDWIDTH, SIZE, POWER)

_NUMBER = re.compile(r"\s*([+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d{1,4})?)\s*(\S.*?)?\s*")

_NAMED: dict[str, Decimal] = {
    **dict.fromkeys(
        ("s", "sec", "secs", "second", "seconds", "bit", "b", "bps", "FLOP", "FLOPS", "W"), Decimal(1)
    ),
    **dict.fromkeys(("ns", "nsec"), Decimal("1e-9")),
    **dict.fromkeys(("us", "usec", "µs", "μs"), Decimal("1e-6")),
    **dict.fromkeys(("ms", "msec"), Decimal("1e-3")),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), Decimal(60)),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), Decimal(3600)),
    **dict.fromkeys(("d", "day", "days"), Decimal(86_400)),
    **dict.fromkeys(("w", "week", "weeks"), Decimal(604_800)),
    "B": Decimal(8),
}
"""Units spelt without a prefix, in s, bit, FLOP or W."""
_PREFIXES: dict[str, int] = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15} | {
    prefix: 1024**power for power, prefix in enumerate(("Ki", "Mi", "Gi", "Ti"), start=1)
}


def _factor(unit: str, base: str) -> Decimal:
    """Return how many ``base`` one ``unit`` is."""
    return _named(unit) / _named(base)


@cache
def _named(unit: str) -> Decimal:
    stem = unit.removesuffix("/s")
    if stem in _NAMED:
        return _NAMED[stem]
    prefix = next(prefix for prefix in (stem[:2], stem[:1]) if prefix in _PREFIXES)
    return Decimal(_PREFIXES[prefix]) * _NAMED[stem.removeprefix(prefix)]


def parse_value(value: object, *dimensions: Dimension) -> tuple[float, str]:
    """Read a number, in the first dimension's base unit, or a text such as ``"1.5 ms"``, as a value in SI.

    Return the value and its base unit. The ValueError lists what is allowed.

    Examples
    --------
    >>> parse_value("500 ns", TIME)
    (5e-07, 's')
    >>> parse_value("3 TFLOP/s", RATE)
    (3000000000000.0, 'FLOP/s')
    """
    number, dimension = _read(value, dimensions)
    if not math.isfinite(number):
        raise AdviceError(f"{shown(value)} is not a finite number; {_allowed(dimensions)}")
    return number, dimension.base


def _read(value: object, dimensions: tuple[Dimension, ...]) -> tuple[float, Dimension]:
    if isinstance(value, Real) and not isinstance(value, bool):
        return nearest_float(value), dimensions[0]
    match = _NUMBER.fullmatch(value) if isinstance(value, str) else None
    if match is not None and match[2] is None:
        return float(Decimal(match[1])), dimensions[0]
    unit = match[2] if match is not None else ""
    for dimension in dimensions:
        if match is not None and unit in dimension.spellings:
            return float(Decimal(match[1]) * _factor(unit, dimension.base)), dimension
    nouns = " or ".join(dimension.noun for dimension in dimensions)
    others = [dimension.noun for dimension in DIMENSIONS if unit in dimension.spellings]
    found = f"{shown(value)} is {others[0]}, not {nouns}" if others else f"{shown(value)} is not {nouns}"
    known = [spelling for dimension in dimensions for spelling in dimension.spellings]
    meant = nearest(unit, known, 0.8) if unit and not others else ""
    raise AdviceError(f"{found};{meant} {_allowed(dimensions)}")


def nearest_float(value: Real) -> float:
    """Return a number as a float; a whole number that no float can hold becomes an infinity."""
    try:
        return float(value)
    except OverflowError:
        return -math.inf if value < 0 else math.inf


def _allowed(dimensions: tuple[Dimension, ...]) -> str:
    units = " or ".join(", ".join(dimension.units) for dimension in dimensions)
    return f"allowed: {units}; e.g. '{dimensions[0].example}'"


def format_value(value: float, dimension: Dimension) -> str:
    """Write a value with the unit that makes the shortest text which reads back as the same value.

    Examples
    --------
    >>> format_value(5e-7, TIME), format_value(129600.0, TIME), format_value(5e10, BANDWIDTH)
    ('500 ns', '36 h', '50 Gbit/s')
    """
    exact = Decimal(repr(value))
    texts = [f"{value!r} {dimension.base}"]
    for unit in dimension.units:
        number = (exact / _factor(unit, dimension.base)).normalize()
        if -7 < number.adjusted() < 17:
            texts.append(f"{number:f} {unit}")
    same = [text for text in texts if parse_value(text, dimension)[0] == value]
    return min(same, key=lambda text: (len(text), text.startswith("0."), text.split()[1] != dimension.base))


T = TypeVar("T")
_LARGEST = 2**63 - 1
_LONGEST_NAME, _LONGEST_TEXT = 200, 100_000


def _same(value: object) -> object:
    return value


@dataclass(frozen=True, eq=False)
class FieldType(Generic[T]):
    """Type of a key's values."""

    allowed: str  # accepted values, in words
    read: Callable[[object], T]  # a value of the user; what is allowed need not be in the ValueError
    schema: dict[str, Any]  # JSON schema of what is accepted
    show: Callable[[T], object] = _same  # the value as a scenario file would write it

    def parse(self, value: object) -> T:
        """Read the user's value; the ValueError has the reason and the allowed values, or advice."""
        try:
            return self.read(value)
        except AdviceError:
            raise
        except ValueError as error:
            raise AdviceError(f"{error}; allowed: {self.allowed}") from error

    def json(self) -> dict[str, Any]:
        """Return the JSON schema of what is accepted."""
        return copy.deepcopy(self.schema)

    def _validate(self, value: object) -> T:
        try:
            return self.parse(value)
        except ValueError as error:
            raise PydanticCustomError("value", "{text}", {"text": str(error)}) from error

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        writer = core_schema.plain_serializer_function_ser_schema(self.show, when_used="json")
        return core_schema.no_info_plain_validator_function(self._validate, serialization=writer)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return self.json()


def whole(minimum: int, maximum: int = _LARGEST) -> FieldType[int]:
    """Return the type of whole numbers, also as floats without a fraction (YAML reads 1e6 as one)."""

    def read(value: object) -> int:
        number = whole_number(value)
        if number is None and isinstance(value, float) and value.is_integer():
            number = int(value)
        if number is None:
            raise ValueError(f"{shown(value)} is not a whole number")
        if not minimum <= number <= maximum:
            raise ValueError(f"{shown(value)} is too {'small' if number < minimum else 'large'}")
        return number

    schema = {"type": "integer", "minimum": minimum}
    if maximum == _LARGEST:
        return FieldType(f"a whole number, {minimum} or more", read, schema)
    return FieldType(f"a whole number, {minimum} to {maximum}", read, schema | {"maximum": maximum})


def whole_number(value: object) -> int | None:
    """Return a whole number as an int; None for anything else, also for true and false."""
    return int(value) if isinstance(value, Integral) and not isinstance(value, bool) else None


def number(
    low: float, high: float = math.inf, *, low_belongs: bool = True, high_belongs: bool = True
) -> FieldType[float]:
    """Return the type of numbers without a unit, between limits that belong to them or not."""

    def read(value: object) -> float:
        if not isinstance(value, Real) or isinstance(value, bool):
            raise ValueError(f"{shown(value)} is not a number")
        found = nearest_float(value)
        above = low <= found if low_belongs else low < found
        below = found <= high if high_belongs else found < high
        if not (above and below and math.isfinite(found)):
            raise ValueError(f"{shown(value)} is out of range")
        return found

    allowed = f"a number, {low:g} or more" if low_belongs else f"a number, more than {low:g}"
    schema: dict[str, Any] = {"type": "number", "minimum" if low_belongs else "exclusiveMinimum": low}
    if high < math.inf:
        allowed += f" and {'at most' if high_belongs else 'less than'} {high:g}"
        schema["maximum" if high_belongs else "exclusiveMaximum"] = high
    return FieldType(allowed, read, schema)


POSITIVE = number(0, low_belongs=False)


def text(*, lines: bool = False, file_name: bool = False) -> FieldType[str]:
    """Return the type of texts: on one line, of several ``lines`` or empty, or usable as a ``file_name``."""
    longest = _LONGEST_NAME if file_name else _LONGEST_TEXT
    allowed = "a text" if lines else "a text on one line, not empty"
    if file_name:
        allowed = "a text without / and \\, not empty"

    def read(value: object) -> str:
        if not isinstance(value, str):
            quotes = f"; put it in quotes: '{shown(value)}'" if isinstance(value, Real) else ""
            raise ValueError(f"{shown(value)} is not a text{quotes}")
        if len(value.encode("utf-8", "replace")) > longest:
            message = f"{shown(value)} is too long; allowed: {allowed}, of at most {longest:,} bytes"
            raise AdviceError(message)
        empty = not lines and (not value.strip() or not value.isprintable())
        if empty or (file_name and (value in (".", "..") or set(value) & set("/\\"))):
            raise ValueError(f"{shown(value)} cannot be used")
        return str(value)

    return FieldType(allowed, read, {"type": "string"} if lines else {"type": "string", "minLength": 1})


_SWITCH_WORDS = {"on": True, "yes": True, "true": True, "off": False, "no": False, "false": False}


def _read_switch(value: object) -> bool:
    """Read a YAML boolean, or one of the words that older YAML versions read as one."""
    if isinstance(value, bool):
        return value
    word = value.casefold() if isinstance(value, str) else ""
    if word not in _SWITCH_WORDS:
        raise ValueError(f"{shown(value)} is neither on nor off")
    return _SWITCH_WORDS[word]


SWITCH = FieldType(
    "on, off (or true, false)",
    _read_switch,
    {"anyOf": [{"type": "boolean"}, {"enum": ["on", "off", "yes", "no"]}]},
)

W = TypeVar("W", bound=Choice)


def word_of(words: type[W], *only: W) -> FieldType[W]:
    """Return the type of words of a closed set, or ``only`` some of it, or aliases; in any case."""
    choices = only or tuple(words)
    main = ", ".join(choices)
    aliases = {alias: word for alias, word in words.aliases().items() if word in choices}

    def read(value: object) -> W:
        given = value if isinstance(value, str) else ""
        try:
            word = words(given)
        except ValueError as error:
            meant = nearest(given, [*choices, *aliases])
            raise AdviceError(f"{shown(value)} is not known;{meant} allowed: {main}") from error
        if word not in choices:
            raise AdviceError(f"{shown(value)} makes no sense here; allowed: {main}")
        return word

    same = ", ".join(f"{alias} = {word}" for alias, word in aliases.items())
    # Editors offer the words; any case passes.
    spellings = [*(word.value for word in choices), *aliases]
    any_case = "|".join("".join(map(_both_cases, word)) for word in spellings)
    schema = {"anyOf": [{"enum": spellings}, {"type": "string", "pattern": f"^({any_case})$"}]}
    return FieldType(f"{main} ({same})" if same else main, read, schema, lambda word: word.value)


if TYPE_CHECKING:
    OneOf = Annotated[W, word_of]
else:

    class OneOf:
        """``OneOf[Policy]`` is the type of a key that takes a word of ``Policy``."""

        def __class_getitem__(cls, words: type[Choice]) -> Any:
            return Annotated[words, word_of(words)]


def _both_cases(letter: str) -> str:
    return f"[{letter.lower()}{letter.upper()}]" if letter.isalpha() else literal(letter)


def literal(characters: str) -> str:
    r"""Escape a text for a pattern of a JSON schema.

    Those are regular expressions of ECMA-262, often read with the flag ``u``: only characters of the syntax
    may be escaped, and ``re.escape`` escapes more.

    Examples
    --------
    >>> literal("EASY++"), literal("best-fit")
    ('EASY\\+\\+', 'best-fit')
    """
    return "".join(f"\\{letter}" if letter in _SYNTAX else letter for letter in characters)


_SYNTAX = frozenset(r"^$\.*+?()[]{}|/")


Count = Annotated[int, whole(1)]
Natural = Annotated[int, whole(0)]
Line = Annotated[str, text()]
Paragraph = Annotated[str, text(lines=True)]
Switch = Annotated[bool, SWITCH]
FILE_NAME = text(file_name=True)
Name = Annotated[str, FILE_NAME]

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value", covariant=True)


@dataclass(frozen=True)
class Pairs(Mapping[Key, Value]):
    """A mapping that can be hashed."""

    pairs: tuple[tuple[Key, Value], ...] = ()

    def __getitem__(self, name: Key) -> Value:
        return dict(self.pairs)[name]

    def __iter__(self) -> Iterator[Key]:
        return (name for name, _ in self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)


def mapping_of(
    allowed: str,
    pair: Callable[[Any, Any], tuple[Key, Value]],
    schema: dict[str, Any],
    written: Callable[[Any], object] = _same,
) -> FieldType[Pairs[Key, Value]]:
    """Return the type of mappings; ``pair`` reads a name with its value."""

    def read(value: object) -> Pairs[Key, Value]:
        if not isinstance(value, Mapping):
            raise ValueError(f"{shown(value)} is no mapping")
        return Pairs(tuple(pair(name, item) for name, item in value.items()))

    def show(value: Pairs[Key, Value]) -> object:
        return {name: written(item) for name, item in value.items()}

    return FieldType(allowed, read, {"type": "object"} | schema, show)
