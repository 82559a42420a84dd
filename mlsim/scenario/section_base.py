"""The base of every section of a scenario, and names of user-defined code, with parameters."""

from __future__ import annotations

import ast
import copy
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, ClassVar, NamedTuple, Self, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import InitErrorDetails, PydanticCustomError

from mlsim.scenario.field_types import AdviceError, FieldType, nearest, shown, word_of
from mlsim.scenario.words import Choice


class Violation(NamedTuple):
    """A rule between keys that a section breaks."""

    key: str  # dotted, seen from the section: the one that the message is about
    message: str  # the error, allowed values and advice
    involved: tuple[str, ...] = ()  # further keys of the rule, which is silent if one is wrong by itself


class Section(BaseModel):
    """A mapping of the scenario file: frozen, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=False, defer_build=True)

    old_keys: ClassVar[Mapping[str, str]] = {}
    """Earlier names of keys below this section, dotted, and their names of today."""
    other_names: ClassVar[Mapping[str, str]] = {}
    """Names of the field for keys of this section, and their names here."""

    def broken_rules(self) -> Iterable[Violation]:
        """Name the rules between several keys that this section breaks."""
        return ()

    def is_set(self, key: str) -> bool:
        """Whether a key has another value than its default."""
        default = type(self).model_fields[key].get_default(call_default_factory=True)
        return bool(getattr(self, key) != default)

    def unread(self, keys: Iterable[str], of: str, reader: str, advice: str = "") -> Iterator[Violation]:
        """Name the keys that are set although only the word ``reader`` of the key ``of`` reads them."""
        found = getattr(self, of)
        for key in keys:
            if found != reader and self.is_set(key):
                message = f"read by {of} {reader} only, and the {of} is {found}{advice}"
                yield Violation(key, message, (of,))

    @model_validator(mode="before")
    @classmethod
    def _rename_keys(cls, value: Any) -> Any:
        """Rename keys to their current names, where a section is made without a file."""
        names = {
            split_key(name): split_key(key) for name, key in (*cls.old_keys.items(), *cls.other_names.items())
        }
        if any(holds_key(value, name) for name in names):
            value = copy.deepcopy(value)
            for name, key in names.items():
                move_key(value, name, key)
        return value

    @model_validator(mode="after")
    def _check_rules(self) -> Self:
        broken = []
        for rule in self.broken_rules():
            key = split_key(rule.key)
            context = {"text": rule.message, "involved": rule.involved, "depth": len(key)}
            error = PydanticCustomError("rule", "{text}", context)
            broken.append(InitErrorDetails(type=error, loc=key, input=None))
        if broken:
            raise ValidationError.from_exception_data(type(self).__name__, broken)
        return self


def split_key(key: str) -> tuple[str | int, ...]:
    """Split a dotted key; parts that are numbers are places in a list."""
    return tuple(int(part) if part.isdecimal() else part for part in key.split(".")) if key else ()


def holds_key(value: Any, key: tuple[str | int, ...]) -> bool:
    """Whether nested mappings have a key."""
    for part in key:
        if not isinstance(value, dict) or part not in value:
            return False
        value = value[part]
    return True


def move_key(value: dict[str, Any], old: tuple[str | int, ...], new: tuple[str | int, ...]) -> bool:
    """Move a key of nested mappings in place, if it is there; False if the new place is taken."""
    if not holds_key(value, old):
        return True
    holder: Any = value
    for part in old[:-1]:
        holder = holder[part]
    target: Any = value
    for part in new[:-1]:
        target = target.setdefault(part, {}) if isinstance(target, dict) else None
    if not isinstance(target, dict) or new[-1] in target:
        return False
    target[new[-1]] = holder.pop(old[-1])
    return True


class Parameters(Section):
    """Keys that belong to what another key names, or that are one value together.

    Such are parameters of a technique, a method, a dispatcher or a profile; both ends of a window.

    ``mlsim list options`` shows them as one key, and ``mlsim list parameters`` each of them.
    """


def fields_by_key(section: type[Section]) -> dict[str, FieldInfo]:
    """Return the fields of a section by their keys in a file, some of which are keywords of Python."""
    return {field.alias or name: field for name, field in section.model_fields.items()}


def _leaves(annotation: Any) -> Iterable[Any]:
    if get_origin(annotation) is Annotated:
        base, *metadata = get_args(annotation)
        return [*metadata, *_leaves(base)]
    if get_origin(annotation) in (Union, type(int | None), tuple, dict):
        return [leaf for part in get_args(annotation) for leaf in _leaves(part)]
    return [annotation]


def field_kind(field: FieldInfo) -> FieldType[Any] | None:
    """Return the kind of value a field accepts; None for a section or a list of sections."""
    for leaf in [*field.metadata, *_leaves(field.annotation)]:
        if isinstance(leaf, FieldType):
            return leaf
        if isinstance(leaf, type) and issubclass(leaf, Choice):
            return word_of(leaf)
    return None


def _origins(annotation: Any) -> set[Any]:
    """Return the origins of an annotation, without None and metadata."""
    if get_origin(annotation) is Annotated:
        return _origins(get_args(annotation)[0])
    if get_origin(annotation) in (Union, type(int | None)):
        return {origin for part in get_args(annotation) for origin in _origins(part)}
    return {get_origin(annotation)}


def holds_named(field: FieldInfo) -> bool:
    """Whether a field holds sections by names of the user's own."""
    return dict in _origins(field.annotation)


def field_section(field: FieldInfo) -> tuple[type[Section] | None, bool]:
    """Return the section a field holds (None for a plain value), and whether it holds a list of them."""
    is_list = tuple in _origins(field.annotation)
    for leaf in _leaves(field.annotation):
        if isinstance(leaf, type) and issubclass(leaf, Section):
            return leaf, is_list
    return None, is_list


def example(field: FieldInfo) -> Any:
    """Return a value for a key, as a scenario file would write it."""
    section, is_list = field_section(field)
    if section is None or holds_named(field):
        return (field.examples or [None])[0]
    return [minimal(section)] if is_list else minimal(section)


def minimal(section: type[Section]) -> dict[str, Any]:
    """Return an example of a section with only the keys that have no default."""
    fields = fields_by_key(section).items()
    return {key: example(field) for key, field in fields if field.is_required()}


def meaning(section: type[BaseModel], name: str) -> str:
    """Return the meaning of a field in one line: its description, or else the docstring below it."""
    if given := section.model_fields[name].description:
        return given
    found = (_docstrings(kind.__module__).get((kind.__qualname__, name)) for kind in section.__mro__)
    return next((text for text in found if text), "")


@cache
def _docstrings(module: str) -> dict[tuple[str, str], str]:
    """Return the docstrings below fields of a module of ours, by class and field."""
    if not module.startswith("mlsim."):
        return {}
    found = {}
    for kind in ast.parse(inspect.getsource(sys.modules[module])).body:
        if isinstance(kind, ast.ClassDef):
            for field, below in zip(kind.body, kind.body[1:], strict=False):
                match field, below:
                    case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                        found[kind.name, name] = " ".join(text.split())
    return found


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
