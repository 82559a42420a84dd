"""The base of every section of a scenario."""

import ast
import copy
import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, NamedTuple, Self, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import InitErrorDetails, PydanticCustomError

from mlsim.scenario.field_types import FieldType, word_of
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
    """Keys that belong to what another key names: a technique, a method, a dispatcher, a profile.

    ``mlsim list options`` shows them as one key, and ``mlsim list parameters`` each of them.
    """


def fields_by_key(section: type[Section]) -> dict[str, FieldInfo]:
    """Return the fields of a section by their keys in a file, some of which are keywords of Python."""
    return {field.alias or name: field for name, field in section.model_fields.items()}


def _leaves(annotation: Any) -> Iterable[Any]:
    if get_origin(annotation) is Annotated:
        base, *metadata = get_args(annotation)
        return [*metadata, *_leaves(base)]
    if get_origin(annotation) in (Union, type(int | None), tuple):
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


def field_section(field: FieldInfo) -> tuple[type[Section] | None, bool]:
    """Return the section a field holds (None for a plain value), and whether it holds a list of them."""
    is_list = get_origin(field.annotation) is tuple
    for leaf in _leaves(field.annotation):
        if isinstance(leaf, type) and issubclass(leaf, Section):
            return leaf, is_list
    return None, is_list


def example(field: FieldInfo) -> Any:
    """Return a value for a key, as a scenario file would write it."""
    section, is_list = field_section(field)
    if section is None:
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
