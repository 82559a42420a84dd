"""Scenario files, texts and mappings to scenarios."""

import copy
import difflib
import json
import marshal
import os
from collections.abc import Mapping
from functools import lru_cache
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mlsim._files import expanded, is_directory, is_file, is_there, named, read_text
from mlsim.errors import InputError
from mlsim.scenario import field_types, simulation_demand
from mlsim.scenario.overrides import (
    apply_overrides,
    find_problems,
    rename_keys,
    renamed_overrides,
    uses_aliases,
)
from mlsim.scenario.scenario_schema import Scenario
from mlsim.scenario.scenario_text import Document, Problem, parse_text, plain
from mlsim.scenario.scenario_text import Path as Key
from mlsim.scenario.section_base import Section, field_kind

_KEY = "read_in"
_BESIDE = "versions.json"
_SCENARIOS = ("scenario.yaml", "loop.yaml")  # names under which a run keeps its scenario
_MOST_BYTES = 100_000
_MOST = 10  # runs of runs of which directories are kept


def read_in(scenario: Scenario, directory: Path) -> dict[str, Any]:
    """Return where a run's scenario was read, for its file of versions, relative to its directory."""
    places = [
        os.path.relpath(path.absolute(), directory.absolute())
        for path in (scenario.directory, *scenario.earlier)
    ]
    return {_KEY: list(dict.fromkeys(places))[:_MOST]}


def earlier_directories(file: Path) -> tuple[Path, ...]:
    """Return where the scenario of a run was read, the latest first; nothing if the file is of no run."""
    notes = file.parent / _BESIDE
    if file.name not in _SCENARIOS or not is_file(notes):
        return ()
    try:
        places = json.loads(read_text(notes, "file of versions", _MOST_BYTES)).get(_KEY, ())
    except (InputError, ValueError, AttributeError):  # not of a run, or damaged: `mlsim check` reports it
        return ()
    known = isinstance(places, list) and all(isinstance(place, str) and place for place in places)
    home = file.parent.absolute()
    return tuple(Path(os.path.normpath(home / place)) for place in places[:_MOST]) if known else ()


_MOST_PROBLEMS = 20
_LARGEST_SCENARIO = 4_000_000


def load(path: str | Path, overrides: Mapping[str, object] | None = None) -> Scenario:
    """Read a scenario file.

    Parameters
    ----------
    path
        A YAML file, in UTF-8.
    overrides
        Dotted key to plain value (see :func:`parse_override`), put in before anything is checked; None
        takes a key out, so that its default holds.

    Raises
    ------
    InputError
        If there is no such file, or it is not YAML, or does not describe a scenario. The message lists all
        problems, each with file, line, key, what was found and what is allowed.
    """
    file = expanded(_path(path))
    text = _read(file)
    return _build(_parsed(text, str(path)), str(path), file.stem, file.parent, overrides)


def loads(
    text: str,
    name: str = "scenario",
    overrides: Mapping[str, object] | None = None,
    directory: str | Path = ".",
) -> Scenario:
    """Read a scenario from YAML text, with overrides as for :func:`load`.

    ``name`` is the text's in messages, and the scenario's (without a suffix) if it has none; ``directory`` is
    where its relative paths are looked up first.
    """
    seed = None if overrides is None else _seed_in(overrides)
    if seed is not None:
        others = _bytes_of({key: value for key, value in (overrides or {}).items() if key != _SEED})
        if others is not None:
            return _known_but_for_seed(text, name, others, directory).with_seed(seed)
    return _build(_parsed(text, name), name, Path(name).stem, Path(directory), overrides)


def _seed_in(overrides: Mapping[str, object]) -> int | None:
    """Return the seed that overrides give; None if there is none, or none that can be one."""
    kind = field_kind(Scenario.model_fields[_SEED])
    try:
        return None if kind is None or overrides.get(_SEED) is None else int(kind.parse(overrides[_SEED]))
    except ValueError:
        return None


@lru_cache(maxsize=256)
def _known_but_for_seed(text: str, name: str, others: bytes, directory: str | Path) -> Scenario:
    """Build a scenario once where runs of a study differ in the seed alone, which no rule reads."""
    overrides = {**marshal.loads(others), _SEED: 0}
    return _build(_parsed(text, name), name, Path(name).stem, Path(directory), overrides)


_SEED = "seed"


def from_mapping(
    value: Mapping[str, Any],
    name: str = "scenario",
    overrides: Mapping[str, object] | None = None,
    directory: str | Path = ".",
) -> Scenario:
    """Build a scenario from plain mappings and lists, shaped like a scenario file; see :func:`loads`."""
    return _build(Document(_without_empty(value)), name, Path(name).stem, Path(directory), overrides)


def overridden(text: str, name: str, overrides: Mapping[str, object]) -> dict[str, Any]:
    """Return the mapping of a scenario's text with overrides applied, unchecked and without defaults."""
    document = _parsed(text, name)
    if not isinstance(document.value, dict):
        return {}
    plain_overrides = _plain_overrides(overrides)
    value = _to_change(_with_todays_keys(document, notes=False).value, plain_overrides)
    apply_overrides(value, plain_overrides)
    return value


@lru_cache(maxsize=8)
def _parsed(text: str, name: str) -> Document:
    """Parse a text once where many scenarios are made of it, as by a study."""
    return parse_text(text, name)


def _without_empty(value: Any) -> Any:
    """Copy mappings and lists, leaving out keys without a value, so that their defaults hold."""
    if isinstance(value, Section):
        return plain(value)
    if isinstance(value, PathLike):
        return fspath(value)
    if isinstance(value, Mapping):
        return {str(key): _without_empty(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return [_without_empty(item) for item in value]
    return value


def _path(path: object) -> Path:
    if isinstance(path, str | PathLike):
        return Path(fspath(path))
    hint = ""
    if isinstance(path, Mapping):
        hint = "; mlsim.scenario.from_mapping makes a scenario of a mapping that is shaped like such a file"
    raise InputError(
        f"a scenario: found {type(path).__name__}; allowed: the path of a scenario file (str or Path), or "
        f"a Scenario, which mlsim.load(path) gives{hint}"
    )


def _read(path: Path) -> str:
    if is_directory(path):
        raise InputError(f"{named(path)}: is a directory; name a scenario file in it{_scenarios_in(path)}")
    try:
        return read_text(path, "scenario file", _LARGEST_SCENARIO)
    except InputError as error:
        if is_there(path):
            raise
        raise InputError(f"{error}{_similar_file(path)}") from error


def _build(
    document: Document, source: str, stem: str, directory: Path, overrides: Mapping[str, object] | None
) -> Scenario:
    value = document.value
    if not isinstance(value, dict):
        keys = ", ".join(Scenario.model_fields)
        found = "empty" if value is None else f"a scenario is a mapping, this is {field_types.shown(value)}"
        raise InputError(f"{source}: {found}; its keys: {keys}")
    if not {"platform", "workload"} & value.keys() and {"base", "vary"} & value.keys():
        raise InputError(f"{source}: is a study by its keys; mlsim study {source} runs it")
    earlier = earlier_directories(directory / Path(source).name)
    document = _with_todays_keys(document, notes=not earlier)
    plain_overrides = _plain_overrides(overrides or {})
    value = {"name": stem or "scenario"} | _to_change(document.value, plain_overrides)
    given, problems = apply_overrides(value, plain_overrides)
    value.setdefault("name", stem or "scenario")
    problems = document.problems + problems
    scenario = None
    try:
        scenario = _validated(value)
    except ValidationError:
        known = {problem.key for problem in problems}
        problems += [problem for problem in find_problems(value) if problem.key not in known]
    if problems or scenario is None:
        raise InputError(_report(problems, document, source, given))
    scenario = scenario.located(directory, source, earlier)
    simulation_demand.check_machine(scenario)
    return scenario


def _with_todays_keys(document: Document, *, notes: bool) -> Document:
    """Return a document in which every key has its own name; the same one if it has no other names."""
    if not uses_aliases(document.value):
        return document
    found = Document(copy.deepcopy(document.value), dict(document.lines), list(document.problems))
    found.problems += rename_keys(found.value, found.lines, notes=notes)
    return found


def _plain_overrides(overrides: Mapping[str, object]) -> dict[str, object]:
    return renamed_overrides({key: _without_empty(item) for key, item in overrides.items()})


def _to_change(value: dict[Any, Any], overrides: Mapping[str, object]) -> dict[Any, Any]:
    """Copy as much of a document as overrides may change."""
    changed = {key.split(".")[0] for key in overrides}
    return {key: copy.deepcopy(part) if str(key) in changed else part for key, part in value.items()}


def _validated(value: dict[Any, Any]) -> Scenario:
    """Validate a scenario; sections validated before, for other runs of a study, are reused."""
    try:
        parts = {key: _section(key, part) if key in _SECTIONS else part for key, part in value.items()}
    except ValidationError:
        parts = value  # whose error has the whole key
    return Scenario.model_validate(parts)


_SECTIONS: dict[str, type[Section]] = {
    name: field.annotation
    for name, field in Scenario.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, Section)
}


def _section(name: str, part: Any) -> Any:
    """Return a section of a scenario, validated; what is too large to be kept is left as it is."""
    plain_bytes = _bytes_of(part)
    return part if plain_bytes is None else _known_section(name, plain_bytes)


def _bytes_of(values: Any) -> bytes | None:
    """Return an identity of plain values as bytes; None if they are not plain, or too large to be kept."""
    try:
        plain_bytes = marshal.dumps(values, _WITHOUT_REFERENCES)
    except ValueError:
        return None
    return plain_bytes if len(plain_bytes) <= _MOST_KEPT else None


@lru_cache(maxsize=256)
def _known_section(name: str, plain_bytes: bytes) -> Section:
    return _SECTIONS[name].model_validate(marshal.loads(plain_bytes))


_WITHOUT_REFERENCES = 2  # the version of marshal that writes the same values as the same bytes
_MOST_KEPT = 20_000  # bytes of a section that is kept


def _report(problems: list[Problem], document: Document, source: str, given: dict[Key, str]) -> str:
    """Write the problems in the order of the file, those of overrides last, not more than one screen."""
    lines = sorted(_located(problem, document, source, given) for problem in problems)
    texts = [text for *_, text in lines]
    if len(texts) == 1:
        return texts[0]
    rest = len(texts) - _MOST_PROBLEMS
    more = [f"and {rest} more"] if rest > 0 else []
    return "\n".join([f"{source}: {len(texts)} problems", *texts[:_MOST_PROBLEMS], *more])


def _located(
    problem: Problem, document: Document, source: str, given: dict[Key, str]
) -> tuple[bool, int, str, str]:
    key = ".".join(map(str, problem.key))
    for overridden in given:
        if list(map(str, problem.key[: len(overridden)])) == list(map(str, overridden)):
            return True, 0, key, f"--set {key}: {problem.message}"
    if problem.key not in document.lines:
        for overridden, text in given.items():
            if problem.key and problem.key == overridden[: len(problem.key)]:
                return True, 0, text, f"--set {text}: {key}: {problem.message}"
    line = problem.line or document.line_of(problem.key)
    place = source if line is None else f"{source}:{line}"
    return False, line or 0, key, ": ".join(part for part in (place, key, problem.message) if part)


def _similar_file(path: Path) -> str:
    try:
        names = [item.name for item in path.parent.iterdir()]
    except (OSError, ValueError):
        return f" (and no directory {named(path.parent)})"
    close = difflib.get_close_matches(path.name, names, n=1, cutoff=0.7)
    return f"; did you mean {path.parent / close[0]}?" if close else ""


def _scenarios_in(path: Path) -> str:
    try:
        names = sorted(item.name for item in path.iterdir() if item.suffix in (".yaml", ".yml"))
    except OSError:
        return ""  # it may not be looked into
    return f": {', '.join(names[:5])}{', ...' if len(names) > 5 else ''}" if names else ""
