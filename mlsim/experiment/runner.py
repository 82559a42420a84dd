"""Run one scenario: load, simulate, measure, write; without and with RCA."""

import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from mlsim._files import HeldFile
from mlsim._runtime.forks import check_fork
from mlsim._runtime.memory import give_back
from mlsim.errors import InputError
from mlsim.experiment import background_compile, manifest, run_directory
from mlsim.experiment.result import Result, polars_of, run_times_of, technique_of
from mlsim.experiment.result_directories import NextFree, Place, reserved, write_and_keep, writing
from mlsim.experiment.run_status import Progress, status_kept
from mlsim.record.table_blocks import is_large
from mlsim.scenario import Scenario, batch_section, from_mapping, load
from mlsim.scenario.words import ForecastScope

_JOBS = "workload.parquet"


def scenario_from(
    scenario: Scenario | Mapping[str, Any] | str | Path,
    overrides: Mapping[str, Any] | None = None,
    workload: Any = None,
) -> Scenario:
    """Return the scenario of a file, mapping or scenario; a table of jobs (also inside) replaces the log."""
    check_fork()
    if isinstance(scenario, Scenario):
        if overrides:
            raise InputError("overrides go with a scenario file; this scenario is already loaded")
        return scenario if workload is None else scenario.with_jobs(_held(workload))
    if isinstance(scenario, Mapping):
        scenario, inside, section = dict(scenario), None, scenario.get("workload")
        if _is_table(section):
            inside, scenario["workload"] = section, {}
        elif isinstance(section, Mapping) and _is_table(section.get("path")):
            rest = {key: value for key, value in section.items() if key != "path"}
            inside, scenario["workload"] = section["path"], rest
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


def _is_table(value: object) -> bool:
    return hasattr(value, "columns") and hasattr(value, "__getitem__")


def _held(table: Any) -> HeldFile:
    """Write a table of jobs to a temporary file for the readers of workloads."""
    held = HeldFile(_JOBS)
    polars_of(table).write_parquet(held.path)
    return held


def run(
    scenario: Scenario | Mapping[str, Any] | str | Path,
    overrides: Mapping[str, Any] | None = None,
    *,
    workload: Any = None,
    out: str | Path | NextFree | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Result:
    """Simulate a scenario.

    Parameters
    ----------
    scenario
        A scenario file; a mapping shaped like one; or a scenario already loaded.
    overrides
        Values to set on top of the file or mapping, by dotted key: ``{"batch.policy": "SAF"}``.
    workload
        A table of jobs that replaces the scenario's log: a data frame of Polars, or of pandas (extra
        ``pandas``), with the columns of a workload in Parquet. In a mapping it may also replace the whole
        section ``workload``, or the ``path`` in it.
    out
        Directory of the run, which must not exist. Without it nothing is written.
    progress
        Called repeatedly during the simulation.

    Returns
    -------
    Result
        Summary and data frames.

    Raises
    ------
    InputError
        If the scenario or a file it names cannot be used, or overrides are combined with a loaded scenario.
    OutputError
        If not all results can be written; the message lists what was kept, and where.

    Examples
    --------
    >>> import mlsim
    >>> result = mlsim.run("scenarios/quickstart.yaml", overrides={"application.technique": "SS"})
    >>> result.summary["jobs"]["completed"] == len(result.jobs)
    True
    >>> result.jobs.columns[:4]
    ['job_id', 'submit_time', 'start_time', 'end_time']

    Jobs from a table:

    >>> import polars as pl
    >>> jobs = pl.DataFrame({"job_id": [1, 2], "submit_time": [0, 5], "run_time": [60, 10],
    ...                      "walltime": [60, 10], "processors": [2, 1]})
    >>> machine = {"platform": {"nodes": [{"name": "n", "count": 2, "cores": 1}]}}
    >>> mlsim.run(machine, workload=jobs).jobs["wait_time"].to_list()
    [0.0, 55.0]
    """
    began = time.perf_counter()
    scenario = scenario_from(scenario, overrides, workload)
    if out is None:
        with background_compile.compiled_beside(scenario):
            return _run(scenario, began, None, progress)
    run_directory.check_needs(scenario)
    with reserved(out) as place, background_compile.compiled_beside(scenario):
        with writing(place.directory):
            run_directory.write_start(place.partial, scenario)
        return _run(scenario, began, place, progress)


def _run(
    scenario: Scenario, began: float, place: Place | None, progress: Callable[[Progress], None] | None
) -> Result:
    from mlsim.cosim import simulation

    with status_kept(None if place is None else place.partial, scenario) as keep:
        outcome = simulation.simulate(scenario, _reporter(progress, keep))
    give_back(is_large(outcome.records))
    simulated = time.perf_counter()
    from mlsim.analysis import summarize  # now, as it takes memory that the simulation does without

    summary = summarize(
        outcome.records,
        scenario=scenario.name,
        seed=scenario.seed,
        technique=technique_of(scenario),
        predictor=str(scenario.batch.predictor),
    )
    summary["workload"] = {
        "log": outcome.notes,
        "simulated": outcome.simulated,
        "largest_request": outcome.largest,
        **({} if outcome.replaced is None else {"replaced": list(outcome.replaced)}),
        **({} if outcome.recorded is None else {"recorded": outcome.recorded}),
        **run_times_of(scenario),
        **({} if outcome.records.calendar is None else outcome.records.calendar.to_summary()),
    }
    result = Result(scenario, summary, outcome.records)

    def measure() -> None:
        summary["self"] = _measured(outcome, began, simulated)

    if place is None:
        measure()
        return result
    write_and_keep(place, lambda here: run_directory.write_files(here, here.partial, result, measure))
    return replace(result, directory=place.directory)


_OF_STATE = [field.name for field in fields(Progress) if field.name != "total"]


def _reporter(*listeners: Callable[[Progress], None] | None) -> Any:
    """Return the function that reports progress to all listeners; None without any."""
    known = [listener for listener in listeners if listener is not None]

    def tell(state: Any, total: int) -> None:
        now = Progress(total=total, **{name: getattr(state, name) for name in _OF_STATE})
        for listener in known:
            listener(now)

    return tell if known else None


def _measured(outcome: Any, began: float, simulated: float) -> dict[str, Any]:
    from mlsim._jit import compile_seconds
    from mlsim.analysis.job_metrics import aggregate_values, total

    now = time.perf_counter()
    seconds: np.ndarray[Any, np.dtype[np.float64]] = outcome.pass_seconds
    passes = {"count": len(seconds), "total": total(seconds), **aggregate_values(seconds)}
    if not len(seconds):  # of compiled replay, only their sum with that of its events is known
        n, in_sum = outcome.passes, outcome.replay_seconds
        passes |= {"count": n, "total": in_sum, "mean": in_sum / n if n else None}
    peak = None
    with suppress(ImportError):  # Windows has no such module
        import resource

        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        peak = used / (1024.0**2 if sys.platform == "darwin" else 1024.0)
    return {
        "wall_time": now - began,
        "simulation_time": simulated - began,
        "application_time": outcome.application_seconds,
        "output_time": now - simulated,
        "compile_time": compile_seconds(),
        "engine": str(outcome.engine),
        "pass_time": passes,
        "peak_memory_mb": peak,
    }


@dataclass(frozen=True, slots=True)
class Comparison:
    """The same scenario without and with RCA; gains are those of ``run_comparison.explain_gains``."""

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
    """Run a scenario without and with RCA, whatever it asks for, and compare the two, job by job.

    ``out``, which must not exist, gets ``rca-off/``, ``rca-on/``, ``gains.json`` and ``gains.parquet``;
    ``progress`` is called at intervals in both runs. The jobs must execute loops.
    """
    if not scenario.runs_loops:
        raise InputError(
            f"{scenario.source}: --rca both compares loops; this scenario has application.model: rigid"
        )
    from mlsim.analysis import run_comparison

    def compared() -> Comparison:
        off, on = (run(_with(scenario, rca), progress=progress) for rca in (False, True))
        return Comparison(off, on, run_comparison.explain_gains(off.records, on.records))

    if out is None:
        return compared()
    run_directory.check_needs(scenario)
    with reserved(out) as place:
        with writing(place.directory):
            run_directory.write_start(place.partial / "rca-off", _with(scenario, rca=False))
        comparison = compared()

        def write(here: Place) -> None:
            for name, result in (("rca-off", comparison.off), ("rca-on", comparison.on)):
                run_directory.write_files(here, here.partial / name, result)
                manifest.write_manifest(here.partial / name)
            run_directory.write_json(here.partial / "gains.json", comparison.gains)
            frame = run_comparison.gain_frame(comparison.off.records, comparison.on.records)
            frame.write_parquet(here.partial / "gains.parquet")

        write_and_keep(place, write)
    return replace(comparison, directory=place.directory)


def _with(scenario: Scenario, rca: bool) -> Scenario:
    changes: dict[str, Any] = {"rca": rca}
    if not rca:
        # What needs coordination has no meaning without it.
        fields = batch_section.CoordinationConfig.model_fields
        changes |= {key: fields[key].default for key in ("requests", "released_nodes")}
        if ForecastScope.ENDS not in (scenario.coordination.forecasts or ()):
            changes["forecasts"] = None
    coordination = scenario.coordination.model_copy(update=changes)
    other = scenario.model_copy(update={"coordination": coordination})
    return other.located(scenario.directory, scenario.source)
