"""What the keys of a section mean: the docstrings below its fields, as schema and listings show them.

They are read from the source when they are asked for, since most runs need none.
"""

from __future__ import annotations

import ast
import inspect
import sys
from functools import cache

from pydantic import BaseModel

__all__ = ["meaning"]


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
