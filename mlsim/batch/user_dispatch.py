"""User-defined dispatchers, policies, allocators, data and predictors."""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from mlsim._runtime.arrays import Floats, Ints
from mlsim.batch.view import StateView, WaitingJobs
from mlsim.plugins import Family, check_plugin, installed_plugins, load_plugin
from mlsim.scenario import BatchConfig, Policy
from mlsim.scenario.words import Allocator, Choice, Dispatcher, Predictor


class OwnPolicy(Protocol):
    """Orders the queue. An attribute ``live = False`` declares that keys never change once a job waits."""

    def key(self, now: float, jobs: WaitingJobs) -> Floats:
        """Return a key for each waiting job; smaller goes first, equal keys in order of arrival."""
        ...


class OwnAllocator(Protocol):
    """Chooses nodes."""

    def allocate(self, units: int, request: Ints, free: Ints, capacity: Ints) -> Any:
        """Return the node of each unit, or None where there is not room for all.

        ``request`` (R,) is what a unit asks for, ``free`` and ``capacity`` are (nodes, R).
        """
        ...


class OwnData(Protocol):
    """Data of the user's own that change during a run, for a plugin that dispatches.

    Optional method ``next_update(now)``: the time [s] of the next change after ``now``, when mlsim makes a
    pass; None: no more.
    """

    def update(self, view: StateView) -> Mapping[str, Any]:
        """Return the data at a pass, by name."""
        ...


def _family(name: str, group: str, methods: tuple[str, ...], words: tuple[str, ...]) -> Family:
    return Family(name, f"batch.{name}", group, methods, words, "docs/reference/plugins.md")


FAMILIES = {
    family.name: family
    for family in (
        _family("dispatcher", "mlsim.dispatchers", ("dispatch",), tuple(Dispatcher)),
        _family("policy", "mlsim.policies", ("key",), (*Policy, *Policy.aliases())),
        _family("allocator", "mlsim.allocators", ("allocate",), (*Allocator, *Allocator.aliases())),
        _family("data", "mlsim.data", ("update",), ()),
        _family("predictor", "mlsim.predictors", ("predict", "learn"), (*Predictor, *Predictor.aliases())),
    )
}
"""By name, which is the key of the ``batch`` section too."""


def make_plugin(family: str, name: str) -> Any:
    """Make the object that a scenario names.

    ``name`` is ``path/file.py:Class``, the path seen from the current directory, or that of an entry point.
    Raises InputError if there is no such class, its name is taken, it does not take its parameters, it cannot
    be made, or it lacks a method.
    """
    return load_plugin(FAMILIES[family], name)


def check_plugins(config: BatchConfig, execute: bool) -> None:
    """Check the plugins that the batch level of a scenario names; raise InputError if one cannot be used.

    ``execute``: each is made. Otherwise no code of theirs is executed, and of installed ones it is checked
    that their names can be used; for files see :func:`mlsim.scenario.check_code`.
    """
    for name, family in FAMILIES.items():
        plugin = getattr(config, name)
        if plugin is not None and not isinstance(plugin, Choice):
            check_plugin(family, plugin, execute)


def installed(family: str) -> Iterator[tuple[str, str, str]]:
    """Yield name, where it is defined, and why it cannot be used ('' if it can), of every entry point."""
    return installed_plugins(FAMILIES[family])
