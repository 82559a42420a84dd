"""Execution models that a scenario names: the built-in ones, and user-defined functions or classes."""

from __future__ import annotations

import inspect
import json
import math
import os
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mlsim._files import expanded, is_file
from mlsim._jit import compiling
from mlsim.application.user_technique import compiler_message
from mlsim.errors import InputError, user_code_error
from mlsim.execution_models import ModelEntry, ModelProperties
from mlsim.plugins import Family, make_callable
from mlsim.scenario import ApplicationConfig
from mlsim.scenario.application_section import ExecutionConfig
from mlsim.scenario.plugin_names import parameters_of, user_function
from mlsim.scenario.technique_section import ParametersConfig, wrong_levels
from mlsim.scenario.words import ExecutionModel

if TYPE_CHECKING:
    from mlsim.execution_models.loop_state import Inputs

USER_MODELS: Final = Family(
    "execution model",
    "application.execution.model",
    "mlsim.models",
    ("run",),
    (*ExecutionModel, *ExecutionModel.aliases()),
    "docs/reference/loops.md",
    arguments=1,
)
PROPERTIES: Final = "mlsim_properties"  # attribute of a declared model with its properties


def model_entry(model: str) -> ModelEntry:
    """Return the record of a model; a user-defined one (file or entry point) is loaded once per process.

    Raises InputError if it is missing, or not declared an execution model.
    """
    if isinstance(model, ExecutionModel):
        return model.entry
    file = user_function(model)
    path = None if file is None else expanded(file[0])
    changed = os.stat(path).st_mtime_ns if path is not None and is_file(path) else 0
    # Beside the name, as 1 and true are equal.
    return _loaded(model, json.dumps(parameters_of(model), default=str), changed)


@cache
def _loaded(name: str, _parameters: str, _changed: int) -> ModelEntry:
    title = f"{USER_MODELS.name} {name}"
    model = make_callable(USER_MODELS, name)
    # The declaration is on the object of a bound method, or below a partial.
    declared = getattr(model, "__self__", None) or getattr(model, "func", model)
    properties = getattr(declared, PROPERTIES, None)
    if not isinstance(properties, ModelProperties):
        raise InputError(
            f"{title}: is not declared an execution model; write @execution_model(levels=1) above it, with "
            f"its other properties; see {USER_MODELS.page}"
        )
    signature = inspect.signature(model)
    try:
        signature.bind(None)
    except TypeError:
        raise InputError(
            f"{title}: takes {signature}; allowed: one argument, inputs, and its own parameters after it"
        ) from None

    def run(inputs: Inputs) -> int:
        return _checked(title, inputs, _called(title, model, inputs))

    return ModelEntry(name=name, meaning="", reference="", properties=properties, run=run)


def _called(title: str, model: Callable[..., Any], inputs: Inputs) -> Any:
    n, p = len(inputs.prefix) - 1, len(inputs.speed)
    try:
        with compiling():
            return model(inputs)
    except InputError:
        raise
    except BaseException as error:  # whatever the user's code raises
        if isinstance(error, Exception) and type(error).__module__ == "numba.core.errors":
            raise InputError(f"{title}: cannot be compiled: {compiler_message(error)}") from error
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
    if returned <= len(inputs.rows.pe):  # else none are kept, or they are counted first
        _check_rows(place, inputs, int(returned))
    return int(returned)


def _check_rows(place: str, inputs: Inputs, count: int) -> None:
    """Check that chunks with rows lie in the loop, do not overlap, and cover it if all have rows."""
    rows, n = inputs.rows, len(inputs.prefix) - 1
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
    has_all = inputs.until == math.inf and rows.since == -math.inf and not len(inputs.pe_unavailability.begin)
    if has_all and size.sum() != n:
        raise InputError(f"{place} executes {size.sum()} of them")


def check_model(config: ApplicationConfig) -> None:
    """Load the user-defined model of a scenario, if any, and check that it can run the techniques."""
    if not isinstance(config.execution.model, ExecutionModel):
        for technique in config.techniques:
            check_levels(technique, config.execution, config.parameters)


def check_levels(
    technique: str, execution: ExecutionConfig, parameters: ParametersConfig, learners: tuple[str, ...] = ()
) -> None:
    """Check that a model can run a technique, or two as X+Y; ``learners``: user-defined classes by name."""
    for message in wrong_levels(
        technique,
        execution.model,
        execution.nowait,
        model_entry(execution.model).properties,
        execution.global_p,
        learners,
        parameters.compat,
        execution.request_ahead,
    ):
        raise InputError(f"technique: {message}")
