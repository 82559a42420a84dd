"""``mlsim run``: simulate a scenario file, write its results, print a summary."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mlsim.cli import terminal
from mlsim.cli.command_options import Json, Overrides, Quiet, ScenarioFile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mlsim.experiment import Result
    from mlsim.experiment.result_directories import NextFree
    from mlsim.record import Rejections
    from mlsim.scenario import Scenario


class RcaChoice(StrEnum):
    """With coordination, without, or both."""

    ON = "on"
    OFF = "off"
    BOTH = "both"


def run(
    file: ScenarioFile,
    set_: Overrides = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="DIR",
            help="Directory for the results; must not exist.",
            show_default="runs/NAME-001 …",
        ),
    ] = None,
    rca: Annotated[
        RcaChoice | None,
        typer.Option(
            help="Run with RCA on, off, or both ways and explain the difference.", show_default=False
        ),
    ] = None,
    json_: Json = False,
    quiet: Quiet = False,
    status: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Keep how far the run is in FILE, as JSON, for scripts."),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show jobs and nodes while the run goes on (mlsim watch).")
    ] = False,
) -> None:
    """Simulate FILE and write its results."""
    from mlsim._runtime.late import importing, load_for_good
    from mlsim._runtime.memory import keep_little

    keep_little()
    with importing():
        from mlsim.cli.command_options import settings
        from mlsim.cli.progress import watched
        from mlsim.errors import InputError
        from mlsim.experiment import run as run_scenario
        from mlsim.experiment.result_directories import NextFree
        from mlsim.scenario import load, parse_overrides, warnings_of

    if quiet or json_:
        terminal.quiet()
    overrides = parse_overrides(settings(set_, file))
    if rca in (RcaChoice.ON, RcaChoice.OFF):
        overrides["coordination.rca"] = rca is RcaChoice.ON
    scenario = load(file, overrides)
    if not (quiet or json_):
        for warning in warnings_of(scenario):
            print(f"mlsim: note: {warning}", file=sys.stderr)
    load_for_good("mlsim.cosim.simulation")
    from mlsim.cosim.simulation import modules_for

    load_for_good(*modules_for(scenario), "mlsim.analysis.run_summary")
    target = out or NextFree(Path("runs"), scenario.name)
    if rca is RcaChoice.BOTH:
        if status is not None or watch:
            raise InputError("--status and --watch are of one run; leave --rca both out")
        _run_both(scenario, target, json_, quiet)
        return
    with watched(scenario, status, watch, shown=not (quiet or json_)) as progress:
        result = run_scenario(scenario, out=target, progress=progress)
    if json_:
        print(json.dumps(result.summary, indent=2, allow_nan=False))
    elif not quiet:
        _print_summary(result)


def _run_both(scenario: Scenario, target: Path | NextFree, json_: bool, quiet: bool) -> None:
    from mlsim.cli.progress import progress_bar
    from mlsim.experiment import run_both

    with progress_bar(scenario.name, shown=not (quiet or json_)) as progress:
        comparison = run_both(scenario, out=target, progress=progress)
    if json_:
        print(json.dumps(comparison.gains, indent=2, allow_nan=False))
    elif not quiet:
        from rich.console import Console

        from mlsim.analysis.rca_gains import gains_table

        console = Console()
        console.print(gains_table(scenario.name, comparison.gains))
        console.print(_results(comparison.directory), highlight=False, soft_wrap=True)


def _print_summary(result: Result) -> None:
    from rich.console import Console

    from mlsim.analysis import summary_table

    console = Console()
    console.print(summary_table(result.summary))
    for line in _notes(result):
        console.print(line, style="yellow", highlight=False)
    for line in _rejections(result):
        console.print(line, style="yellow", highlight=False)
    console.print(_results(result.directory), highlight=False, soft_wrap=True)


def _notes(result: Result) -> list[str]:
    """Return lines on irregularities of the log, and how cleaning handled them in the simulated jobs."""
    rules = result.scenario.workload.cleaning.model_dump()
    workload = result.summary["workload"]
    lines = []
    if workload["log"]:
        lines.append("In the whole log: " + ", ".join(f"{n} {count}" for n, count in workload["log"].items()))
    if workload["simulated"]:
        met = (f"{n} {count}{_word(rules, n)}" for n, count in workload["simulated"].items())
        lines.append("In the jobs simulated: " + ", ".join(met))
    return lines


def _word(rules: dict[str, Any], name: str) -> str:
    return f" ({rules[name].value})" if name in rules else ""


def _rejections(result: Result, most: int = 5, reasons: int = 10) -> list[str]:
    """Return lines on rejected jobs, one per reason."""
    jobs, rejections = result.records.jobs, result.records.rejections
    counts = result.summary["rejected_because"]
    lines = []
    for code, reason in enumerate(rejections.reasons[:reasons]):
        first = _first_rows(rejections, code, most)
        ids = ids_of(jobs.job_id[first].tolist(), counts[reason])
        lines.append(f"Rejected: {ids}: {reason} (state 'rejected' in jobs.parquet)")
    if others := rejections.reasons[reasons:]:
        total = sum(counts[reason] for reason in others)
        lines.append(f"Rejected: {total} more jobs, for {len(others)} more reasons; see jobs.parquet")
    return lines


def ids_of(ids: list[int], count: int) -> str:
    """Return jobs by their first identifiers: ``job 17``, or ``3 jobs (1, 2, ...)``."""
    if count == 1:
        return f"job {ids[0]}"
    return f"{count} jobs ({', '.join(map(str, ids))}{', ...' if count > len(ids) else ''})"


def _first_rows(rejections: Rejections, code: int, most: int) -> NDArray[np.int64]:
    """Return the rows of the first jobs that were rejected for a reason."""
    import numpy as np

    from mlsim.record.table_blocks import value_blocks

    rows, first = np.empty(0, np.int64), 0
    for reasons in value_blocks(rejections.reason):
        found = first + np.flatnonzero(reasons == code)[: most - len(rows)]
        rows = np.concatenate([rows, rejections.job[found]])
        if len(rows) == most:
            break
        first += len(reasons)
    return rows


def _results(directory: Path | None) -> str:
    """Return the line that names the directory of results and its files."""
    assert directory is not None, "written"
    names = sorted(path.name + ("/" if path.is_dir() else "") for path in directory.iterdir())
    return f"Results: {directory}  ({', '.join(names)})"
