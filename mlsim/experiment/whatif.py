"""What would coordination change: one scenario without and with RCA, and the difference explained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mlsim.errors import InputError
from mlsim.experiment.directories import NextFree, Place, reserved, write_and_keep, writing
from mlsim.experiment.manifest import write_manifest
from mlsim.experiment.result import Result
from mlsim.experiment.rundir import check_needs, write_files, write_json, write_start
from mlsim.experiment.runner import Progress, run
from mlsim.scenario import ApplicationModel, CoordinationConfig, Scenario

__all__ = ["Comparison", "run_both"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The same scenario without and with RCA.

    Attributes
    ----------
    off, on
        The two runs.
    gains
        What changed and why, as :func:`mlsim.analysis.gains.explain_gains` returns it.
    directory
        Where they were written; None if they were not.
    """

    off: Result
    on: Result
    gains: dict[str, Any]
    directory: Path | None = None


def run_both(
    scenario: Scenario,
    *,
    out: str | Path | NextFree | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Comparison:
    """Run a scenario without and with RCA and compare the two, job by job.

    Parameters
    ----------
    scenario
        What to simulate; whether its RCA is on makes no difference.
    out
        Directory to write to, must not exist: gets ``rca-off/``, ``rca-on/``, ``gains.json`` and
        ``gains.parquet``.
    progress
        Called now and then in both runs.

    Raises
    ------
    InputError
        If the scenario's jobs execute no loops, or a file cannot be used.
    OutputError
        If not all of the results can be written; the message says what was kept, and where.
    """
    if scenario.application.model is not ApplicationModel.LOOP:
        raise InputError(
            f"{scenario.source}: --rca both compares loops; this scenario has application.model: rigid"
        )
    if out is None:
        return _compared(scenario, progress)
    check_needs(scenario)
    with reserved(out) as place:
        with writing(place.directory):
            write_start(place.partial / "rca-off", scenario)
        comparison = _compared(scenario, progress)
        write_and_keep(place, lambda here: _write(here, comparison))
    return replace(comparison, directory=place.directory)


def _compared(scenario: Scenario, progress: Callable[[Progress], None] | None) -> Comparison:
    from mlsim.analysis.gains import explain_gains

    off, on = (run(_with(scenario, rca), progress=progress) for rca in (False, True))
    return Comparison(off, on, explain_gains(off.records, on.records))


def _with(scenario: Scenario, rca: bool) -> Scenario:
    changes: dict[str, Any] = {"rca": rca}
    if not rca:
        # What needs coordination has no meaning without it.
        fields = CoordinationConfig.model_fields
        changes |= {key: fields[key].default for key in ("requests", "released_nodes")}
    coordination = scenario.coordination.model_copy(update=changes)
    other = scenario.model_copy(update={"coordination": coordination})
    return other.located(scenario.directory, scenario.source)


def _write(place: Place, comparison: Comparison) -> None:
    from mlsim.analysis.gains import gain_frame

    for name, result in (("rca-off", comparison.off), ("rca-on", comparison.on)):
        write_files(place, place.partial / name, result)
        write_manifest(place.partial / name)
    write_json(place.partial / "gains.json", comparison.gains)
    frame = gain_frame(comparison.off.records, comparison.on.records)
    frame.write_parquet(place.partial / "gains.parquet")
