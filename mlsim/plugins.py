"""Code of the user's own that a scenario names: looked up, checked, and made with its parameters.

There are several families of plugins, each declared where it is used (:class:`Family`). A plugin is a class
in a file, or one that an installed package offers under a name; some families take functions as well.
"""

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any, NamedTuple

from mlsim._files import expanded, is_file, named
from mlsim.errors import InputError, user_code_error
from mlsim.scenario.field_types import SWITCH, nearest
from mlsim.scenario.scenario_paths import read_code
from mlsim.scenario.section_base import parameters_of, user_function

_MODULE = "mlsim_plugin"


class Family(NamedTuple):
    """One sort of plugin."""

    name: str  # Name in messages
    key: str  # Of the scenario, where it is named
    group: str  # Entry points of installed packages
    methods: tuple[str, ...]  # Required methods of a class
    words: tuple[str, ...]  # Names that it must not take: they are mlsim's own
    page: str  # Page that documents its protocol
    arguments: int = 0  # of a function before its parameters; 0 where only classes are allowed

    @property
    def sort(self) -> str:
        """Allowed sorts of plugins, in words."""
        return "class or function" if self.arguments else "class"


def load_plugin(family: Family, name: str) -> Any:
    """Make the object that a scenario names (``path/file.py:Class``, an entry point) with its parameters."""
    title = f"{family.name} {name}"
    return _made(family, title, name, _found(family, title, name))


def make_callable(family: Family, name: str) -> Callable[..., Any]:
    """Make the function that a scenario names, or the method of an object of the class that it names."""
    title = f"{family.name} {name}"
    code = _found(family, title, name)
    if isinstance(code, type):
        method: Callable[..., Any] = getattr(_made(family, title, name, code), family.methods[0])
        return method
    parameters = resolve_parameters(title, family.key, code, parameters_of(name), family.arguments)
    return partial(code, **parameters) if parameters else code


def any_loaded() -> bool:
    """Whether code of the user's own was executed in this process."""
    return bool(_loaded)


_loaded: set[str] = set()


def _found(family: Family, title: str, name: str) -> Any:
    _loaded.add(name)
    if file := user_function(name):
        return _from_file(family, title, *file)
    point = _point(family, title, name)
    try:
        return point.load()
    except BaseException as error:  # whatever the package raises
        raise user_code_error(f"{title}: cannot be imported", error) from error


def _made(family: Family, title: str, name: str, kind: Any) -> Any:
    parameters = parameters_of(name)
    if parameters:
        parameters = resolve_parameters(title, family.key, kind, parameters)
    try:
        plugin = kind(**parameters)
        missing = [method for method in family.methods if not callable(getattr(plugin, method, None))]
    except BaseException as error:  # whatever the user's class raises
        raise user_code_error(f"{title}: cannot be made", error) from error
    if missing:
        raise InputError(f"{title}: has no method {' and no '.join(missing)}; see {family.page}")
    return plugin


def resolve_parameters(
    title: str, key: str, code: Callable[..., Any], parameters: Mapping[str, Any], arguments: int = 0
) -> dict[str, Any]:
    """Check parameters against a signature, and return them with the types that it declares.

    The words on and off (yes and no, true and false) are booleans, also in lists and mappings, but not where
    the signature declares a text. ``arguments``: positional arguments that come before them.
    """
    try:
        signature = inspect.signature(code)
    except (TypeError, ValueError):  # compiled code may lack a signature
        return {name: _switched(value) for name, value in parameters.items()}
    taken = list(signature.parameters.values())[arguments:]
    by_name = {
        each.name: each for each in taken if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
    }
    takes_any = any(each.kind is each.VAR_KEYWORD for each in taken)
    shown = ", ".join(map(_shown, by_name.values())) or "none"
    for name in parameters:
        if name not in by_name and not takes_any:
            meant = nearest(name, by_name)
            raise InputError(f"{title}: {key}.parameters.{name}: is not known;{meant} it takes: {shown}")
    for name, each in by_name.items():
        if each.default is each.empty and name not in parameters:
            raise InputError(f"{title}: {key}.parameters.{name}: is missing; it takes: {shown}")
    return {
        name: _typed(f"{title}: {key}.parameters.{name}", value, by_name.get(name))
        for name, value in parameters.items()
    }


def _typed(place: str, value: Any, declared: inspect.Parameter | None) -> Any:
    """Return a value with the type that a signature declares; None: it declares none."""
    annotation = inspect.Parameter.empty if declared is None else declared.annotation
    if declared is None or annotation is declared.empty:
        return value if declared is not None and isinstance(declared.default, str) else _switched(value)
    names = set(re.findall(r"\w+", annotation if isinstance(annotation, str) else repr(annotation)))
    if isinstance(annotation, type) and issubclass(annotation, str | Enum):
        names.add("str")
    if names & {"str", "Literal"} and "bool" not in names:
        return value
    if annotation in (bool, "bool") and isinstance(value, str):
        try:
            return SWITCH.parse(value)
        except ValueError as error:
            raise InputError(f"{place}: {error}") from error
    return _switched(value)


def _switched(value: Any) -> Any:
    """Return a boolean for a word that is one; of a list, only where all its values are."""
    if isinstance(value, Mapping):
        return {name: _switched(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        switched = [_switched(item) for item in value]
        if not any(isinstance(item, str) for item in switched):
            return switched
        pairs = zip(value, switched, strict=True)
        return [item if isinstance(item, str) else new for item, new in pairs]
    try:
        return SWITCH.parse(value)
    except ValueError:
        return value


def _shown(parameter: inspect.Parameter) -> str:
    default = parameter.default
    return parameter.name if default is parameter.empty else f"{parameter.name} = {default!r:.40}"


def check_plugin(family: Family, name: str, execute: bool) -> None:
    """Check a plugin that a scenario names; without ``execute``, only the names of installed ones."""
    if execute and family.arguments:
        make_callable(family, name)
    elif execute:
        load_plugin(family, name)
    elif user_function(name) is None:
        _point(family, f"{family.name} {name}", name)


def _point(family: Family, title: str, name: str) -> EntryPoint:
    """Return the entry point of a plugin that exactly one installed package offers, without importing it."""
    points = sorted(entry_points(group=family.group), key=lambda point: point.value)
    for point in points:
        if point.name == name:
            if clash := _clash(point, points, family.words):
                raise InputError(f"{title}: {clash}")
            return point
    near = nearest(name, [*family.words, *(point.name for point in points)])
    raise InputError(f"{title}:{near} no installed package offers it in the group {family.group}")


def installed_plugins(family: Family) -> Iterator[tuple[str, str, str]]:
    """Yield name, where it is defined, and why it cannot be used ('' if it can), of every entry point."""
    points = sorted(entry_points(group=family.group), key=lambda point: (point.name, point.value))
    for point in points:
        trouble = _clash(point, points, family.words)
        if not trouble:
            try:
                point.load()
            except BaseException as error:  # whatever the package raises
                trouble = str(user_code_error("cannot be imported", error))
        yield point.name, point.value, trouble


def _clash(point: EntryPoint, points: list[EntryPoint], words: tuple[str, ...]) -> str:
    """Return why a name cannot be used, whatever is behind it."""
    if point.name.casefold() in (word.casefold() for word in words):
        return "its name is one of mlsim's own"
    same = [other.value for other in points if other.name == point.name]
    if len(same) > 1:
        return f"its name is there {len(same)} times: {', '.join(same)}"
    return ""


def _from_file(family: Family, title: str, file: str, name: str) -> Any:
    path = expanded(file)
    if not is_file(path):
        raise InputError(f"{title}: there is no file {named(path)}")
    source = read_code(path, title)
    module = ModuleType(f"{_MODULE}_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # where dataclasses look up the names of a class's module
    try:
        exec(compile(source, str(path), "exec"), vars(module))
    except BaseException as error:  # whatever the user's file raises
        raise user_code_error(f"{title}: the file cannot be executed", error) from error
    code = vars(module).get(name)
    if _is_of(family, code):
        return code
    own = module.__name__
    others = [
        key
        for key, value in vars(module).items()
        if _is_of(family, value) and value.__module__ == own and not key.startswith("_")
    ]
    raise InputError(
        f"{title}: there is no {family.sort} {name!r}; the file has: {', '.join(sorted(others)) or 'none'}"
    )


def _is_of(family: Family, value: object) -> bool:
    return isinstance(value, type) or bool(family.arguments and inspect.isroutine(value))


def shielded(title: str, now: float, method: Callable[..., Any], *arguments: object) -> Any:
    """Call the user's code; whatever it raises becomes an error that names it and the time."""
    try:
        return method(*arguments)
    except BaseException as error:  # whatever the user's code raises
        raise user_code_error(f"{title}: failed at {now:g} s", error) from error
