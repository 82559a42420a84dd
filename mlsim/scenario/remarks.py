"""Keys of a scenario that nothing reads, because of what other keys say."""

from __future__ import annotations

from mlsim.scenario.schema import Scenario
from mlsim.scenario.section import Section
from mlsim.scenario.words import ApplicationModel, ExecutionModel, Policy, Technique

__all__ = ["remarks"]


def remarks(scenario: Scenario) -> list[str]:
    """Say which keys were set and have no effect, one line each.

    They are no errors, so that one file can serve to compare policies, techniques and models; a key set to
    its default is not named.

    Examples
    --------
    >>> from mlsim.scenario import from_mapping
    >>> nodes = [{"name": "n", "count": 1, "cores": 1}]
    >>> remarks(from_mapping({"platform": {"nodes": nodes}, "workload": {"path": "log.swf"},
    ...                       "batch": {"deadline_factor": 3}}))
    ['batch.deadline_factor has no effect: only policy EDF reads it, and batch.policy is FCFS']
    """
    batch, application = scenario.batch, scenario.application
    lines = []
    if batch.policy is not Policy.EDF and _is_set(batch, "deadline_factor"):
        lines.append(_line("batch.deadline_factor", "policy EDF", f"batch.policy is {batch.policy}"))
    if not scenario.coordination.rca and _is_set(scenario.coordination, "latency"):
        lines.append(_line("coordination.latency", "rca: on", "coordination.rca is off"))
    if application.model is ApplicationModel.RIGID:
        return lines
    execution = application.execution
    if execution.model is not ExecutionModel.CCA:
        for key in ("break_after", "service_order"):
            if _is_set(execution, key):
                reason = f"application.execution.model is {execution.model}"
                lines.append(_line(f"application.execution.{key}", "model cca", reason))
    if application.technique is not Technique.AF and _is_set(execution, "first_chunk"):
        reason = f"application.technique is {application.technique}"
        lines.append(_line("application.execution.first_chunk", "technique AF", reason))
    return lines


def _is_set(section: Section, key: str) -> bool:
    return bool(getattr(section, key) != type(section).model_fields[key].default)


def _line(key: str, reader: str, reason: str) -> str:
    return f"{key} has no effect: only {reader} reads it, and {reason}"
