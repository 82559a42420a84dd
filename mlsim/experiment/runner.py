"""Run one scenario: load, simulate, measure, write."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mlsim._memory import give_back
from mlsim.experiment.ahead import compiled_beside
from mlsim.experiment.directories import NextFree, Place, reserved, write_and_keep, writing
from mlsim.experiment.given import scenario_from
from mlsim.experiment.result import Result, technique_of
from mlsim.experiment.rundir import check_needs, write_files, write_start
from mlsim.experiment.status import status_kept
from mlsim.record.blocks import is_large
from mlsim.scenario import Scenario

__all__ = ["Progress", "run"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has come."""

    time: float
    """Simulated seconds."""
    done: int
    """Jobs that have ended."""
    total: int
    """Jobs of the workload."""
    waiting: int
    """Jobs in the queue."""
    running: int = 0
    """Jobs that run."""
    free_units: int = 0
    """Nodes or cores that no job holds: what the dispatcher counts."""
    nodes: Callable[[], str] = str
    """Gives a letter a node, if called before the run goes on: ``.`` free, ``x`` out of use, ``#`` held."""
    messages: Callable[[], list[dict[str, Any]]] = list
    """Gives the last coordination messages, the latest last, if called before the run goes on."""


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
        A scenario file; a mapping that is shaped like one; or a scenario already loaded.
    overrides
        Values to set on top of the file or mapping, by dotted key: ``{"batch.policy": "SAF"}``.
    workload
        A table of jobs in place of the scenario's log: a data frame of polars, or of pandas (extra
        ``pandas``), with the columns of a workload in Parquet. In a mapping it may also stand for the whole
        section ``workload``, or for the ``path`` in it. A run that is written keeps it as
        ``workload.parquet``, which its ``scenario.yaml`` reads.
    out
        Directory to write the run into; it must not exist, and is reserved before the simulation begins.
        Nothing is written without it.
    progress
        Called now and then while the simulation goes on.

    Returns
    -------
    Result
        Summary and data frames.

    Raises
    ------
    InputError
        If the scenario or a file it names cannot be used, or overrides come with a loaded scenario.
    OutputError
        If not all of the results can be written; the message says what was kept, and where. Nothing is left
        half-written.

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
        with compiled_beside(scenario):
            return _run(scenario, began, None, progress)
    check_needs(scenario)
    with reserved(out) as place, compiled_beside(scenario):
        with writing(place.directory):
            write_start(place.partial, scenario)
        return _run(scenario, began, place, progress)


def _run(
    scenario: Scenario, began: float, place: Place | None, progress: Callable[[Progress], None] | None
) -> Result:
    """Simulate, and write where it was asked for."""
    from mlsim import cosim

    with status_kept(None if place is None else place.partial, scenario) as keep:
        outcome = cosim.simulate(scenario, _reporter(progress, keep))
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
    }
    result = Result(scenario, summary, outcome.records)

    def measure() -> None:
        summary["self"] = _measured(outcome, began, simulated)

    if place is None:
        measure()
        return result
    write_and_keep(place, lambda here: write_files(here, here.partial, result, measure))
    return replace(result, directory=place.directory)


def _reporter(*listeners: Callable[[Progress], None] | None) -> Any:
    """Return what tells all who listen how far the run is; None if nobody does."""
    known = [listener for listener in listeners if listener is not None]

    def tell(state: Any, total: int) -> None:
        now = Progress(
            state.time,
            state.done,
            total,
            state.waiting,
            state.running,
            state.free_units,
            state.nodes,
            state.messages,
        )
        for listener in known:
            listener(now)

    return tell if known else None


def _measured(outcome: Any, began: float, simulated: float) -> dict[str, Any]:
    """Return measurements of the tool itself: wall-clock seconds and memory."""
    from mlsim._jit import compile_seconds

    now = time.perf_counter()
    return {
        "wall_time": now - began,
        "simulation_time": simulated - began,
        "application_time": outcome.application_seconds,
        "output_time": now - simulated,
        "compile_time": compile_seconds(),
        "engine": str(outcome.engine),
        "pass_time": _pass_time(outcome),
        "peak_memory_mb": _peak_memory_mb(),
    }


def _pass_time(outcome: Any) -> dict[str, Any]:
    """Return the wall-clock seconds of passes; of replay only their sum, with its events."""
    from mlsim.analysis.metrics.streamed import aggregate_values, total

    seconds: np.ndarray[Any, np.dtype[np.float64]] = outcome.pass_seconds
    if not len(seconds):
        n, in_sum = outcome.passes, outcome.replay_seconds
        return {"count": n, "total": in_sum, **aggregate_values(seconds), "mean": in_sum / n if n else None}
    return {"count": len(seconds), "total": total(seconds), **aggregate_values(seconds)}


def _peak_memory_mb() -> float | None:
    try:
        import resource
    except ImportError:  # Windows does not say it by this name
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024.0**2 if sys.platform == "darwin" else 1024.0)
