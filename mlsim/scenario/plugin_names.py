"""Names of user-defined code, with parameters."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mlsim.scenario.field_types import FieldType, word_of
from mlsim.scenario.unit_types import AdviceError, nearest, shown
from mlsim.scenario.words import Choice

PARAMETERS = "parameters"  # key of the values that the user's code gets from the scenario

_FUNCTION = re.compile(r"(?P<file>.*\.py):(?P<function>[^\W\d]\w*)", re.DOTALL)


class CodeName(str):
    """The name of user-defined code, a text, with the parameters that the scenario gives it."""

    parameters: dict[str, Any]  # names and plain values; at least one

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
        raise AdviceError(f"{unknown[0]!r} is not known here;{meant} allowed keys: {key}, {PARAMETERS}")
    if key not in value:
        raise AdviceError(f"{key} is missing; write {{{key}: ./file.py:Name, {PARAMETERS}: {{...}}}}")
    parameters = {} if value.get(PARAMETERS) is None else value[PARAMETERS]
    if not isinstance(parameters, Mapping):
        raise AdviceError(f"{PARAMETERS} is {shown(parameters)}; allowed: a mapping, such as {{size: 3}}")
    for name in parameters:
        if not isinstance(name, str) or not name.isidentifier():
            message = f"{PARAMETERS}: {shown(name)} cannot be the name of one"
            raise AdviceError(f"{message}; allowed: letters, digits and _")
    return value[key], dict(parameters)


def written_code(value: str, key: str) -> object:
    """Return a name as a scenario file would write it: a text, or a mapping if it has parameters."""
    parameters = parameters_of(value)
    return {key: str(value), PARAMETERS: copy.deepcopy(parameters)} if parameters else str(value)


@dataclass(frozen=True, eq=False)
class CodeType(FieldType[str]):
    """Names that may be those of the user's own code."""

    key: str = "class"  # key of the name in the mapping with parameters: class or function
    group: str = ""  # entry points, of which the names are accepted too

    def json(self) -> dict[str, Any]:
        """Return the JSON schema: editors offer the words, and what is installed."""
        names = list(self.schema["anyOf"])
        if installed := installed_names(self.group) if self.group else ():
            names.insert(-1, {"enum": list(installed)})
        mapping = {
            "type": "object",
            "properties": {self.key: {"anyOf": names}, PARAMETERS: {"type": "object"}},
            "required": [self.key],
            "additionalProperties": False,
        }
        return {"anyOf": [*names, mapping]}


def code_type(
    words: type[Choice] | None,
    allowed: str,
    read: Callable[[object], str],
    others: str = r"\.py:",
    key: str = "class",
    group: str = "",
) -> CodeType:
    """Return the type of names of ``words``, and of those of the user that fit the pattern ``others``."""
    schemas = [] if words is None else word_of(words).json()["anyOf"]
    names = {"anyOf": [*schemas, {"type": "string", "pattern": others}]}
    return CodeType(allowed, read, names, lambda value: written_code(value, key), key, group)


def plugin_name(words: type[Choice] | None, group: str, key: str = "class") -> CodeType:
    """Return the type of names of a catalogue, of code in a file, or of installed packages."""
    known = [] if words is None else [*words, *words.aliases()]

    def read(value: object) -> str:
        given, parameters = split_code(value, key)
        name = given.strip() if isinstance(given, str) else ""
        if user_function(name):
            return with_parameters(name, parameters)
        try:
            word = None if words is None else words(name)
        except ValueError:
            word = None
        if word is None and name in installed_names(group):
            return with_parameters(name, parameters)
        if word is None:
            meant = nearest(name, [*known, *installed_names(group)])
            raise AdviceError(f"{shown(given)} is not known;{meant} allowed: {allowed}")
        if parameters:
            raise AdviceError(f"{word} is one of mlsim's own and takes no {PARAMETERS}; take them out")
        return word

    own = "./file.py:Name" if key == "class" else "./file.py:name"
    allowed = "" if words is None else f"{word_of(words).allowed}; "
    allowed += f"{own}; an entry point of {group}; {{{key}: ..., {PARAMETERS}: {{...}}}} of the last two"
    return code_type(words, allowed, read, key=key, group=group)


@dataclass(frozen=True, eq=False)
class CodeList(FieldType[tuple[str, ...]]):
    """Several functions of the user's own: in files, or entry points of installed packages."""

    each: CodeType = field(kw_only=True)

    def json(self) -> dict[str, Any]:
        """Return the JSON schema of what is accepted."""
        return {"type": "array", "items": self.each.json()}


def plugin_list(group: str) -> CodeList:
    """Return the type of lists of functions, in files or of installed packages."""
    each = plugin_name(None, group, "function")

    def read(value: object) -> tuple[str, ...]:
        if not isinstance(value, list | tuple):
            raise ValueError(f"{shown(value)} is no list")
        return tuple(map(each.parse, value))

    def show(names: tuple[str, ...]) -> object:
        return list(map(each.show, names))

    return CodeList(f"a list, each of them {each.allowed}", read, {}, show, each=each)
