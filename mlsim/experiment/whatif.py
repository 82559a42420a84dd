"""What would coordination change: one scenario without and with RCA, and the difference explained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlsim.errors import InputError
from mlsim.experiment.result import Result
from mlsim.experiment.rundir import check_target, complete_or_gone, write_files, write_json
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
        What changed and why, as :func:`mlsim.analysis.gains.explain_gains` gives it.
    """

    off: Result
    on: Result
    gains: dict[str, Any]


def run_both(
    scenario: Scenario,
    *,
    out: Path | None = None,
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
        If the results cannot be written; nothing is left half-written.
    """
    from mlsim.analysis.gains import explain_gains

    if scenario.application.model is not ApplicationModel.LOOP:
        raise InputError(
            f"{scenario.source}: --rca both compares loops; this scenario has application.model: rigid"
        )
    if out is not None:
        check_target(out)
    off, on = (run(_with(scenario, rca), progress=progress) for rca in (False, True))
    comparison = Comparison(off, on, explain_gains(off.records, on.records))
    if out is not None:
        _write(out, comparison)
    return comparison


def _with(scenario: Scenario, rca: bool) -> Scenario:
    changes: dict[str, Any] = {"rca": rca}
    if not rca:
        # What needs coordination has no meaning without it.
        fields = CoordinationConfig.model_fields
        changes |= {key: fields[key].default for key in ("requests", "released_nodes")}
    coordination = scenario.coordination.model_copy(update=changes)
    other = scenario.model_copy(update={"coordination": coordination})
    return other.located(scenario.directory, scenario.source)


def _write(out: Path, comparison: Comparison) -> None:
    from mlsim.analysis.gains import gain_frame

    with complete_or_gone(out) as partial:
        for name, result in (("rca-off", comparison.off), ("rca-on", comparison.on)):
            (partial / name).mkdir()
            write_files(partial / name, result, before_summary=_nothing)
        write_json(partial / "gains.json", comparison.gains)
        frame = gain_frame(comparison.off.records, comparison.on.records)
        frame.write_parquet(partial / "gains.parquet")


def _nothing() -> None:
    """Leave the summaries as they are: they have been measured when the runs ended."""
