"""Kinds of values that keys accept."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from mlsim.scenario.unit_types import nearest, nearest_float, shown
from mlsim.scenario.words import Choice

T = TypeVar("T")
_LARGEST = 2**63 - 1
_LONGEST_NAME, _LONGEST_TEXT = 200, 100_000


class FieldType(ABC, Generic[T]):
    """Type of a key's values."""

    @property
    @abstractmethod
    def allowed(self) -> str:
        """Accepted values, in words."""

    @abstractmethod
    def parse(self, value: object) -> T:
        """Parse the user's value; raise ValueError with the error and the allowed values if it is invalid."""

    @abstractmethod
    def json(self) -> dict[str, Any]:
        """Return the JSON schema of what is accepted."""

    def show(self, value: T) -> object:
        """Return the value as a scenario file would write it."""
        return value

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


@dataclass(frozen=True)
class Whole(FieldType[int]):
    """A whole number from ``minimum`` to ``maximum``."""

    minimum: int
    maximum: int = _LARGEST

    @property
    def allowed(self) -> str:
        """Accepted values, in words."""
        if self.maximum == _LARGEST:
            return f"a whole number, {self.minimum} or more"
        return f"a whole number, {self.minimum} to {self.maximum}"

    def parse(self, value: object) -> int:
        """Read an integer, or a float without a fraction (YAML reads 1e6 as one)."""
        number = _whole(value)
        if number is None:
            raise ValueError(f"{shown(value)} is not a whole number; allowed: {self.allowed}")
        if not self.minimum <= number <= self.maximum:
            size = "small" if number < self.minimum else "large"
            raise ValueError(f"{shown(value)} is too {size}; allowed: {self.allowed}")
        return number

    def json(self) -> dict[str, Any]:
        """Return the JSON schema of what is accepted."""
        limits = {"minimum": self.minimum}
        if self.maximum < _LARGEST:
            limits["maximum"] = self.maximum
        return {"type": "integer"} | limits


def _whole(value: object) -> int | None:
    if isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return None


@dataclass(frozen=True)
class Number(FieldType[float]):
    """A number without a unit, between limits that belong to it or not."""

    low: float
    high: float = math.inf
    low_belongs: bool = True
    high_belongs: bool = True

    @property
    def allowed(self) -> str:
        """Accepted values, in words."""
        low = f"{self.low:g} or more" if self.low_belongs else f"more than {self.low:g}"
        if self.high == math.inf:
            return f"a number, {low}"
        return f"a number, {low} and {'at most' if self.high_belongs else 'less than'} {self.high:g}"

    def parse(self, value: object) -> float:
        """Read a number within the limits."""
        if not isinstance(value, Real) or isinstance(value, bool):
            raise ValueError(f"{shown(value)} is not a number; allowed: {self.allowed}")
        number = nearest_float(value)
        above = self.low <= number if self.low_belongs else self.low < number
        below = number <= self.high if self.high_belongs else number < self.high
        if not (above and below and math.isfinite(number)):
            raise ValueError(f"{shown(value)} is out of range; allowed: {self.allowed}")
        return number

    def json(self) -> dict[str, Any]:
        """Return the JSON schema of what is accepted."""
        limits = {"minimum" if self.low_belongs else "exclusiveMinimum": self.low}
        if self.high < math.inf:
            limits["maximum" if self.high_belongs else "exclusiveMaximum"] = self.high
        return {"type": "number"} | limits


@dataclass(frozen=True)
class Text(FieldType[str]):
    """A text."""

    lines: bool = False
    """Whether it may be empty or have several lines."""
    file_name: bool = False
    """Whether it must do as the name of a file."""

    @property
    def allowed(self) -> str:
        """Accepted values, in words."""
        if self.file_name:
            return "a text without / and \\, not empty"
        return "a text" if self.lines else "a text on one line, not empty"

    def parse(self, value: object) -> str:
        """Read a text."""
        if not isinstance(value, str):
            quotes = f"; put it in quotes: '{shown(value)}'" if isinstance(value, Real) else ""
            raise ValueError(f"{shown(value)} is not a text{quotes}; allowed: {self.allowed}")
        longest = _LONGEST_NAME if self.file_name else _LONGEST_TEXT
        if len(value.encode("utf-8", "replace")) > longest:
            raise ValueError(
                f"{shown(value)} is too long; allowed: {self.allowed}, of at most {longest:,} bytes"
            )
        empty = not self.lines and (not value.strip() or not value.isprintable())
        if empty or (self.file_name and (value in (".", "..") or set(value) & set("/\\"))):
            raise ValueError(f"{shown(value)} cannot be used; allowed: {self.allowed}")
        return str(value)

    def json(self) -> dict[str, Any]:
        """Return the JSON schema of what is accepted."""
        return {"type": "string"} if self.lines else {"type": "string", "minLength": 1}


@dataclass(frozen=True)
class OnOff(FieldType[bool]):
    """A switch."""

    allowed = "on, off (or true, false)"

    def parse(self, value: object) -> bool:
        """Read a YAML boolean, or one of the words that older YAML versions read as one."""
        if isinstance(value, bool):
            return value
        word = value.casefold() if isinstance(value, str) else ""
        if word not in _SWITCH_WORDS:
            raise ValueError(f"{shown(value)} is neither on nor off; allowed: {self.allowed}")
        return _SWITCH_WORDS[word]

    def json(self) -> dict[str, Any]:
        """Return the JSON schema of what is accepted."""
        return {"anyOf": [{"type": "boolean"}, {"enum": ["on", "off", "yes", "no"]}]}


_SWITCH_WORDS = {"on": True, "yes": True, "true": True, "off": False, "no": False, "false": False}


W = TypeVar("W", bound=Choice)


@dataclass(frozen=True)
class ChoiceType(FieldType[W]):
    """One word of a closed set, in upper or lower case; of ``only`` some of the set if that is given."""

    words: type[W]
    only: tuple[W, ...] = ()

    @property
    def choices(self) -> tuple[W, ...]:
        """The words that are accepted."""
        return self.only or tuple(self.words)

    @property
    def allowed(self) -> str:
        """Accepted values, in words."""
        same = [f"{alias} = {word}" for alias, word in self._aliases.items()]
        return ", ".join(self.choices) + (f" ({', '.join(same)})" if same else "")

    @property
    def _aliases(self) -> dict[str, str]:
        """Other spellings of the words that are accepted."""
        accepted = set(self.choices)
        return {alias: word for alias, word in self.words.aliases().items() if word in accepted}

    def parse(self, value: object) -> W:
        """Read a word, its alias, or the enum's member."""
        text, main = value if isinstance(value, str) else "", ", ".join(self.choices)
        try:
            word = self.words(text)
        except ValueError as error:
            meant = nearest(text, [*self.choices, *self._aliases])
            raise ValueError(f"{shown(value)} is not known;{meant} allowed: {main}") from error
        if word not in self.choices:
            raise ValueError(f"{shown(value)} makes no sense here; allowed: {main}")
        return word

    def show(self, value: W) -> str:
        """Return the word."""
        return value.value

    def json(self) -> dict[str, Any]:
        """Return the JSON schema: editors offer the words; any case passes."""
        words = [*(word.value for word in self.choices), *self._aliases]
        any_case = "|".join("".join(map(_both_cases, word)) for word in words)
        return {"anyOf": [{"enum": words}, {"type": "string", "pattern": f"^({any_case})$"}]}


if TYPE_CHECKING:
    OneOf = Annotated[W, ChoiceType]
else:

    class OneOf:
        """``OneOf[Policy]`` is the kind of a key that takes a word of ``Policy``."""

        def __class_getitem__(cls, words: type[Choice]) -> Any:
            return Annotated[words, ChoiceType(words)]


def _both_cases(letter: str) -> str:
    return f"[{letter.lower()}{letter.upper()}]" if letter.isalpha() else literal(letter)


def literal(text: str) -> str:
    r"""Escape a text for a pattern of a JSON schema.

    Those are regular expressions of ECMA-262, often read with the flag ``u``: only characters of the syntax
    may be escaped, and ``re.escape`` escapes more.

    Examples
    --------
    >>> literal("EASY++"), literal("best-fit")
    ('EASY\\+\\+', 'best-fit')
    """
    return "".join(f"\\{letter}" if letter in _SYNTAX else letter for letter in text)


_SYNTAX = frozenset(r"^$\.*+?()[]{}|/")


Count = Annotated[int, Whole(1)]
Natural = Annotated[int, Whole(0)]
Line = Annotated[str, Text()]
Paragraph = Annotated[str, Text(lines=True)]
Switch = Annotated[bool, OnOff()]
Name = Annotated[str, Text(file_name=True)]
