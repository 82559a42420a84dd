"""Dispatchers, policies, allocators and predictors of the user's own: classes in files, and entry points.

A class is made without arguments, once a run. What its methods get and give is in ``PLUGINS.md`` beside this
file. Whatever goes wrong in them, or with their answers, is an error that names the plugin.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mlsim._files import expanded, is_file, named
from mlsim.batch.view import WaitingJobs
from mlsim.errors import InputError, user_code_error
from mlsim.scenario import Allocator, BatchConfig, Choice, Dispatcher, Policy, Predictor, user_function
from mlsim.scenario.files.code import read_code

__all__ = [
    "FAMILIES",
    "OwnAllocator",
    "OwnPolicy",
    "check_plugins",
    "installed",
    "make_plugin",
    "shielded",
]

Ints = NDArray[np.int64]
_MODULE = "mlsim_plugin"


class OwnPolicy(Protocol):
    """Orders the queue. An attribute ``live = False`` says that keys never change once a job waits."""

    def key(self, now: float, jobs: WaitingJobs) -> NDArray[np.float64]:
        """Give a key for each waiting job; smaller goes first, equal keys in order of arrival."""
        ...


class OwnAllocator(Protocol):
    """Chooses nodes."""

    def allocate(self, units: int, request: Ints, free: Ints, capacity: Ints) -> Any:
        """Give the node of each unit, or None where there is not room for all.

        ``request`` (R,) is what a unit asks for, ``free`` and ``capacity`` are (nodes, R).
        """
        ...


class Family(NamedTuple):
    """One sort of plugin: its entry points, the methods of a class of it, the words it must not take."""

    group: str
    methods: tuple[str, ...]
    words: tuple[str, ...]


FAMILIES = {
    "dispatcher": Family("mlsim.dispatchers", ("dispatch",), tuple(Dispatcher)),
    "policy": Family("mlsim.policies", ("key",), (*Policy, *Policy.aliases())),
    "allocator": Family("mlsim.allocators", ("allocate",), (*Allocator, *Allocator.aliases())),
    "predictor": Family("mlsim.predictors", ("predict", "learn"), (*Predictor, *Predictor.aliases())),
}


def make_plugin(family: str, name: str) -> Any:
    """Make the object that a scenario names.

    Parameters
    ----------
    family
        ``dispatcher``, ``policy``, ``allocator`` or ``predictor``; the key in the ``batch`` section too.
    name
        ``path/file.py:Class``, the path seen from the current directory, or the name of an entry point.

    Raises
    ------
    InputError
        If there is no such class, its name is taken, it cannot be made, or it lacks a method.
    """
    title = f"{family} {name}"
    file = user_function(name)
    kind = _from_file(title, *file) if file else _from_package(title, family, name)
    try:
        plugin = kind()
        missing = [name for name in FAMILIES[family].methods if not callable(getattr(plugin, name, None))]
    except BaseException as error:  # whatever the user's class raises
        raise user_code_error(f"{title}: cannot be made", error) from error
    if missing:
        raise InputError(f"{title}: has no method {' and no '.join(missing)}; see mlsim/batch/PLUGINS.md")
    return plugin


def check_plugins(config: BatchConfig, execute: bool) -> None:
    """Check the plugins that a scenario names.

    Parameters
    ----------
    config
        The scenario's, with files as they were found.
    execute
        Whether each is made. Otherwise no code of theirs is executed, and of installed ones it is checked
        that their names can be used; for files see :func:`mlsim.scenario.check_code`.

    Raises
    ------
    InputError
        If one cannot be made or used.
    """
    for family in FAMILIES:
        name = getattr(config, family)
        if isinstance(name, Choice):
            continue
        if execute:
            make_plugin(family, name)
        elif user_function(name) is None:
            _check_name(family, name)


def _check_name(family: str, name: str) -> None:
    """Check that one installed package offers a plugin, without importing it."""
    group, _, words = FAMILIES[family]
    title, points = f"{family} {name}", sorted(entry_points(group=group), key=lambda point: point.value)
    for point in points:
        if point.name == name:
            if clash := _clash(point, points, words):
                raise InputError(f"{title}: {clash}")
            return
    raise InputError(f"{title}: no installed package offers it in the group {group}")


def installed(family: str) -> Iterator[tuple[str, str, str]]:
    """Give name, where it is defined, and why it cannot be used ('' if it can), of every entry point."""
    group, _, words = FAMILIES[family]
    points = sorted(entry_points(group=group), key=lambda point: (point.name, point.value))
    for point in points:
        yield point.name, point.value, _trouble(point, points, words)


def _trouble(point: EntryPoint, points: list[EntryPoint], words: tuple[str, ...]) -> str:
    if clash := _clash(point, points, words):
        return clash
    try:
        point.load()
    except BaseException as error:  # whatever the package raises
        return str(user_code_error("cannot be imported", error))
    return ""


def _clash(point: EntryPoint, points: list[EntryPoint], words: tuple[str, ...]) -> str:
    """Say why a name cannot be used, whatever is behind it."""
    if point.name.casefold() in (word.casefold() for word in words):
        return "its name is one of mlsim's own"
    same = [other.value for other in points if other.name == point.name]
    if len(same) > 1:
        return f"its name is there {len(same)} times: {', '.join(same)}"
    return ""


def _from_package(title: str, family: str, name: str) -> Any:
    group = FAMILIES[family].group
    for found, _, trouble in installed(family):
        if found == name and trouble:
            raise InputError(f"{title}: {trouble}")
    for point in entry_points(group=group, name=name):
        return point.load()
    raise InputError(f"{title}: no installed package offers it in the group {group}")


def _from_file(title: str, file: str, name: str) -> Any:
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
    kind = vars(module).get(name)
    if not isinstance(kind, type):
        own = module.__name__
        classes = [
            key
            for key, value in vars(module).items()
            if isinstance(value, type) and value.__module__ == own and not key.startswith("_")
        ]
        raise InputError(
            f"{title}: there is no class {name!r}; the file has: {', '.join(sorted(classes)) or 'none'}"
        )
    return kind


def shielded(title: str, now: float, method: Callable[..., Any], *arguments: object) -> Any:
    """Call the user's code; whatever it raises becomes an error that names it and the time."""
    try:
        return method(*arguments)
    except BaseException as error:  # whatever the user's code raises
        raise user_code_error(f"{title}: failed at {now:g} s", error) from error
