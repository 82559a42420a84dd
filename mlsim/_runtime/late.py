"""Names and libraries that are imported on first use, and imports without garbage collection."""

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any


def late(package: str, homes: dict[str, str]) -> Callable[[str], Any]:
    """Make the ``__getattr__`` of a package: its names, none of them a module's, per module that has them."""
    home_of = {name: f"{package}.{module}" for module, names in homes.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(home_of[name]), name)
        setattr(sys.modules[package], name, found)
        return found

    return get


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
