"""Names and libraries that are imported on first use, and imports without garbage collection."""

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any


def late(package: str) -> Callable[[str], Any]:
    """Make the ``__getattr__`` of a package, for the names that it imports where types are checked.

    The block ``if TYPE_CHECKING:`` of its source is the only list of the names and their modules. No name is
    that of a module.
    """
    home_of: dict[str, str] = {}

    def get(name: str) -> Any:
        if not home_of:
            home_of.update(_imported_for_types(package))
        if name == "__all__":  # of a package that does not list them itself
            return sorted(home_of)
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(home_of[name]), name)
        setattr(sys.modules[package], name, found)
        return found

    return get


def _imported_for_types(package: str) -> dict[str, str]:
    """Return the module of each name that the source of a package imports in a block of its own."""
    import ast

    loader: Any = sys.modules[package].__loader__
    blocks = (part.body for part in ast.parse(loader.get_source(package)).body if isinstance(part, ast.If))
    imports = (one for body in blocks for one in body if isinstance(one, ast.ImportFrom))
    return {alias.name: str(one.module) for one in imports for alias in one.names}


def listed(package: str) -> Callable[[], list[str]]:
    """Make the ``__dir__`` of a package: its public names, loaded or not, and no inner ones."""

    def names() -> list[str]:
        module = vars(sys.modules[package])
        own = (name for name in module if name.startswith("__"))
        return sorted({*own, *module["__all__"]})

    return names


@contextmanager
def importing() -> Iterator[None]:
    """Collect no garbage in this block: modules make little, and looking takes a seventh of a short run."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def load_for_good(*modules: str) -> None:
    """Import modules, and exclude all objects that exist then (140,000) from garbage collection.

    For commands: each collection would spend 0.1 s on them, a handful of times per run.
    """
    with importing():
        for module in modules:
            import_module(module)
        if not gc.get_freeze_count():  # once a process: garbage of earlier runs would be kept as well
            gc.freeze()


def load_matplotlib() -> None:
    """Import what draws a picture, if it is not there yet."""
    if "matplotlib.figure" not in sys.modules:
        with importing():
            import matplotlib.backends.backend_agg
            import matplotlib.figure  # noqa: F401 - the rest follows from it
