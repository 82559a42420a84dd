"""``mlsim run``: simulate a scenario file, write its results, print a summary."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from mlsim.cli import command_options as cli
from mlsim.cli import terminal
from mlsim.cli.command_options import Json, Options, Overrides, Quiet, ScenarioFile, flag, option, output
from mlsim.cli.progress import progress_bar, watched
from mlsim.errors import InputError

if TYPE_CHECKING:
    from mlsim.experiment import Result


class _RunOptions(Options):
    file: ScenarioFile
    set_: Overrides = None
    out: Path | None = output(
        "Directory for the results; must not exist.", "DIR", show_default="runs/NAME-001 …"
    )
    rca: Literal["on", "off", "both"] | None = option(
        "Run with RCA on, off, or both ways and explain the difference."
    )
    json_: Json = False
    quiet: Quiet = False
    status: Path | None = option("Keep how far the run is in FILE, as JSON, for scripts.", "FILE")
    watch: bool = flag("Show jobs and nodes while the run goes on (mlsim watch).", "--watch")


def run(options: _RunOptions) -> None:
    """Simulate FILE and write its results."""
    from mlsim._runtime.late import importing, load_for_good
    from mlsim._runtime.memory import keep_little

    keep_little()
    with importing():
        from mlsim import experiment
        from mlsim.experiment.result_directories import NextFree
        from mlsim.scenario import load, parse_overrides
        from mlsim.scenario.scenario_keys import warnings_of

    quiet = options.quiet or options.json_
    if quiet:
        terminal.quiet()
    overrides = parse_overrides(cli.settings(options.set_, options.file))
    if options.rca in ("on", "off"):
        overrides["coordination.rca"] = options.rca == "on"
    scenario = load(options.file, overrides)
    if not quiet:
        for warning in warnings_of(scenario):
            print(f"mlsim: note: {warning}", file=sys.stderr)
    load_for_good("mlsim.cosim.simulation")
    from mlsim.cosim.simulation import modules_for

    load_for_good(*modules_for(scenario), "mlsim.analysis.run_summary")
    target = options.out or NextFree(Path("runs"), scenario.name)
    if options.rca == "both":
        if options.status is not None or options.watch:
            raise InputError("--status and --watch are of one run; leave --rca both out")
        with progress_bar(scenario.name, shown=not quiet) as progress:
            comparison = experiment.run_both(scenario, out=target, progress=progress)
        if options.json_:
            terminal.print_json(comparison.gains)
        elif not quiet:
            from mlsim.analysis.run_comparison import gains_table

            terminal.show(gains_table(scenario.name, comparison.gains))
            _print_results(comparison.directory)
        return
    with watched(scenario, options.status, options.watch, shown=not quiet) as progress:
        result = experiment.run(scenario, out=target, progress=progress)
    if options.json_:
        terminal.print_json(result.summary)
    elif not quiet:
        _print_summary(result)


def _print_summary(result: Result) -> None:
    from rich.console import Console

    from mlsim.analysis import summary_table

    console = Console()
    console.print(summary_table(result.summary))
    for line in (*_notes(result), *_rejections(result)):
        console.print(line, style="yellow", highlight=False)
    _print_results(result.directory)


def _print_results(directory: Path | None) -> None:
    """Print the directory of results and its files."""
    assert directory is not None, "written"
    names = sorted(path.name + ("/" if path.is_dir() else "") for path in directory.iterdir())
    print(f"Results: {directory}  ({', '.join(names)})")


def _notes(result: Result) -> list[str]:
    """Return lines on irregularities of the log, and how cleaning handled them in the simulated jobs."""
    rules = result.scenario.workload.cleaning.model_dump()
    counts = result.summary["workload"]
    lines = []
    if counts["log"]:
        lines.append("In the whole log: " + ", ".join(f"{name} {n}" for name, n in counts["log"].items()))
    if counts["simulated"]:
        words = {name: f" ({rule.value})" for name, rule in rules.items() if name in counts["simulated"]}
        met = (f"{name} {n}{words.get(name, '')}" for name, n in counts["simulated"].items())
        lines.append("In the jobs simulated: " + ", ".join(met))
    return lines


def _rejections(result: Result, most: int = 5, reasons: int = 10) -> list[str]:
    """Return lines on rejected jobs, one per reason."""
    import numpy as np

    from mlsim.record.table_blocks import value_blocks

    jobs, rejections = result.records.jobs, result.records.rejections
    counts = result.summary["rejected_because"]
    lines = []
    for code, reason in enumerate(rejections.reasons[:reasons]):
        first, begin = np.empty(0, np.int64), 0
        for codes in value_blocks(rejections.reason):
            found = begin + np.flatnonzero(codes == code)[: most - len(first)]
            first = np.concatenate([first, rejections.job[found]])
            if len(first) == most:
                break
            begin += len(codes)
        ids = terminal.ids_of(jobs.job_id[first].tolist(), counts[reason])
        lines.append(f"Rejected: {ids}: {reason} (state 'rejected' in jobs.parquet)")
    if others := rejections.reasons[reasons:]:
        total = sum(counts[reason] for reason in others)
        lines.append(f"Rejected: {total} more jobs, for {len(others)} more reasons; see jobs.parquet")
    return lines
