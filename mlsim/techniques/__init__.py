"""Techniques: the rules for chunk sizes, one record each, with their compiled functions.

To add a technique, add a module with a :class:`TechniqueEntry` to this package; nothing else names it.
"""

from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType

from mlsim.techniques.technique_entry import TechniqueEntry

__all__ = ["TECHNIQUES", "TechniqueEntry"]

_SWITCH = "technique_rules"  # built from the records once a kernel needs it: it loads the compiler


def _discover() -> list[TechniqueEntry]:
    """Return the records of all modules of this package, in the order of their codes."""
    modules = [
        import_module(f"{__name__}.{module.name}")
        for module in iter_modules(__path__)
        if module.name != _SWITCH
    ]
    entries: dict[int, TechniqueEntry] = {}
    for module in modules:
        for value in vars(module).values():
            if isinstance(value, TechniqueEntry) and entries.setdefault(value.code, value) is not value:
                raise ValueError(
                    f"{value.name} and {entries[value.code].name} have the same code, {value.code}"
                )
    return [entries[code] for code in sorted(entries)]


TECHNIQUES = MappingProxyType({entry.name: entry for entry in _discover()})
"""Every technique by name, in the order of the kernels' codes."""
