"""No function is longer than a reader can hold; complexity and statements are ruff's to check."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "mlsim"
LONGEST = 80
"""Lines of a function, signature and docstring included."""


def test_no_function_is_too_long() -> None:
    long = [
        f"{file.relative_to(PACKAGE)}:{node.lineno} {node.name}: {lines} lines"
        for file in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > LONGEST
    ]
    assert not long
