"""Execution models by name: the built-in ones, and user-defined functions or classes."""

from __future__ import annotations

import inspect
import json
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from mlsim._files import expanded, is_file
from mlsim.application.user_technique import compiler_message
from mlsim.errors import InputError, user_code_error
from mlsim.plugins import Family, make_callable
from mlsim.scenario import (
    ApplicationConfig,
    ExecutionModel,
    ModelProperties,
    parameters_of,
    user_function,
    wrong_levels,
)

if TYPE_CHECKING:
    from mlsim.application.models.loop_state import Inputs


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """One execution model: its name in a scenario file, its meaning, its source."""

    name: str
    meaning: str
    reference: str


BUILT_IN_MODELS = (
    ModelEntry(
        "cca",
        "centralized: PE 0 is the master; it calculates and assigns every chunk on request. Dedicated, or "
        "executing chunks itself and checking for requests after every break_after iterations",
        "Cariño and Banicescu 2005; Eleliemy 2021, §4.1",
    ),
    ModelEntry(
        "dca",
        "distributed: a PE fetches the step at PE 0, calculates its own chunk, and claims it at PE 0; AF, "
        "AWF-B to AWF-E hold the lock meanwhile",
        "Eleliemy 2021, §4.3",
    ),
    ModelEntry(
        "hmw",
        "hierarchical master-worker, X+Y: the first PE of every node is a local master, which serves its "
        "node by Y and asks PE 0, the global master, for the node's chunks by X",
        "Chronopoulos et al. 2005; Eleliemy 2021, §4.1",
    ),
    ModelEntry(
        "hdca",
        "hierarchical distributed (MPI+MPI), X+Y: PEs take sub-chunks by Y from their node's queue, under "
        "its lock; the PE that finds it empty refills it as under dca by X",
        "Eleliemy 2021, §5.2",
    ),
    ModelEntry(
        "mpi+openmp",
        "X+Y: one process per node obtains chunks as under dca by X; its threads execute them by "
        "schedule(static), (dynamic,1) or (guided,1), which is Y = STATIC, SS or GSS, and meet at a barrier "
        "after each, or not with nowait",
        "Eleliemy 2021, §5.3, Table 5.1",
    ),
    ModelEntry(
        "steal",
        "work stealing: every PE has an equal part of the loop, from whose front it takes chunks; a PE "
        "with none left steals half the rest of the richest PE of its node, or else of another node",
        "Hendler and Shavit 2002; Dinan et al. 2009; schedule(static_steal) of LLVM's OpenMP",
    ),
)

MODELS: Final = Family(
    "execution model",
    "application.execution.model",
    "mlsim.models",
    ("run",),
    (*ExecutionModel, *ExecutionModel.aliases()),
    "docs/reference/loops.md",
    arguments=1,
)
PROPERTIES: Final = "mlsim_properties"
"""Attribute of a declared execution model, which holds its properties."""


class UserModel(NamedTuple):
    """A model: its properties, and the function that simulates a loop."""

    properties: ModelProperties
    run: Callable[[Inputs], int]


def load_model(name: str) -> UserModel:
    """Load a model that a scenario names, once per process.

    ``name``: ``path/file.py:model``, the path relative to the current directory, or the name of an entry
    point. Raises InputError where it is not there, or not declared an execution model.
    """
    file = user_function(name)
    path = None if file is None else expanded(file[0])
    changed = os.stat(path).st_mtime_ns if path is not None and is_file(path) else 0
    # Beside the name, as 1 and true are equal.
    return _loaded(name, json.dumps(parameters_of(name), default=str), changed)


@cache
def _loaded(name: str, _parameters: str, _changed: int) -> UserModel:
    title = f"{MODELS.name} {name}"
    model = make_callable(MODELS, name, entry_points)
    properties = getattr(_declared(model), PROPERTIES, None)
    if not isinstance(properties, ModelProperties):
        raise InputError(
            f"{title}: is not declared an execution model; write @execution_model(levels=1) above it, with "
            f"its other properties; see {MODELS.page}"
        )
    _check_signature(title, model)

    def run(inputs: Inputs) -> int:
        return _checked(title, inputs, _called(title, model, inputs))

    return UserModel(properties, run)


def _declared(model: Callable[..., Any]) -> Any:
    """Return the object that carries the declaration: of a bound method, or below a partial."""
    return getattr(model, "__self__", None) or getattr(model, "func", model)


def _check_signature(title: str, model: Callable[..., Any]) -> None:
    signature = inspect.signature(model)
    try:
        signature.bind(None)
    except TypeError:
        raise InputError(
            f"{title}: takes {signature}; allowed: one argument, inputs, and its own parameters after it"
        ) from None


def _called(title: str, model: Callable[..., Any], inputs: Inputs) -> Any:
    from numba.core.errors import NumbaError

    from mlsim._jit import compiling

    n, p = len(inputs.prefix) - 1, len(inputs.speed)
    try:
        with compiling():
            return model(inputs)
    except NumbaError as error:
        raise InputError(f"{title}: cannot be compiled: {compiler_message(error)}") from error
    except BaseException as error:  # whatever the user's code raises
        raise user_code_error(f"{title}: failed in a loop of {n} iterations on {p} PEs", error) from error


def _checked(title: str, inputs: Inputs, returned: Any) -> int:
    """Check the return value of a model, and, as far as visible, that all iterations were executed."""
    n, p = len(inputs.prefix) - 1, len(inputs.speed)
    place = f"{title}: in a loop of {n} iterations on {p} PEs it"
    if isinstance(returned, bool) or not isinstance(returned, int | np.integer) or not -2 <= returned <= n:
        raise InputError(f"{place} returns {returned!r:.60}; allowed: the number of chunks, or -1 or -2")
    if returned < 0:
        return int(returned)
    times, counts = inputs.stats
    if not np.isfinite(times).all() or (times < 0.0).any() or (counts < 0).any():
        raise InputError(f"{place} gives a PE a time that is negative or not finite")
    _check_rows(place, inputs, int(returned))
    return int(returned)


def _check_rows(place: str, inputs: Inputs, count: int) -> None:
    """Check that chunks with rows lie in the loop, do not overlap, and cover it if all have rows."""
    rows, n = inputs.rows, len(inputs.prefix) - 1
    if count > len(rows.pe):
        return  # none are kept, or they are counted first
    first, size = rows.numbers[1, :count], rows.numbers[2, :count]
    order = np.argsort(first, kind="stable")
    begin, end = first[order], (first + size)[order]
    wrong = (size < 1) | (first < 0) | (first + size > n)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise InputError(f"{place} executes {size[row]} iterations from {first[row]} on")
    if (begin[1:] < end[:-1]).any():
        row = int(np.flatnonzero(begin[1:] < end[:-1])[0])
        raise InputError(f"{place} executes iteration {begin[row + 1]} twice")
    if (
        inputs.until == math.inf
        and rows.since == -math.inf
        and size.sum() != n
        and len(inputs.pe_unavailability.begin) == 0
    ):
        raise InputError(f"{place} executes {size.sum()} of them")


def check_model(config: ApplicationConfig) -> None:
    """Load the user-defined model of a scenario, if any, and check that it can run the techniques."""
    model = config.execution.model
    if not isinstance(model, ExecutionModel):
        properties = load_model(model).properties
        execution = config.execution
        for technique in config.techniques:
            for message in wrong_levels(
                technique,
                model,
                execution.nowait,
                properties,
                execution.global_p,
                compat=config.parameters.compat,
                request_ahead=execution.request_ahead,
            ):
                raise InputError(f"technique: {message}")


def properties_of_model(model: str) -> ModelProperties:
    """Return the properties of a model; a user-defined one is loaded for it."""
    return model.properties if isinstance(model, ExecutionModel) else load_model(model).properties
