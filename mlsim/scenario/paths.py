"""Where the files that a scenario names are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path

from mlsim._files import expanded, is_directory, is_file, named
from mlsim.errors import InputError
from mlsim.scenario.schema import Scenario
from mlsim.scenario.techniques import split_technique, user_function

__all__ = ["located_plugin", "located_technique", "resolve_path"]

VARIABLE = "MLSIM_TRACES"


def resolve_path(scenario: Scenario, path: str | Path, key: str = "workload.path") -> Path:
    """Find a file that a scenario names.

    An absolute path (or one from ``~``) is taken as it is. Others are looked up beside the scenario file, in
    each directory of $MLSIM_TRACES, and in ./traces.

    Parameters
    ----------
    scenario
        Whose file it is.
    path
        As the scenario writes it.
    key
        The scenario's key that holds it, for the message.

    Raises
    ------
    InputError
        If it is nowhere; the message lists where it was looked up and files with a similar name.
    """
    wanted = expanded(path)
    places = list(_places(scenario, wanted))
    for directory, _ in places:
        if is_file(directory / wanted):
            return directory / wanted
    raise InputError(_not_found(scenario, wanted, places, key))


def located_technique(scenario: Scenario) -> str:
    """Give the technique of a scenario's loops, files of techniques of the user as they were found.

    Raises
    ------
    InputError
        If such a file is nowhere.
    """
    levels = []
    for level in split_technique(scenario.application.technique):
        function = user_function(level)
        if function is not None:
            path = resolve_path(scenario, function[0], key="application.technique")
            level = f"{path}:{function[1]}"
        levels.append(str(level))
    return "+".join(levels)


def located_plugin(scenario: Scenario, key: str) -> str:
    """Give the name at a key of the ``batch`` section, a file of the user's own as it was found.

    Raises
    ------
    InputError
        If that file is nowhere.
    """
    name: str = getattr(scenario.batch, key)
    own = user_function(name)
    return name if own is None else f"{resolve_path(scenario, own[0], key=f'batch.{key}')}:{own[1]}"


def _places(scenario: Scenario, wanted: Path) -> Iterator[tuple[Path, str]]:
    if wanted.is_absolute():
        yield wanted.parent, "as given"
        return
    yield scenario.directory, "beside the scenario file"
    for directory in os.environ.get(VARIABLE, "").split(os.pathsep):
        if directory:
            yield expanded(directory), f"from ${VARIABLE}"
    yield Path("traces"), "in the current directory"


def _not_found(scenario: Scenario, wanted: Path, places: list[tuple[Path, str]], key: str) -> str:
    lines = [f"{scenario.source}: {key}: there is no file '{named(wanted)}'; looked for"]
    for directory, reason in places:
        path = directory / wanted
        lines.append(f"  {named(path)} ({reason}{'; a directory' if is_directory(path) else ''})")
    similar = _similar(wanted, [directory for directory, _ in places])
    if similar:
        lines.append(f"did you mean {' or '.join(similar)}?")
    if not wanted.is_absolute():
        lines.append(f"set {VARIABLE} to the directory of your logs (several with '{os.pathsep}' between)")
    return "\n".join(lines)


def _similar(wanted: Path, directories: list[Path]) -> list[str]:
    """Give files with a similar name in the directories where the file was looked for."""
    found: dict[str, None] = {}
    for directory in directories:
        folder = (directory / wanted).parent
        names = _files_in(folder)
        for name in get_close_matches(wanted.name, names, n=2, cutoff=0.6):
            found[str(folder / name)] = None
    return list(found)[:3]


def _files_in(folder: Path) -> list[str]:
    try:
        return [item.name for item in folder.iterdir() if is_file(item)]
    except (OSError, ValueError):
        return []  # there is none, or it may not be looked into
