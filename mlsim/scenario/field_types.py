"""Types of the values that keys accept."""

import copy
import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from mlsim.scenario.unit_types import AdviceError, nearest, nearest_float, shown
from mlsim.scenario.words import Choice

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
