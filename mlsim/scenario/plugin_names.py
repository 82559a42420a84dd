"""Names of user-defined code, with parameters."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mlsim.scenario.field_types import ChoiceType, FieldType
from mlsim.scenario.unit_types import nearest, shown
from mlsim.scenario.words import Choice

PARAMETERS = "parameters"
"""Key of the values that the user's code gets from the scenario."""

_FUNCTION = re.compile(r"(?P<file>.*\.py):(?P<function>[^\W\d]\w*)", re.DOTALL)


class CodeName(str):
    """The name of code of the user's own, and the parameters that the scenario gives it.

    It is a text wherever a name is wanted: in messages, in tables, for who looks up the code.
    """

    parameters: dict[str, Any]
    """Names and plain values; at least one."""

    def __new__(cls, name: str, parameters: Mapping[str, Any] | None = None) -> CodeName:
        """Join a name and its parameters."""
        text = super().__new__(cls, name)
        text.parameters = copy.deepcopy(dict(parameters or {}))
        return text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and str(self) == str(other) and self.parameters == parameters_of(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return super().__hash__()


def parameters_of(name: str) -> dict[str, Any]:
    """Return the parameters that come with a name; none with a plain text."""
    return name.parameters if isinstance(name, CodeName) else {}


def with_parameters(name: str, parameters: Mapping[str, Any]) -> str:
    """Return a name with parameters, the plain text if there are none."""
    return CodeName(name, parameters) if parameters else str(name)


def user_function(name: str) -> tuple[str, str] | None:
    """Split ``./file.py:name``, the name of code in a file of the user; None if it is another name.

    Examples
    --------
    >>> user_function("./mine.py:my_rule"), user_function("GSS")
    (('./mine.py', 'my_rule'), None)
    """
    found = _FUNCTION.fullmatch(name)
    return (found["file"], found["function"]) if found else None


def installed_names(group: str) -> tuple[str, ...]:
    """Return the names that installed packages offer in a group of entry points."""
    from importlib.metadata import entry_points

    return tuple(sorted({point.name for point in entry_points(group=group)}))


def split_code(value: object, key: str) -> tuple[object, dict[str, Any]]:
    """Split ``{class: NAME, parameters: {...}}`` (``key``: class or function); plain names have none."""
    if isinstance(value, str):
        return str(value), parameters_of(value)
    if not isinstance(value, Mapping):
        return value, {}
    unknown = [str(name) for name in value if name not in (key, PARAMETERS)]
    if unknown:
        meant = nearest(unknown[0], [key, PARAMETERS])
        if not meant and not {key, PARAMETERS} & set(value):
            return value, {}  # a mapping of something else
        raise ValueError(f"{unknown[0]!r} is not known here;{meant} allowed keys: {key}, {PARAMETERS}")
    if key not in value:
        raise ValueError(f"{key} is missing; write {{{key}: ./file.py:Name, {PARAMETERS}: {{...}}}}")
    return value[key], _parameters(value.get(PARAMETERS))


def _parameters(value: object) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError(f"{PARAMETERS} is {shown(value)}; allowed: a mapping, such as {{size: 3}}")
    for name in value:
        if not isinstance(name, str) or not name.isidentifier():
            raise ValueError(
                f"{PARAMETERS}: {shown(name)} cannot be the name of one; allowed: letters, digits and _"
            )
    return dict(value)


def written_code(value: str, key: str) -> object:
    """Return a name as a scenario file would write it: a text, or a mapping if it has parameters."""
    parameters = parameters_of(value)
    return {key: str(value), PARAMETERS: copy.deepcopy(parameters)} if parameters else str(value)


def code_schema(key: str, name: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of the mapping, around that of its name."""
    return {
        "type": "object",
        "properties": {key: name, PARAMETERS: {"type": "object"}},
        "required": [key],
        "additionalProperties": False,
    }


class CodeKind(FieldType[str]):
    """Names that may be those of the user's own code."""

    key: str
    """Key of the name in the mapping with parameters: ``class`` or ``function``."""

    def show(self, value: str) -> object:
        """Return the name as a text, or a mapping if it has parameters."""
        return written_code(value, self.key)


@dataclass(frozen=True)
class PluginKind(CodeKind):
    """A word of a catalogue, code in a file, or an entry point of an installed package."""

    words: type[Choice] | None
    """The catalogue; None if there is none."""
    group: str
    """The group of entry points."""
    key: str = "class"

    @property
    def _own(self) -> str:
        return "./file.py:Name" if self.key == "class" else "./file.py:name"

    @property
    def allowed(self) -> str:
        """Accepted values, in words."""
        words = "" if self.words is None else f"{ChoiceType(self.words).allowed}; "
        mapping = f"{{{self.key}: ..., {PARAMETERS}: {{...}}}} of the last two"
        return f"{words}{self._own}; an entry point of {self.group}; {mapping}"

    def parse(self, value: object) -> str:
        """Read the name; those of the catalogue in upper or lower case."""
        given, parameters = split_code(value, self.key)
        name = given.strip() if isinstance(given, str) else ""
        if user_function(name):
            return with_parameters(name, parameters)
        word = self._word(name)
        if word is None and name in installed_names(self.group):
            return with_parameters(name, parameters)
        if word is None:
            known = [] if self.words is None else [*self.words, *self.words.aliases()]
            meant = nearest(name, [*known, *installed_names(self.group)])
            raise ValueError(f"{shown(given)} is not known;{meant} allowed: {self.allowed}")
        if parameters:
            raise ValueError(f"{word} is one of mlsim's own and takes no {PARAMETERS}; take them out")
        return word

    def _word(self, name: str) -> Choice | None:
        try:
            return None if self.words is None else self.words(name)
        except ValueError:
            return None

    def json(self) -> dict[str, Any]:
        """Return the JSON schema: editors offer the words, and what is installed."""
        words = [] if self.words is None else ChoiceType(self.words).json()["anyOf"]
        installed = installed_names(self.group)
        others = [{"enum": list(installed)}] if installed else []
        file = {"type": "string", "pattern": r"\.py:"}
        return {"anyOf": [*words, *others, file, code_schema(self.key, {"anyOf": [*words, *others, file]})]}


@dataclass(frozen=True)
class PluginList(FieldType[tuple[str, ...]]):
    """Several functions of the user's own: in files, or entry points of installed packages."""

    group: str
    """The group of entry points."""

    @property
    def each(self) -> PluginKind:
        """Type of each element."""
        return PluginKind(None, self.group, "function")

    @property
    def allowed(self) -> str:
        """Accepted values, in words."""
        return f"a list, each of them {self.each.allowed}"

    def parse(self, value: object) -> tuple[str, ...]:
        """Read the names."""
        if not isinstance(value, list | tuple):
            raise ValueError(f"{shown(value)} is no list; allowed: {self.allowed}")
        return tuple(map(self.each.parse, value))

    def show(self, value: tuple[str, ...]) -> object:
        """Return the names as a list."""
        return [self.each.show(name) for name in value]

    def json(self) -> dict[str, Any]:
        """Return the JSON schema of what is accepted."""
        return {"type": "array", "items": self.each.json()}
