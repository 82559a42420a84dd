"""Names and libraries that are loaded on first use."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any


def late(package: str, homes: dict[str, str]) -> Callable[[str], Any]:
    """Make the ``__getattr__`` of a package: its names, separated by spaces, per module that has them.

    A name must not be that of a module of the package: importing the module would replace it.
    """
    home_of = {name: f"{package}.{module}" for module, names in homes.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(home_of[name]), name)
        setattr(sys.modules[package], name, found)
        return found

    return get


def listed(package: str) -> Callable[[], list[str]]:
    """Make the ``__dir__`` of a package: the names that it gives, loaded or not, no inner ones."""

    def names() -> list[str]:
        module = vars(sys.modules[package])
        own = (name for name in module if name.startswith("__"))
        return sorted({*own, *module["__all__"]})

    return names
