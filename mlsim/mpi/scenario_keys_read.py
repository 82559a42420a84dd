"""Keys of a scenario that real runs read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mlsim.errors import InputError
from mlsim.scenario import Scenario, SelectionParameters, located_technique, parameters_of, split_technique
from mlsim.scenario.section_base import Section
from mlsim.scenario.technique_section import READERS
from mlsim.scenario.words import ExecutionModel, Statistics, WeightSource

_LOOP = (
    "seed",
    "platform.nodes.N.count",
    "platform.nodes.N.cores",
    "platform.nodes.N.speed",
    "platform.nodes.N.node_speed",
    "platform.reference_speed",
    "application.costs",
    "application.iterations",
    "application.parameters",
    "application.min_chunk",
    "application.execution.master",
    "application.execution.break_after",
    "application.execution.service_order",
    "application.execution.request_ahead",
    "application.execution.global_p",
    "application.execution.lock",
    "application.execution.injected_delay",
)
RUN_KEYS = (
    *_LOOP,
    "application.technique",
    *(f"application.selection.{name}" for name in ("method", "portfolio", "goal")),
    *(
        f"application.selection.parameters.{name}"
        for name in SelectionParameters.model_fields
        if name != "chunk_time"
    ),
    "application.execution.model",
    "application.pes_per_node",
)
"""Keys and sections of a scenario that ``mlsim mpi run`` reads."""

VALIDATE_KEYS = _LOOP
"""Scenario keys that ``mlsim mpi validate`` reads."""

_INSTEAD = {
    "application.technique": "give --technique",
    "application.execution.model": "give --model",
    "application.pes_per_node": "give --ranks-per-node",
    "application.time_steps": "a real run executes a loop once; give --repetitions to execute it again",
    "application.selection.parameters.chunk_time": "a real run measures how long it simulates",
    "application.selection": "--technique names what is validated",
    "platform.perturbations": "a real run cannot slow its nodes down",
    "output": "a run directory holds all that there is, if --out is given",
}
_COMPUTED = ("mean", "unit_cost", "calibrate", "scan_cost")


def check_set(keys: Mapping[str, object], read: Iterable[str], command: str, computes: bool = False) -> None:
    """Raise InputError for a key set with ``--set`` that a real run would not read.

    ``read`` are the keys and sections that ``command`` reads; with ``computes`` nothing scales the costs.
    """
    for key in (leaf for name, value in keys.items() for leaf in _leaves(name, value)):
        if computes and key.startswith("application.costs.") and key.split(".")[-1] in _COMPUTED:
            raise InputError(
                f"--set {key}: {command} does not read it: iterations compute, and take what that takes; "
                "give --work sleep if they are to take what the scenario says"
            )
        if not _is_read(key, read):
            reason = next((text for name, text in _INSTEAD.items() if _within(key, name)), _MEASURED)
            raise InputError(f"--set {key}: {command} does not read it; {reason}")


_MEASURED = "a real run has the costs, the network and the nodes of the machine it runs on"


def _leaves(key: str, value: object) -> Iterator[str]:
    """Yield the keys that a value sets; places in lists become N."""
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _leaves(f"{key}.{name}", inner)
    elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        for item in value:
            yield from _leaves(f"{key}.N", item)
    else:
        yield ".".join("N" if part.isdecimal() else part for part in key.split("."))


def _within(key: str, section: str) -> bool:
    return key == section or key.startswith(f"{section}.")


def _is_read(key: str, read: Iterable[str]) -> bool:
    """Return whether a key is read; the name of a group counts, as the group cannot be written without."""
    return any(_within(key, name) for name in (*read, "platform.nodes.N.name", "application.model"))


def left_aside(scenario: Scenario, read: Iterable[str]) -> list[str]:
    """Name the keys that a file sets and a real run does not read."""
    read = tuple(read)
    sections = ("name", "description", "seed", "platform", "application", "output")
    given = (key for name in sections for key in _given(scenario, name))
    return sorted({key for key in given if not _is_read(key, (*read, "name", "description"))})


def _given(section: Section, name: str, prefix: str = "") -> Iterator[str]:
    """Yield the keys below one of a section that were given."""
    if name not in section.model_fields_set:
        return
    value, key = getattr(section, name), f"{prefix}{name}"
    for item in value if isinstance(value, tuple) else (value,):
        if isinstance(item, Section):
            place = f"{key}.N." if isinstance(value, tuple) else f"{key}."
            for inner in type(item).model_fields:
                yield from _given(item, inner, place)
        else:
            yield key


def check_scenario(scenario: Scenario) -> None:
    """Raise InputError for keys of a scenario that a real run cannot follow, with what to do."""
    application, parameters = scenario.application, scenario.application.parameters

    def refuse(key: str, message: str) -> None:
        raise InputError(f"{scenario.source}: {key}: {message}")

    if parameters.statistics is Statistics.PROFILED:
        message = "profiled needs costs that are known before; a real run needs sigma and mu"
        refuse("application.parameters.statistics", message)
    if application.time_steps > 1:
        message = f"{application.time_steps}; {_INSTEAD['application.time_steps']}; write 1, or take it out"
        refuse("application.time_steps", message)
    if scenario.platform.perturbations:
        refuse("platform.perturbations", f"{_INSTEAD['platform.perturbations']}; take them out")
    weighs = set(READERS["weights"]) & set(split_technique(application.technique))
    speeds = {group.core_speed for group in scenario.platform.nodes}
    if weighs and len(speeds) > 1 and parameters.weights in (None, WeightSource.SPEED):
        message = "a real run does not know how fast its nodes are; give one number a rank, or equal"
        refuse("application.parameters.weights", message)


def scenario_options(scenario: Scenario) -> dict[str, Any]:
    """Return the options of a :class:`LoopScheduler` for a scenario; raises as :func:`check_scenario`."""
    application = scenario.application
    model = application.execution.model
    options = {
        "technique": str(located_technique(scenario)),
        "technique_parameters": parameters_of(application.technique) or None,
        "model": str(model),
        "injected_delay": application.execution.injected_delay,
        **loop_options(scenario, model),
    }
    if application.selects is not None:
        options["selection"] = application.selects
    sizes = {group.cores for group in scenario.platform.nodes}
    if model in (ExecutionModel.HDCA, ExecutionModel.HMW) and len(sizes) == 1:
        # Many nodes of the scenario may be one machine here.
        options["ranks_per_node"] = application.pes_per_node or sizes.pop()
    return options


def loop_options(scenario: Scenario, model: str) -> dict[str, Any]:
    """Return the options of a scenario's loop under a model, without technique, model, delay and nodes."""
    check_scenario(scenario)
    application, execution = scenario.application, scenario.application.execution
    parameters = application.parameters
    weights = parameters.weights
    options: dict[str, Any] = {
        "min_chunk": application.min_chunk,
        "master": execution.master.value,
        "service_order": execution.service_order.value,
        "global_p": execution.global_p.value,
        "lock": execution.lock.value,
        "first_chunk": parameters.first_chunk,
        "seed": scenario.seed,
        "sigma": parameters.sigma,
        "mu": parameters.mu,
        "h": parameters.overhead,
        "alpha": parameters.alpha,
        "swr": parameters.swr,
        "batches": parameters.batches,
        "growth": parameters.growth.value,
        "awf_chunk": parameters.awf_chunk.value,
        "random_from": parameters.random_from,
        "random_to": parameters.random_to,
        "compat": parameters.compat.value,
        "weights": None if weights is None or isinstance(weights, WeightSource) else weights,
    }
    if parameters.pieces is not None:
        options["pieces"] = parameters.pieces
    # Not its default: then masters choose themselves.
    if model in (ExecutionModel.CCA, ExecutionModel.HMW) and "break_after" in execution.model_fields_set:
        options["break_after"] = execution.break_after
    if model == ExecutionModel.CCA:
        options["request_ahead"] = execution.request_ahead
    return options
