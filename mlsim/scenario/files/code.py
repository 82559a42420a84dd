"""Files of the user's own Python code: checked by reading them, without executing anything.

A file is parsed into its syntax tree. Which names it binds when it is executed is what its statements at
the top say; code that binds names in other ways cannot be judged so.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from mlsim._files import read_bytes
from mlsim.errors import InputError
from mlsim.scenario.values.hints import nearest

__all__ = ["Sort", "check_definition", "read_code"]

Sort = Literal["class", "function", "class or function"]
"""What a scenario may want to find in a file."""
_MOST_BYTES = 1_000_000
_EXECUTE = "mlsim check --plugins executes the file to see"


def read_code(path: Path, title: str) -> bytes:
    """Read a file of Python code, of bounded size.

    Raises
    ------
    InputError
        If it cannot be read, or is too large to be code.
    """
    try:
        return read_bytes(path, "file of Python code", _MOST_BYTES)
    except InputError as error:
        raise InputError(f"{title}: {error}") from error


def check_definition(path: Path, name: str, sort: Sort, title: str) -> None:
    """Check that a file is Python and defines a class or a function, without executing it.

    Parameters
    ----------
    path
        The file.
    name
        What it is to define.
    sort
        What that is to be. A name that is imported or assigned may be anything.
    title
        What messages begin with.

    Raises
    ------
    InputError
        If the file cannot be read or parsed, or does not define it.
    """
    bound = dict(_bound(_parsed(path, title).body))
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


def _parsed(path: Path, title: str) -> ast.Module:
    source = read_code(path, title)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as invalid escapes: those are for whoever executes it
            return ast.parse(source, str(path))
    except SyntaxError as error:
        line = f" (line {error.lineno})" if error.lineno else ""
        raise InputError(f"{title}: the file is not Python: {error.msg}{line}") from error
    except (ValueError, RecursionError, MemoryError) as error:  # null bytes; nested too deeply
        raise InputError(f"{title}: the file is not Python that can be parsed: {error}") from error


def _bound(statements: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    """Go through the names that statements bind, with what they are bound to; ``*`` for all of a module."""
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
    """Go through the names that one statement assigns to, but for those in blocks inside it."""
    blocks = {
        id(inner) for field in ("body", "orelse", "finalbody") for inner in getattr(statement, field, ())
    }
    blocks |= {id(part) for field in ("handlers", "cases") for part in getattr(statement, field, ())}
    for child in ast.iter_child_nodes(statement):
        if id(child) in blocks:
            continue
        for node in ast.walk(child):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id, "other"
