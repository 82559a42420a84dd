"""Execution models of a self-scheduled loop: one compiled event loop per module, with its record.

To add a model, add a module with a :class:`ModelEntry` called ``MODEL`` to this package; nothing else names
it. ``docs/reference/loops.md`` describes the models. The scenario takes their names from the records, so this
package loads no compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from mlsim.execution_models.loop_state import Inputs, State

__all__ = ["MODELS", "ModelEntry", "ModelProperties"]

Asking = Literal["master", "node master", "window", "node window", "own part", "threads", "unknown"]

# Keys of ``application.execution`` that only some models read.
OF_NODES = ("global_p",)
OF_MASTERS = (
    "master",
    "answers",
    "thread_share",
    "break_after",
    "break_time",
    "break_every",
    "service_order",
)
OF_QUEUES = ("request_cost", "start_up", "start_up_std")
OF_LOCKS = ("atomic_service", "lock", "lock_retry")


class ModelProperties(NamedTuple):
    """Properties of an execution model; a user-defined one declares them."""

    levels: int = 1
    """Of techniques: 1, or 2 where X+Y are one between nodes and one inside them."""
    nodes: bool = False
    """Whether it knows which PEs are on one node."""
    releases: bool = False
    """Whether nodes can leave a loop, and come back, while it runs; not where each PE has its own part."""
    hands_out_first: bool = False
    """Whether PEs are notified that no work is left only once all of it has been assigned."""
    adaptive: bool = True
    """Whether techniques that learn within a loop can."""
    reads: tuple[str, ...] = ()
    """Keys of ``application.execution`` that only some models read; ``master``: its first PE, or that of each
    node, is a master, which may be dedicated.
    """
    asking: Asking = "unknown"
    """Server of a PE's chunk requests: PE 0 (master, window), or its node's first PE (node master, node
    window), as a master or as the owner of a window; none, as each PE has its own part of the loop; or other
    threads.
    """

    @property
    def masters(self) -> bool:
        """Whether it has masters, which may be dedicated."""
        return "master" in self.reads

    @property
    def one_queue(self) -> bool:
        """Whether all PEs request their chunks at one queue, which another technique can take over."""
        return self.asking in ("master", "window")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEntry:
    """One execution model.

    A module of :mod:`mlsim.execution_models` with such a record, ``MODEL``, adds a model to mlsim: the
    scenario's names, the checks of scenarios and the lists of models are made of the records.
    """

    name: str  # in a scenario file, where case does not matter
    meaning: str
    reference: str
    properties: ModelProperties
    run: Callable[[Inputs], int]
    """Simulates a loop from time 0, when every PE requests its first chunk; returns the number of chunk rows,
    −1 if a user-defined technique returned a size below 1, −2 if that was the technique between nodes.
    """
    resume: Callable[[State], int] | None = None
    """Simulates up to the next selection of a technique or to the end, under a model with one queue."""
    aliases: tuple[str, ...] = ()


def _discover() -> dict[str, ModelEntry]:
    """Return the records of all modules of this package by name."""
    modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
    entries: list[ModelEntry] = [module.MODEL for module in modules if hasattr(module, "MODEL")]
    return {entry.name: entry for entry in entries}


MODELS = MappingProxyType(_discover())  # every execution model by name
