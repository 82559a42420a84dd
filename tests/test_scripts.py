"""Scripts beside scenarios: they run where mlsim is installed as its README says."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SCRIPTS = sorted((ROOT / "scenarios").rglob("*.py"))
MORE = {"scenarios/mpi": ["mpi"]}
"""Extras that a folder's README asks for."""


def packages(lines: list[str]) -> set[str]:
    """Return the names under which requirements are imported."""
    return {re.split(r"[^\w]", line, maxsplit=1)[0] for line in lines}


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield str(node.module).partition(".")[0]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT / "scenarios")))
def test_a_script_imports_what_an_installation_has(path: Path) -> None:
    """What a developer's environment has besides is not there for users."""
    extras = [extra for folder, names in MORE.items() if (ROOT / folder) in path.parents for extra in names]
    lines = [*PROJECT["dependencies"], *(PROJECT["optional-dependencies"][extra] for extra in extras)]
    flat = [each for line in lines for each in ([line] if isinstance(line, str) else line)]
    beside = {other.stem for other in path.parent.glob("*.py")}
    assert set(imported(path)) <= packages(flat) | {"mlsim"} | beside | sys.stdlib_module_names


TOOLS = sorted((ROOT / "tools").rglob("*.py"))


@pytest.mark.parametrize("path", [*SCRIPTS, *TOOLS], ids=lambda path: str(path.relative_to(ROOT)))
def test_a_script_uses_names_that_mlsim_has(path: Path) -> None:
    """No type checker reads the scripts: a name that a change of mlsim removed shows here."""
    tree = ast.parse(path.read_text())
    modules: dict[str, ModuleType] = {}
    missing = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or not str(node.module).startswith("mlsim"):
            continue
        package = import_module(str(node.module))
        for name in node.names:
            if not hasattr(package, name.name) and not find_spec(f"{node.module}.{name.name}"):
                missing.append(f"{node.module}.{name.name}")
            elif isinstance(found := getattr(package, name.name, None), ModuleType):
                modules[name.asname or name.name] = found
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
            continue
        module = modules.get(node.value.id)
        if module and not hasattr(module, node.attr):
            missing.append(f"{node.value.id}.{node.attr} (line {node.lineno})")
    assert not missing
