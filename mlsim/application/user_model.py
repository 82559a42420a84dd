"""Execution models of the user's own: a compiled function of what goes into an event loop, or a class."""

from __future__ import annotations

import inspect
import json
import math
import os
from collections.abc import Callable
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
"""Attribute of a function or class that is declared an execution model."""


class UserModel(NamedTuple):
    """A model: what others need to know of it, and what simulates a loop."""

    properties: ModelProperties
    run: Callable[[Inputs], int]


def load_model(name: str) -> UserModel:
    """Make a model that a scenario names, once a process.

    Parameters
    ----------
    name
        ``path/file.py:model``, the path seen from the current directory, or the name of an entry point.

    Raises
    ------
    InputError
        If there is no such function or class, or it is not declared an execution model.
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
            f"what else it can; see {MODELS.page}"
        )
    _check_signature(title, model)

    def run(inputs: Inputs) -> int:
        return _checked(title, inputs, _called(title, model, inputs))

    return UserModel(properties, run)


def _declared(model: Callable[..., Any]) -> Any:
    """Return what a scenario names: of a method, its object; of a function with parameters, the function."""
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
    """Check what a model returns, and that it let every iteration be executed, as far as can be seen."""
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
    """Check that chunks with rows are parts of the loop, and, where all have one, all of it, each once."""
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
    """Load a model of the user's own that a scenario names, and check that it can run the technique.

    Raises
    ------
    InputError
        If it cannot be made, is no model, or cannot.
    """
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
    """Return what others need to know of a model; one of the user's own is loaded for it."""
    return model.properties if isinstance(model, ExecutionModel) else load_model(model).properties
