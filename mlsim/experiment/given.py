"""What a run takes for its scenario: a file, a mapping, a scenario; for its jobs also a table in memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlsim._files.held import HeldFile
from mlsim._forks import check_fork
from mlsim.errors import InputError
from mlsim.scenario import Scenario, from_mapping, load

__all__ = ["scenario_from"]

_JOBS = "workload.parquet"


def scenario_from(
    scenario: Scenario | Mapping[str, Any] | str | Path,
    overrides: Mapping[str, Any] | None = None,
    workload: Any = None,
) -> Scenario:
    """Return the scenario that is meant.

    Parameters
    ----------
    scenario
        A scenario file; a mapping shaped like one, whose ``workload``, or the ``path`` in it, may be a table;
        or a scenario already loaded.
    overrides
        Values to set on top, by dotted key; of a file or a mapping.
    workload
        A table of jobs (a data frame of polars or pandas) in place of the scenario's log.

    Raises
    ------
    InputError
        If it is none of these, or cannot be used.
    """
    check_fork()
    if isinstance(scenario, Scenario):
        if overrides:
            raise InputError("overrides go with a scenario file; this scenario is already loaded")
        return scenario if workload is None else scenario.with_jobs(_held(workload))
    if isinstance(scenario, Mapping):
        scenario, inside = _without_table(scenario)
        if inside is not None and workload is not None:
            raise InputError("workload: given twice, in the scenario and beside it; give one of them")
        workload = inside if workload is None else workload
    jobs = None if workload is None else _held(workload)
    values = dict(overrides or {})
    if jobs is not None:
        values |= {"workload.path": jobs.path.name, "workload.generate": None}
    loaded = (
        from_mapping(scenario, "scenario", values)
        if isinstance(scenario, Mapping)
        else load(scenario, values)
    )
    return loaded if jobs is None else loaded.with_jobs(jobs)


def _without_table(scenario: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """Take a table of jobs out of a mapping; None if there is none in it."""
    section = scenario.get("workload")
    if _is_table(section):
        return {**scenario, "workload": {}}, section
    if isinstance(section, Mapping) and _is_table(section.get("path")):
        rest = {key: value for key, value in section.items() if key != "path"}
        return {**scenario, "workload": rest}, section["path"]
    return dict(scenario), None


def _is_table(value: object) -> bool:
    return hasattr(value, "columns") and hasattr(value, "__getitem__")


def _held(table: Any) -> HeldFile:
    """Write a table of jobs to a file that readers of workloads read."""
    from mlsim.experiment.frames_of_others import polars_of

    held = HeldFile(_JOBS)
    polars_of(table).write_parquet(held.path)
    return held
