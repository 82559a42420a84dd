"""Files that a scenario names, user-defined code among them."""

import ast
import os
import warnings
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, cast

from mlsim._files import expanded, is_directory, is_file, named, read_bytes
from mlsim.errors import InputError
from mlsim.scenario.field_types import nearest
from mlsim.scenario.scenario_schema import Scenario
from mlsim.scenario.section_base import parameters_of, user_function, with_parameters
from mlsim.scenario.technique_section import split_technique
from mlsim.scenario.words import ApplicationModel

Sort = Literal["class", "function", "class or function"]  # kinds of code that a scenario may name in a file
_MOST_BYTES = 1_000_000
_EXECUTE = "mlsim check --plugins executes the file to see"


def read_code(path: Path, title: str) -> bytes:
    """Read a file of Python code, of bounded size."""
    try:
        return read_bytes(path, "file of Python code", _MOST_BYTES)
    except InputError as error:
        raise InputError(f"{title}: {error}") from error


def check_definition(path: Path, name: str, sort: Sort, title: str) -> None:
    """Check that a file is Python and defines a class or function, without executing it."""
    source = read_code(path, title)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as invalid escapes: its execution reports those
            tree = ast.parse(source, str(path))
    except SyntaxError as error:
        line = f" (line {error.lineno})" if error.lineno else ""
        raise InputError(f"{title}: the file is not Python: {error.msg}{line}") from error
    except (ValueError, RecursionError, MemoryError) as error:  # null bytes; nested too deeply
        raise InputError(f"{title}: the file is not Python that can be parsed: {error}") from error
    bound = dict(_bound(tree.body))
    if "*" in bound and name not in bound:
        return  # it may come with what the file imports
    sorts = sort.split(" or ")
    if name not in bound:
        others = sorted(key for key, found in bound.items() if found in sorts and not key.startswith("_"))
        hint = nearest(name, others)
        raise InputError(
            f"{title}: there is no {sort} {name!r};{hint} the file has: {', '.join(others) or 'none'} "
            f"({_EXECUTE})"
        )
    if bound[name] not in ("other", *sorts):
        raise InputError(f"{title}: {name!r} is a {bound[name]}; needed: a {sort}")


def _bound(statements: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    """Yield the names that statements bind, with the kind of each value; ``*`` for all of a module."""
    for statement in statements:
        match statement:
            case ast.ClassDef(name=name):
                yield name, "class"
            case ast.FunctionDef(name=name, decorator_list=[]):
                yield name, "function"
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name, "other"
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                for alias in names:
                    yield alias.asname or alias.name.split(".")[0], "other"
            case _:
                yield from _assigned(statement)
                for block in ("body", "orelse", "finalbody"):
                    yield from _bound(getattr(statement, block, []))
                for handler in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
                    yield from _bound(handler.body)


def _assigned(statement: ast.stmt) -> Iterator[tuple[str, str]]:
    """Yield the names that one statement assigns to, except for those in blocks inside it."""
    fields = ("body", "orelse", "finalbody", "handlers", "cases")
    blocks = {id(inner) for field in fields for inner in getattr(statement, field, ())}
    for child in ast.iter_child_nodes(statement):
        if id(child) in blocks:
            continue
        for node in ast.walk(child):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id, "other"


VARIABLE = "MLSIM_TRACES"
_JOBS = "jobs.parquet"  # of a run, or of a workload directory, which is a workload as a whole
PLUGIN_KEYS = ("dispatcher", "policy", "allocator", "data", "predictor")
"""Keys of the ``batch`` section that may name a class of the user's own."""
_EITHER: Sort = "class or function"


def resolve_path(scenario: Scenario, path: str | Path, key: str = "workload.path") -> Path:
    """Find a file that a scenario names.

    Paths that are not absolute count from the scenario file, from where an earlier run read it, from each
    directory of $MLSIM_TRACES, and from ./traces.
    """
    wanted = expanded(path)
    places = list(_places(scenario, wanted))
    for directory, _ in places:
        found = directory / wanted
        if is_file(found) or (key == "workload.path" and is_file(found / _JOBS)):
            return found
    advice = f"set {VARIABLE} to the directory of your logs (several with '{os.pathsep}' between)"
    raise InputError(_not_found(scenario, wanted, places, key, advice))


def resolve_code(scenario: Scenario, path: str, key: str) -> Path:
    """Find a file of code that a scenario names.

    An absolute path (or one from ``~``) is taken as it is. Others are looked up beside the scenario file, of
    an earlier run's scenario also where that run read it, and nowhere else: what is executed does not depend
    on where logs are kept, nor on the current directory.
    """
    wanted = expanded(path)
    places = list(_places(scenario, wanted))
    own, others = places[: 1 + len(scenario.earlier)], places[1 + len(scenario.earlier) :]
    for place, _ in own:
        if is_file(place / wanted):
            return place / wanted
    elsewhere = next((place / wanted for place, _ in others if is_file(place / wanted)), None)
    advice = f"code is not looked up in ${VARIABLE} or ./traces"
    here = Path.cwd() / wanted
    if elsewhere is None and is_file(here):
        advice += ", nor in the current directory: the same command would execute another file elsewhere"
        elsewhere = here
    if elsewhere is not None:
        advice += f"; if {named(elsewhere)} is meant, name it by its whole path"
    raise InputError(_not_found(scenario, wanted, own, key, advice))


def located_technique(scenario: Scenario, technique: str | None = None) -> str:
    """Return the technique of a scenario's loops (or one of its portfolio), with files of code located."""
    name = scenario.application.technique if technique is None else technique
    key = _technique_key(scenario)
    levels = [located_code(scenario, key, level) for level in split_technique(name)]
    return with_parameters("+".join(map(str, levels)), parameters_of(name))


def _technique_key(scenario: Scenario) -> str:
    selects = scenario.application.selects is not None
    return "application.selection.portfolio" if selects else "application.technique"


def located_code(scenario: Scenario, key: str, value: str | None = None) -> str:
    """Return the name at a key, or ``value`` of a list there, with its file of code located if it has one."""
    name: Any = scenario if value is None else value
    for part in key.split(".") if value is None else ():
        name = name[int(part)] if part.isdecimal() else getattr(name, part)
    own = user_function(name)
    if own is None:
        return cast(str, name)
    return with_parameters(f"{resolve_code(scenario, own[0], key)}:{own[1]}", parameters_of(name))


def check_code(scenario: Scenario) -> None:
    """Check that files of user-defined code exist and define the names used, without executing them."""
    generate = scenario.workload.generate
    names: list[tuple[str, str | None, Sort]] = [
        (f"batch.{key}", getattr(scenario.batch, key), "class") for key in PLUGIN_KEYS
    ]
    names.append(("workload.format", scenario.workload.format, _EITHER))
    if generate is not None:
        names.append(("workload.generate.model", generate.model, _EITHER))
    for row, writer in enumerate(scenario.output.writers or ()):
        names.append((f"output.writers.{row}", writer, _EITHER))
    for of_one in scenario.by_application.values():
        application = of_one.application
        if application.model is ApplicationModel.LOOP:
            key = of_one.with_own_keys("application.execution.model")
            names.append((key, application.execution.model, _EITHER))
            levels = [level for name in application.techniques for level in split_technique(name)]
            names += [(of_one.with_own_keys(_technique_key(of_one)), level, _EITHER) for level in levels]
    for key, name, sort in names:
        if name is not None and (own := user_function(name)):
            path = resolve_code(scenario, own[0], key)
            check_definition(path, own[1], sort, f"{scenario.source}: {key}: {path}")


def _places(scenario: Scenario, wanted: Path) -> Iterator[tuple[Path, str]]:
    if wanted.is_absolute():
        yield wanted.parent, "as given"
        return
    yield scenario.directory, "beside the scenario file"
    for earlier in scenario.earlier:
        yield earlier, "where the run read its scenario"
    for directory in os.environ.get(VARIABLE, "").split(os.pathsep):
        if directory:
            yield expanded(directory), f"from ${VARIABLE}"
    yield Path("traces"), "in the current directory"


def _not_found(
    scenario: Scenario, wanted: Path, places: list[tuple[Path, str]], key: str, advice: str
) -> str:
    key = scenario.with_own_keys(key)
    lines = [f"{scenario.source}: {key}: there is no file '{named(wanted)}'; looked for"]
    for directory, reason in places:
        path = directory / wanted
        without = f" without {_JOBS}" if key == "workload.path" else ""
        lines.append(f"  {named(path)} ({reason}{f'; a directory{without}' if is_directory(path) else ''})")
    similar = _similar(wanted, [directory for directory, _ in places])
    if similar:
        lines.append(f"did you mean {' or '.join(similar)}?")
    if not wanted.is_absolute():
        lines.append(advice)
    return "\n".join(lines)


def _similar(wanted: Path, directories: list[Path]) -> list[str]:
    """Return files with a similar name in the directories searched for the file."""
    found: dict[str, None] = {}
    for folder in [(directory / wanted).parent for directory in directories]:
        try:
            names = [item.name for item in folder.iterdir() if is_file(item)]
        except (OSError, ValueError):
            continue  # there is none, or it may not be looked into
        close = get_close_matches(wanted.name, names, n=2, cutoff=0.6)
        found |= dict.fromkeys(str(folder / name) for name in close)
    return list(found)[:3]
