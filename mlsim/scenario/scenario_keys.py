"""Every key of a scenario file; keys that nothing reads; the JSON schema."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from pydantic.fields import FieldInfo

from mlsim.scenario import application_section, batch_section, costs_section, section_base, words
from mlsim.scenario.field_types import FieldType
from mlsim.scenario.policy_words import Policy
from mlsim.scenario.scenario_schema import Scenario
from mlsim.scenario.section_base import CodeType, Parameters, Section
from mlsim.scenario.technique_section import AUTO, READERS, properties_of, split_technique


class Option(NamedTuple):
    """One key."""

    key: str  # dotted; ``N`` is a position in a list, from 0
    allowed: str  # accepted values
    default: str  # as in a scenario file; "needed" if there is none, empty if it is in the description
    description: str  # meaning, unit, and the source of the default
    named: bool = False  # its value is a mapping of names of the user's own
    code_key: str = ""  # of the code's name beside ``parameters``, where user-defined code is accepted
    is_mapping: bool = False  # its value is a mapping of parameters, which ``model_parameters`` lists


def options() -> list[Option]:
    """List every key that holds a value, in the order of the reference page; parameters are one key."""
    return list(_walk(Scenario, "", inside=False))


def model_parameters() -> list[Option]:
    """List the parameters of techniques, methods, dispatchers and policies, as :func:`options` does keys."""
    return list(_walk(Scenario, "", inside=True))


def dotted_keys() -> list[str]:
    """List every key that can be set, sections and lists too; ``*`` at the end is a user-defined name."""
    found: dict[str, None] = {}
    for option in (*options(), *model_parameters()):
        parts = option.key.split(".")
        found |= dict.fromkeys(".".join(parts[: end + 1]) for end in range(len(parts)))
        if option.named:
            found[f"{option.key}.*"] = None
        if option.code_key:
            own = (option.code_key, section_base.PARAMETERS, f"{section_base.PARAMETERS}.*")
            found |= dict.fromkeys(f"{option.key}.{part}" for part in own)
    return list(found)


def _walk(section: type[Section], prefix: str, *, inside: bool) -> Iterator[Option]:
    """Yield the keys outside of mappings of parameters, or those ``inside`` of them."""
    is_mapping = issubclass(section, Parameters)
    for name, field in section.model_fields.items():
        key = field.alias or name
        inner, is_list = section_base.field_section(field)
        kind = section_base.field_kind(field)
        if kind is not None and inside is is_mapping:
            default = default_text(field, kind)
            named = kind.json().get("type") == "object"
            code_key = kind.key if isinstance(kind, CodeType) else ""
            yield Option(
                prefix + key, kind.allowed, default, section_base.meaning(section, name), named, code_key
            )
        elif inner is not None and issubclass(inner, Parameters) and not inside:
            shape = "a list of mappings" if is_list else "a mapping"
            allowed = f"{shape} of {', '.join(section_base.fields_by_key(inner))}"
            description = f"{section_base.meaning(section, name)} `mlsim list parameters` explains each."
            yield Option(f"{prefix}{key}", allowed, "", description, is_mapping=True)
        elif section_base.holds_named(field):
            if not inside:
                allowed = f"names of your own, each with the keys of {key.removesuffix('s')}"
                yield Option(prefix + key, allowed, "", section_base.meaning(section, name), named=True)
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
            _tidy(part["properties"][field.alias or name], field, section_base.meaning(section, name))
    for section in _sections(Scenario):
        for names, mark in ((section.old_keys, {"deprecated": True}), (section.other_names, {})):
            for name, key in names.items():
                found = _properties(schema, section, key)[key.split(".")[-1]]
                _properties(schema, section, name)[name.split(".")[-1]] = mark | found
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema


def _properties(schema: dict[str, Any], section: type[Section], key: str) -> dict[str, Any]:
    """Return the schema's properties of the section that a key below another one stands in."""
    for part in key.split(".")[:-1]:
        inner, _ = section_base.field_section(section_base.fields_by_key(section)[part])
        assert inner is not None, key
        section = inner
    found: dict[str, Any] = schema["$defs"][section.__name__]["properties"]
    return found


def _sections(section: type[Section]) -> Iterator[type[Section]]:
    yield section
    for field in section.model_fields.values():
        inner, _ = section_base.field_section(field)
        if inner is not None:
            yield from _sections(inner)


def _tidy(part: dict[str, Any], field: FieldInfo, description: str) -> None:
    """Write the default as in a file; there is none where the description states it."""
    if description:
        rest = part | {"description": description}
        part.clear()
        part.update(sorted(rest.items()))
    kind = section_base.field_kind(field)
    part.pop("title", None)
    default = part.pop("default", None)
    if kind is not None and default is not None:
        part["default"] = kind.show(field.default)


def warnings_of(scenario: Scenario, *, repetitions: int | None = None, alone: bool = False) -> list[str]:
    """Return warnings on keys that were set and have no effect, one line each.

    They are no errors, so that one file can serve to compare policies, techniques and models; a key set to
    its default is not named. ``repetitions``: how often the loop is executed for real; None: it is simulated,
    and its time steps count. ``alone``: the loop is simulated without jobs.

    Examples
    --------
    >>> from mlsim.scenario import from_mapping
    >>> nodes = [{"name": "n", "count": 1, "cores": 1}]
    >>> warnings_of(from_mapping({"platform": {"nodes": nodes}, "workload": {"path": "log.swf"},
    ...                       "batch": {"deadline_factor": 3}}))
    ['batch.deadline_factor has no effect: only policy EDF reads it, and batch.policy is FCFS']
    """
    lines = [*_of_batch(scenario.batch), *_of_coordination(scenario.coordination), *_of_rigid(scenario)]
    alone = alone or repetitions is not None
    for of_one in scenario.by_application.values():
        lines += map(of_one.with_own_keys, _of_application(of_one.application, repetitions, alone))
    return lines


def _of_rigid(scenario: Scenario) -> Iterator[str]:
    """Name keys for loops where each of several applications is rigid, as in some runs of a study."""
    if scenario.applications is None or scenario.runs_loops:
        return
    given = {
        "coordination.rca": scenario.coordination.rca,
        "platform.perturbations": scenario.platform.perturbations,
    }
    for key in (key for key, value in given.items() if value):
        yield (
            f"{key} has no effect: it is about loops, and all applications are rigid; a column model of the "
            "workload may give jobs loops"
        )


def _of_application(
    application: application_section.ApplicationConfig, repetitions: int | None, alone: bool
) -> Iterator[str]:
    """Name keys of an application that nothing reads."""
    if application.model is not words.ApplicationModel.LOOP:
        return
    yield from (*_of_models(application.execution), *_of_techniques(application))
    if application.selects is not None:
        key, steps = "application.time_steps", application.time_steps
        if repetitions is not None:
            key, steps = "--repetitions", repetitions
        yield from _of_methods(application.selects, key, steps, alone)


def _unread(section: Section, prefix: str, keys: tuple[str, ...], reader: str, reason: str) -> Iterator[str]:
    """Yield a warning on each of the keys that is set, which only ``reader`` reads."""
    verb = "read" if reader.startswith(("techniques", "models", "loops")) else "reads"
    for key in keys:
        if section.is_set(key):
            yield f"{prefix}.{key} has no effect: only {reader} {verb} it, and {reason}"


_OF_POLICIES = {"deadline_factor": Policy.EDF, "weights": Policy.LINEAR, "fairshare": Policy.FAIRSHARE}
_OF_BACKFILL = {
    ("backfill_order",): (words.Backfill.GREEDY, words.Backfill.EASY),
    ("reservations", "easy"): (words.Backfill.EASY,),
    ("compression",): (words.Backfill.CONSERVATIVE,),
}


def _of_batch(batch: batch_section.BatchConfig) -> Iterator[str]:
    """Name keys that neither the policies nor the rule of backfilling read."""
    for key, policy in _OF_POLICIES.items():
        if policy not in batch.policies:
            yield from _unread(batch, "batch", (key,), f"policy {policy}", f"batch.policy is {batch.policy}")
    for keys, rules in _OF_BACKFILL.items():
        if batch.backfill not in rules:
            reason = f"batch.backfill is {batch.backfill}"
            yield from _unread(batch, "batch", keys, f"backfill: {' or '.join(rules)}", reason)


def _of_coordination(coordination: batch_section.CoordinationConfig) -> Iterator[str]:
    """Name keys that only coordination, or requests for nodes, would read."""
    place = "coordination"
    if not coordination.rca:
        yield from _unread(coordination, place, ("latency",), "rca: on", "coordination.rca is off")
    if coordination.requests is words.RequestRule.NEVER:
        reason, keys = "coordination.requests is never", ("answer", "tolerance", "reclaim")
        yield from _unread(coordination, place, keys, "requests: head-of-queue", reason)
    elif coordination.answer is not words.AnswerRule.TOLERANCE:
        reason = f"coordination.answer is {coordination.answer}"
        yield from _unread(coordination, place, ("tolerance",), "answer: tolerance", reason)


def _of_models(execution: application_section.ExecutionConfig) -> Iterator[str]:
    """Name costs and options that the execution model does not read."""
    place, properties = "application.execution", properties_of(execution.model)
    if properties is None:
        return  # its reads are known once it is executed
    for key in dict.fromkeys(key for model in words.ExecutionModel for key in model.entry.properties.reads):
        if key not in properties.reads:
            models = [model for model in words.ExecutionModel if key in model.entry.properties.reads]
            reader = f"{'models' if len(models) > 1 else 'model'} {', '.join(models)}"
            parameters = key in application_section.ExecutionParameters.model_fields
            section = execution.parameters if parameters else execution
            where = f"{place}.parameters" if parameters else place
            yield from _unread(section, where, (key,), reader, f"{place}.model is {execution.model}")
    if "answers" in properties.reads:
        yield from _of_masters(execution, place)
    if "lock" in properties.reads and execution.lock is words.LockOrder.FIFO:
        yield from _unread(execution, place, ("lock_retry",), "lock: polling", f"{place}.lock is fifo")


def _of_masters(execution: application_section.ExecutionConfig, place: str) -> Iterator[str]:
    """Name keys that masters do not read as they answer otherwise."""
    parameters, where = execution.parameters, f"{place}.parameters"
    between, thread = words.MasterAnswers.BETWEEN_ITERATIONS, words.MasterAnswers.THREAD
    breaks = ("break_after", "break_every")
    if execution.master is words.MasterRole.DEDICATED:
        reason, reader = f"{place}.master is dedicated", "master: non-dedicated"
        yield from _unread(execution, place, (*breaks, "break_time"), reader, reason)
        yield from _unread(parameters, where, ("answers", "thread_share"), reader, reason)
        return
    reason = f"{where}.answers is {parameters.answers}"
    if parameters.answers is not thread:
        yield from _unread(parameters, where, ("thread_share",), f"answers: {thread}", reason)
    if parameters.answers is not between:
        yield from _unread(execution, place, breaks, f"answers: {between}", reason)
    if parameters.answers is thread:
        yield from _unread(execution, place, ("break_time",), "other answers", reason)


def _of_techniques(application: application_section.ApplicationConfig) -> Iterator[str]:
    """Name parameters that the technique does not read."""
    chosen = [level for name in application.techniques for level in split_technique(name)]
    reason = f"application.technique is {application.technique}"
    if application.selects is None:
        yield from _unread(application, "application", ("selection",), f"technique {AUTO}", reason)
    else:
        reason = f"none of application.selection.portfolio ({', '.join(application.techniques)}) does"
    of_user = any(
        map(section_base.user_function, chosen)
    )  # one that is a class may have its chunks timed in pieces
    parameters, place = application.parameters, "application.parameters"
    for key, readers in READERS.items():
        names = f"{'techniques' if len(readers) > 1 else 'technique'} {', '.join(readers)}"
        if not set(readers) & set(chosen) and not (key == "pieces" and of_user):
            yield from _unread(parameters, place, (key,), names, reason)
        elif key == "first_chunk" and parameters.compat is not words.Compat.NONE:
            yield from _unread(parameters, place, (key,), f"{names} and compat: none", reason)


def _of_methods(
    selection: costs_section.SelectionConfig, steps_key: str, steps: int, alone: bool
) -> Iterator[str]:
    """Name keys that the method of choosing does not read, and a method that has nothing to learn from."""
    place, parameters, method = "application.selection", selection.parameters, selection.method
    if parameters.costs is words.KnownCosts.PROFILE and parameters.is_set("samples"):
        reason = f"{place}.parameters.costs is profile"
        yield from _unread(parameters, f"{place}.parameters", ("samples",), "costs: measured", reason)
    else:
        for name, reader in costs_section.READS.items():
            if reader is not method:
                reason = f"{place}.method is {method}"
                yield from _unread(parameters, f"{place}.parameters", (name,), f"method {reader}", reason)
    if alone:
        reason = "a loop alone has no earlier jobs to learn from"
        yield from _unread(selection, place, ("learns_over",), "a run of jobs", reason)
    by_itself = alone or selection.learns_over is words.LearnsOver.JOB
    if (
        steps <= 1
        and by_itself
        and method is not words.SelectionMethod.RANDOM
        and not selection.chooses_within
    ):
        yield (
            f"{place}.method {method} learns from earlier time steps, and {steps_key} is 1: every loop takes "
            "the technique that the method begins with"
        )
