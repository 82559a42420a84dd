"""What tells one run of a study from another: a digest of all that its results depend on."""

from __future__ import annotations

import ast
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from mlsim import __version__
from mlsim._files import expanded, open_file, read_bytes
from mlsim.errors import InputError
from mlsim.scenario import split_technique, user_function
from mlsim.scenario.files.paths import VARIABLE

__all__ = ["Digests", "located", "tool"]

_SHOWN = ("pictures", "csv", "writers")
"""Keys of ``output`` that are of no account for metrics; what is traced may be measured."""
_LONGEST_PATH = 4096


class Digests:
    """Makes the digests of the runs of one study.

    A digest is of the keys that are given (without name and description, and what is only about output),
    of the contents of all files that they name, and of mlsim: version, sources, and installed plugins.
    Files are read once, so that what changes while a study is done is of no account.

    Parameters
    ----------
    kind
        What the study is of.
    directory
        Where relative paths are looked up first.
    """

    def __init__(self, kind: str, directory: Path) -> None:
        self._head = json.dumps([kind, *tool()])
        self._directory = directory
        self._files: dict[str, str] = {}

    def of(self, given: Mapping[str, Any]) -> str:
        """Return the digest of a run, by the keys of its scenario that are given."""
        kept = {key: value for key, value in given.items() if key not in ("name", "description")}
        if isinstance(kept.get("output"), Mapping):
            kept["output"] = {key: value for key, value in kept["output"].items() if key not in _SHOWN}
            if not kept["output"]:
                del kept["output"]
        files = sorted({found for text in _texts(kept) for found in [self._file(text)] if found})
        data = json.dumps([self._head, kept, files], sort_keys=True, default=str)
        return hashlib.sha256(data.encode("utf-8", "surrogateescape")).hexdigest()[:40]

    def output(self, given: Mapping[str, Any]) -> str:
        """Return a digest of what is only about output."""
        output = given.get("output")
        data = json.dumps([given.get("name"), output], sort_keys=True, default=str)
        return hashlib.sha256(data.encode()).hexdigest()[:16]

    def _file(self, text: str) -> str:
        """Return the checksum of what a text names: a file, or code in one; "" if it names none."""
        found = self._files.get(text)
        if found is None:
            found = self._files[text] = "".join(self._checksums(text))
        return found

    def _checksums(self, text: str) -> Iterator[str]:
        if len(text) > _LONGEST_PATH or "\0" in text or "\n" in text:
            return
        own = (user_function(level) for level in split_technique(text))
        names = [text, *(found[0] for found in own if found is not None)]
        for name in dict.fromkeys(names):
            path = _found(name, self._directory)
            if path is not None:
                yield from (_content(part) for part in [path, *_siblings(path)])


def located(given: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """Return the keys of a scenario, files that they name by their whole paths, so that it may lie anywhere.

    Files are at keys called ``path``, and before the colon of ``./file.py:Name``.
    """
    return {key: _located(key, value, directory) for key, value in given.items()}


def _located(key: str, value: Any, directory: Path) -> Any:
    if isinstance(value, Mapping):
        return located(value, directory)
    if isinstance(value, list | tuple):
        return [_located("", item, directory) for item in value]
    if not isinstance(value, str):
        return value
    if key == "path":
        path = _found(value, directory)
        return value if path is None else str(path.resolve())
    levels = []
    for level in split_technique(value):
        own = user_function(level)
        path = None if own is None else _found(own[0], directory)
        levels.append(level if own is None or path is None else f"{path.resolve()}:{own[1]}")
    return "+".join(levels)


def _found(name: str, directory: Path) -> Path | None:
    """Return the file that a name stands for, where scenarios look for files."""
    try:
        wanted = expanded(name)
        variable = os.environ.get(VARIABLE, "").split(os.pathsep)
        places = [directory, *(expanded(place) for place in variable if place), Path("traces")]
        return next((place / wanted for place in places if (place / wanted).is_file()), None)
    except (InputError, OSError, ValueError):  # the scenario says so where it is to be a path
        return None


def _texts(value: Any) -> Iterator[str]:
    """Yield every text in mappings and lists, of values alone."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)


def _siblings(path: Path) -> Iterator[Path]:
    """Yield the modules beside a file of code that it imports, and that they import."""
    seen, left = {path}, [path]
    while left:
        file = left.pop()
        if file.suffix != ".py":
            continue
        for name in _imported(file):
            for other in (path.parent / f"{name}.py", path.parent / name / "__init__.py"):
                if other not in seen and other.is_file():
                    seen.add(other)
                    left.append(other)
                    yield other


def _imported(file: Path) -> set[str]:
    try:
        tree = ast.parse(read_bytes(file))
    except (InputError, SyntaxError, ValueError, RecursionError):
        return set()  # whoever executes it says what is wrong
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {(node.module or "").split(".")[0], *(alias.name for alias in node.names)}
    return names - {""}


def _content(path: Path) -> str:
    try:
        with open_file(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (InputError, OSError):
        return ""  # the run says why it cannot be read


@cache
def tool() -> tuple[str, ...]:
    """Return what stands for mlsim: version, sources, and versions of packages with plugins for it."""
    package = Path(__file__).parents[2]
    sources = hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        sources.update(file.relative_to(package).as_posix().encode())
        sources.update(read_bytes(file))
    plugins = sorted(
        f"{package.name} {package.version}"
        for package in distributions()
        if any(point.group.startswith("mlsim.") for point in package.entry_points)
    )
    return __version__, sources.hexdigest(), *plugins
