"""Every key of a scenario file; keys that nothing reads; the JSON schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from pydantic.fields import FieldInfo

from mlsim.scenario.application_section import ApplicationConfig, ExecutionConfig
from mlsim.scenario.batch_section import BatchConfig
from mlsim.scenario.costs_section import READS, SelectionConfig
from mlsim.scenario.field_types import FieldType
from mlsim.scenario.plugin_names import PARAMETERS, CodeKind, user_function
from mlsim.scenario.policy_words import Policy
from mlsim.scenario.scenario_schema import Scenario
from mlsim.scenario.section_base import Parameters, Section, field_kind, field_section, fields_by_key, meaning
from mlsim.scenario.technique_section import AUTO, READERS, properties_of, split_technique
from mlsim.scenario.words import (
    AnswerRule,
    ApplicationModel,
    Backfill,
    Compat,
    ExecutionModel,
    KnownCosts,
    LockOrder,
    RequestRule,
    SelectionMethod,
)


class Option(NamedTuple):
    """One key."""

    key: str
    """Dotted key; ``N`` is a position in a list, from 0."""
    allowed: str
    """Accepted values."""
    default: str
    """As a scenario file would write it; "needed" if there is none, empty if it is in the description."""
    description: str
    """Meaning, unit, and the source of the default."""
    named: bool = False
    """Whether its value is a mapping of names of the user's own."""
    code_key: str = ""
    """Key of the code's name beside ``parameters``, for keys that accept user-defined code; else empty."""
    is_mapping: bool = False
    """Whether its value is a mapping of parameters, which :func:`model_parameters` lists."""


def options() -> list[Option]:
    """List every key that holds a value, in the order of the reference page.

    A mapping of :class:`~mlsim.scenario.section_base.Parameters` is one key.
    """
    return list(_walk(Scenario, "", inside=False))


def model_parameters() -> list[Option]:
    """List the parameters of techniques, methods, dispatchers and policies, as :func:`options` does keys."""
    return list(_walk(Scenario, "", inside=True))


def dotted_keys() -> list[str]:
    """List every key that can be set: those of :func:`options`, and the sections and lists around them.

    ``*`` at the end is a user-defined name, such as of a resource.
    """
    found: dict[str, None] = {}
    for option in (*options(), *model_parameters()):
        parts = option.key.split(".")
        found |= dict.fromkeys(".".join(parts[: end + 1]) for end in range(len(parts)))
        if option.named:
            found[f"{option.key}.*"] = None
        if option.code_key:
            own = (option.code_key, PARAMETERS, f"{PARAMETERS}.*")
            found |= dict.fromkeys(f"{option.key}.{part}" for part in own)
    return list(found)


def _walk(section: type[Section], prefix: str, *, inside: bool) -> Iterator[Option]:
    """Yield the keys outside of mappings of parameters, or those ``inside`` of them."""
    is_mapping = issubclass(section, Parameters)
    for name, field in section.model_fields.items():
        key = field.alias or name
        inner, is_list = field_section(field)
        kind = field_kind(field)
        if kind is not None and inside is is_mapping:
            default = default_text(field, kind)
            named = kind.json().get("type") == "object"
            code_key = kind.key if isinstance(kind, CodeKind) else ""
            yield Option(prefix + key, kind.allowed, default, meaning(section, name), named, code_key)
        elif inner is not None and issubclass(inner, Parameters) and not inside:
            allowed = f"a mapping of {', '.join(fields_by_key(inner))}"
            description = f"{meaning(section, name)} `mlsim list parameters` explains each."
            yield Option(f"{prefix}{key}", allowed, "", description, is_mapping=True)
        elif inner is not None:
            yield from _walk(inner, f"{prefix}{key}.{'N.' * is_list}", inside=inside)


def default_text(field: FieldInfo, kind: FieldType[Any]) -> str:
    """Write the default of a key as a scenario file would."""
    if field.is_required():
        return "needed"
    if field.default_factory is not None or field.default is None:
        return ""
    if isinstance(field.default, bool):
        return "on" if field.default else "off"
    return str(kind.show(field.default)) or "''"


def json_schema() -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of a scenario file.

    Values with a unit may be numbers or texts. Rules that the schema cannot express, such as which keys
    exclude each other, are checked when the file is read.
    """
    schema = Scenario.model_json_schema()
    for section in _sections(Scenario):
        part = schema if section is Scenario else schema["$defs"][section.__name__]
        for name, field in section.model_fields.items():
            _tidy(part["properties"][field.alias or name], field, meaning(section, name))
    for section in _sections(Scenario):
        for name, key in section.old_keys.items():
            _properties(schema, section, name)[name.split(".")[-1]] = {"deprecated": True} | _property(
                schema, section, key
            )
        for name, key in section.other_names.items():
            _properties(schema, section, name)[name.split(".")[-1]] = _property(schema, section, key)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema


def _properties(schema: dict[str, Any], section: type[Section], key: str) -> dict[str, Any]:
    """Return the schema's properties of the section that a key below another one stands in."""
    for part in key.split(".")[:-1]:
        inner, _ = field_section(fields_by_key(section)[part])
        assert inner is not None, key
        section = inner
    found: dict[str, Any] = schema["$defs"][section.__name__]["properties"]
    return found


def _property(schema: dict[str, Any], section: type[Section], key: str) -> dict[str, Any]:
    found: dict[str, Any] = _properties(schema, section, key)[key.split(".")[-1]]
    return dict(found)


def _sections(section: type[Section]) -> Iterator[type[Section]]:
    yield section
    for field in section.model_fields.values():
        inner, _ = field_section(field)
        if inner is not None:
            yield from _sections(inner)


def _tidy(part: dict[str, Any], field: FieldInfo, description: str) -> None:
    """Write the default as in a file; there is none where the description states it."""
    if description:
        rest = part | {"description": description}
        part.clear()
        part.update(sorted(rest.items()))
    kind = field_kind(field)
    part.pop("title", None)
    default = part.pop("default", None)
    if kind is not None and default is not None:
        part["default"] = kind.show(field.default)


def warnings_of(scenario: Scenario, *, repetitions: int | None = None) -> list[str]:
    """Return warnings on keys that were set and have no effect, one line each.

    They are no errors, so that one file can serve to compare policies, techniques and models; a key set to
    its default is not named. ``repetitions``: how often the loop is executed for real; None: it is simulated,
    and its time steps count.

    Examples
    --------
    >>> from mlsim.scenario import from_mapping
    >>> nodes = [{"name": "n", "count": 1, "cores": 1}]
    >>> warnings_of(from_mapping({"platform": {"nodes": nodes}, "workload": {"path": "log.swf"},
    ...                       "batch": {"deadline_factor": 3}}))
    ['batch.deadline_factor has no effect: only policy EDF reads it, and batch.policy is FCFS']
    """
    application = scenario.application
    lines = _of_dispatchers(scenario.batch)
    if not scenario.coordination.rca and _is_set(scenario.coordination, "latency"):
        lines.append(_line("coordination.latency", "rca: on", "coordination.rca is off"))
    lines += _unread_answers(scenario)
    if application.model is ApplicationModel.RIGID:
        return lines
    lines += _of_models(application.execution) + _of_techniques(application)
    if application.selects is None:
        return lines
    if repetitions is None:
        return lines + _of_one_step(application.selects, application.time_steps, "application.time_steps")
    return lines + _of_one_step(application.selects, repetitions, "--repetitions")


def _of_dispatchers(batch: BatchConfig) -> list[str]:
    """Name keys that neither the policies nor the rule of backfilling read."""
    lines = []
    for key, policy in (
        ("deadline_factor", Policy.EDF),
        ("weights", Policy.LINEAR),
        ("fairshare", Policy.FAIRSHARE),
    ):
        if policy not in batch.policies and _is_set(batch, key):
            lines.append(_line(f"batch.{key}", f"policy {policy}", f"batch.policy is {batch.policy}"))
    reason = f"batch.backfill is {batch.backfill}"
    if batch.backfill not in (Backfill.GREEDY, Backfill.EASY) and _is_set(batch, "backfill_order"):
        lines.append(_line("batch.backfill_order", "backfill: greedy or easy", reason))
    for key, backfill in (
        ("reservations", Backfill.EASY),
        ("easy", Backfill.EASY),
        ("compression", Backfill.CONSERVATIVE),
    ):
        if batch.backfill is not backfill and _is_set(batch, key):
            lines.append(_line(f"batch.{key}", f"backfill: {backfill}", reason))
    return lines


def _of_models(execution: ExecutionConfig) -> list[str]:
    """Name costs and options that the execution model does not read."""
    lines: list[str] = []
    properties = properties_of(execution.model)
    if properties is None:
        return lines  # its reads are known once it is executed
    reads = properties.reads
    for key in dict.fromkeys(key for model in ExecutionModel for key in model.entry.properties.reads):
        if _is_set(execution, key) and key not in reads:
            models = [model for model in ExecutionModel if key in model.entry.properties.reads]
            words = "models" if len(models) > 1 else "model"
            reason = f"application.execution.model is {execution.model}"
            lines.append(_line(f"application.execution.{key}", f"{words} {', '.join(models)}", reason))
    if "lock" in reads and execution.lock is LockOrder.FIFO and _is_set(execution, "lock_retry"):
        reason = "application.execution.lock is fifo"
        lines.append(_line("application.execution.lock_retry", "lock: polling", reason))
    return lines


def _of_techniques(application: ApplicationConfig) -> list[str]:
    """Name parameters that the technique does not read."""
    chosen = [level for name in application.techniques for level in split_technique(name)]
    reason = f"application.technique is {application.technique}"
    lines = []
    if application.selects is None and application.selection is not None:
        lines.append(_line("application.selection", f"technique {AUTO}", reason))
    if application.selects is not None:
        reason = f"none of application.selection.portfolio ({', '.join(application.techniques)}) does"
        lines += _of_methods(application.selects)
    of_user = any(map(user_function, chosen))  # one that is a class may have its chunks timed in pieces
    for key, readers in READERS.items():
        if not _is_set(application.parameters, key):
            continue
        path = f"application.parameters.{key}"
        words = f"techniques {', '.join(readers)}" if len(readers) > 1 else f"technique {readers[0]}"
        if not set(readers) & set(chosen) and not (key == "pieces" and of_user):
            lines.append(_line(path, words, reason))
        elif key == "first_chunk" and application.parameters.compat is not Compat.NONE:
            lines.append(_line(path, f"{words} and compat: none", reason))
    return lines


def _of_one_step(selection: SelectionConfig, time_steps: int, key: str) -> list[str]:
    """Return a warning if a method learns from earlier time steps and ``key`` sets a single time step."""
    learns = selection.method is not SelectionMethod.RANDOM and not selection.chooses_within
    if time_steps > 1 or not learns:
        return []
    line = (
        f"application.selection.method {selection.method} learns from earlier time steps, and "
        f"{key} is 1: every loop takes the technique that the method begins with"
    )
    return [line]


def _of_methods(selection: SelectionConfig) -> list[str]:
    """Name keys that the method of choosing does not read."""
    key, parameters = "application.selection.parameters", selection.parameters
    if parameters.costs is KnownCosts.PROFILE and _is_set(parameters, "samples"):
        return [_line(f"{key}.samples", "costs: measured", f"{key}.costs is profile")]
    reason = f"application.selection.method is {selection.method}"
    return [
        _line(f"{key}.{name}", f"method {method}", reason)
        for name, method in READS.items()
        if method is not selection.method and _is_set(parameters, name)
    ]


def _unread_answers(scenario: Scenario) -> list[str]:
    coordination = scenario.coordination
    if coordination.requests is RequestRule.NEVER:
        reason = "coordination.requests is never"
        return [
            _line(f"coordination.{key}", "requests: head-of-queue", reason)
            for key in ("answer", "tolerance", "reclaim")
            if _is_set(coordination, key)
        ]
    if coordination.answer is not AnswerRule.TOLERANCE and _is_set(coordination, "tolerance"):
        reason = f"coordination.answer is {coordination.answer}"
        return [_line("coordination.tolerance", "answer: tolerance", reason)]
    return []


def _is_set(section: Section, key: str) -> bool:
    return bool(
        getattr(section, key) != type(section).model_fields[key].get_default(call_default_factory=True)
    )


def _line(key: str, reader: str, reason: str) -> str:
    verb = "read" if reader.startswith(("techniques", "models", "loops")) else "reads"
    return f"{key} has no effect: only {reader} {verb} it, and {reason}"
