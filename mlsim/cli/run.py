"""``mlsim run``, which simulates a scenario file and writes its results; ``mlsim watch``."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from mlsim import analysis, experiment
from mlsim._runtime import late, memory
from mlsim.analysis.formatting import duration
from mlsim.cli import command_options as cli
from mlsim.cli.command_output import ids_of, print_json, quiet, show
from mlsim.errors import InputError
from mlsim.experiment import result_directories, run_status
from mlsim.record.table_blocks import value_blocks
from mlsim.scenario import Scenario, load, parse_overrides, scenario_keys
from mlsim.workload.log_gaps import gap_sentences, other_counts

_MOST_CELLS = 1200  # Nodes with a cell each; of more nodes, one cell shows several
_LOOKS = {".": ("·", "dim"), "#": ("■", "blue"), "x": ("x", "red")}


class _RunOptions(cli.Options):
    file: cli.ScenarioFile
    set_: cli.Overrides = None
    out: Path | None = cli.output(
        "Directory for the results; must not exist.", "DIR", show_default="runs/NAME-001 …"
    )
    rca: Literal["on", "off", "both"] | None = cli.option(
        "Run with RCA on, off, or both ways and explain the difference."
    )
    json_: cli.Json = False
    quiet: cli.Quiet = False
    status: Path | None = cli.option("Keep how far the run is in FILE, as JSON, for scripts.", "FILE")
    watch: bool = cli.flag("Show jobs and nodes while the run goes on (mlsim watch).", "--watch")


def run(options: _RunOptions) -> None:
    """Simulate FILE and write its results."""
    memory.keep_little()
    is_quiet = options.quiet or options.json_
    if is_quiet:
        quiet()
    overrides = parse_overrides(cli.settings(options.set_, options.file))
    if options.rca in ("on", "off"):
        overrides["coordination.rca"] = options.rca == "on"
    scenario = load(options.file, overrides)
    if not is_quiet:
        for warning in scenario_keys.warnings_of(scenario):
            print(f"mlsim: note: {warning}", file=sys.stderr)
    late.load_for_good("mlsim.cosim.simulation")
    from mlsim.cosim.simulation import modules_for

    late.load_for_good(*modules_for(scenario), "mlsim.analysis.run_summary")
    target = options.out or result_directories.NextFree(Path("runs"), scenario.name)
    if options.rca == "both":
        if options.status is not None or options.watch:
            raise InputError("--status and --watch are of one run; leave --rca both out")
        with progress_bar(scenario.name, shown=not is_quiet) as progress:
            comparison = experiment.run_both(scenario, out=target, progress=progress)
        if options.json_:
            print_json(comparison.gains)
        elif not is_quiet:
            from mlsim.analysis.comparison_tables import gains_table

            show(gains_table(scenario.name, comparison.gains))
            _print_results(comparison.directory)
        return
    with watched(scenario, options.status, options.watch, shown=not is_quiet) as progress:
        result = experiment.run(scenario, out=target, progress=progress)
    if options.json_:
        print_json(result.summary)
    elif not is_quiet:
        _print_summary(result)


def _print_summary(result: experiment.Result) -> None:
    show(analysis.summary_table(result.summary))
    show(*_notes(result), *_rejections(result), style="yellow")
    _print_results(result.directory)


def _print_results(directory: Path | None) -> None:
    """Print the directory of results and its files."""
    assert directory is not None, "written"
    names = sorted(path.name + ("/" if path.is_dir() else "") for path in directory.iterdir())
    print(f"Results: {directory}  ({', '.join(names)})")


def _notes(result: experiment.Result) -> list[str]:
    """Return lines on irregularities of the log, and how cleaning handled them in the simulated jobs."""
    rules = result.scenario.workload.cleaning.model_dump()
    counts = result.summary["workload"]
    lines = []
    if "calibrate_to" in counts:
        lines.append(
            f"Calibrated: loops take their recorded run times under {counts['calibrate_to']}; other times "
            "are the effect of another technique, model, speed, or disturbance"
        )
    lines += [f"In the whole log: {sentence}" for sentence in gap_sentences(counts["log"])]
    if rest := other_counts(counts["log"]):
        lines.append("In the whole log: " + ", ".join(f"{name} {n}" for name, n in rest.items()))
    if counts["simulated"]:
        words = {name: f" ({rule.value})" for name, rule in rules.items() if name in counts["simulated"]}
        met = (f"{name} {n}{words.get(name, '')}" for name, n in counts["simulated"].items())
        lines.append("In the jobs simulated: " + ", ".join(met))
    return lines


def _rejections(result: experiment.Result, most: int = 5, reasons: int = 10) -> list[str]:
    """Return lines on rejected jobs, one per reason."""
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
        ids = ids_of(jobs.job_id[first].tolist(), counts[reason])
        lines.append(f"Rejected: {ids}: {reason} (state 'rejected' in jobs.parquet)")
    if others := rejections.reasons[reasons:]:
        total = sum(counts[reason] for reason in others)
        lines.append(f"Rejected: {total} more jobs, for {len(others)} more reasons; see jobs.parquet")
    return lines


@contextmanager
def watched(
    scenario: Scenario, status: Path | None, live: bool, shown: bool
) -> Iterator[Callable[[run_status.Progress], None] | None]:
    """Show a run while the block runs, and keep its state in the file ``status``; yield a listener.

    ``live``: jobs and nodes instead of a bar. ``shown``: False for nothing on the terminal.
    """
    view = _live(scenario) if live and shown else progress_bar(scenario.name, shown)
    if status is None:
        with view as show:
            yield show
        return
    kept = run_status.StatusFile(status, scenario, at_once=True)
    kept.begin()
    try:
        with view as show:

            def report(state: run_status.Progress) -> None:
                kept(state)
                if show is not None:
                    show(state)

            yield report
    except BaseException:
        kept.end("failed")
        raise
    kept.end("completed")


@contextmanager
def _live(scenario: Scenario) -> Iterator[Callable[[run_status.Progress], None] | None]:
    """Show jobs and nodes on standard error, if that is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    state = run_status.StateOf(scenario)
    with Live(console=console, transient=True, refresh_per_second=4) as live:

        def show(progress: run_status.Progress) -> None:
            found = state.due(progress)
            if found is not None:
                live.update(state_view(found))

        yield show


@contextmanager
def progress_bar(name: str, shown: bool) -> Iterator[Callable[[run_status.Progress], None] | None]:
    """Show a progress bar on standard error while the block runs, if that is a terminal; yield a listener."""
    if not shown or not sys.stderr.isatty():
        yield None
        return
    with run_status.terminal_bar() as bar:
        task = bar.add_task(name, total=None, state="reading the workload")

        def show(state: run_status.Progress) -> None:
            words = f"{state.done:,}/{state.total:,} jobs, {state.waiting:,} waiting"
            words += f", day {state.time / 86400.0:.1f}"
            bar.update(task, completed=state.done, total=state.total, state=words)

        yield show


class _WatchOptions(cli.Options):
    target: Path = cli.argument(
        "The directory that a run or study writes, or the file of `mlsim run --status`.", "RUN"
    )
    once: bool = cli.flag("Print the state once, and end.", "--once")
    json_: bool = cli.flag("Print the state once as JSON, and end.", "--json")
    interval: float = cli.option("Seconds between updates.", default=1.0, min=0.1)


def watch(options: _WatchOptions) -> None:
    """Show the progress of a running simulation or study: time, jobs, queue, nodes, messages."""
    # `look` returns the state, laid out or as a sentence, and whether the run goes on.
    from mlsim.experiment.study import study_runner, study_store

    target = options.target
    if study_store.is_store(target):

        def look() -> tuple[RenderableType, bool]:
            lines = list(study_runner.status_of(target))
            return "\n".join(lines), any(" is running it" in line for line in lines)

    elif options.json_:
        print(json.dumps(_state(target) or {"state": "none"}))
        return
    else:

        def look() -> tuple[RenderableType, bool]:
            ended = (target / "summary.json").is_file()
            state = _state(target)
            if state is not None:
                return state_view(state), not ended and state["state"] == "running"
            if ended:
                return f"{target}: completed; mlsim metrics and mlsim report read it", False
            words = "its state file exists after a second, and not while it reads or writes"
            return f"{target}: running; {words}", True

    console = Console()
    view, goes_on = look()
    if options.once or not console.is_terminal:
        # A sentence is one line: broken at a width, it could not be searched for.
        console.print(view, soft_wrap=True, highlight=False, markup=False)
        return
    with Live(view, console=console, refresh_per_second=4) as live:
        while goes_on:
            time.sleep(options.interval)
            view, goes_on = look()
            live.update(view)


def _state(target: Path) -> dict[str, Any] | None:
    path = run_status.find_status(target)
    return None if path is None else run_status.read_status(path)


def state_view(state: dict[str, Any]) -> RenderableType:
    """Lay out the state of a run (:func:`mlsim.experiment.run_status.read_status`) for the terminal."""
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    jobs = state.get("jobs")
    title = Text.assemble((str(state["scenario"]), "bold"), f"  {state['state']}")
    if jobs is None:
        return title
    title.append(
        f", simulated {duration(state['time'])} in {duration(state['updated'] - state['began'])}", "dim"
    )
    total = max(jobs["total"], jobs["ended"] + jobs["running"] + jobs["waiting"], 1)
    parts = (
        f"{jobs['ended']:,} ended, {jobs['running']:,} running, {jobs['waiting']:,} waiting, "
        f"{jobs['to_come']:,} to come; {state['free_units']:,} units free"
    )
    table = Table.grid(padding=(0, 2))
    every = -(-sum(group["nodes"] for group in state["groups"]) // _MOST_CELLS) or 1
    for group in state["groups"]:
        used = group["held"] / max(group["nodes"], 1)
        words = f"{group['held']} of {group['nodes']} held ({used * 100:.0f} %)"
        if group["down"]:
            words += f", {group['down']} out of use"
        cells = Text(overflow="fold")
        for letter, same in groupby(group["cells"][::every]):
            cell, style = _LOOKS[letter]
            cells.append(cell * len(list(same)), style)
        table.add_row(group["name"], words, cells)
    messages = []
    for message in state.get("messages", ()):
        about = f"job {message['job']}"
        if "for_job" in message:
            about += f", {message['nodes_wanted']} nodes for job {message['for_job']}"
        elif "nodes" in message:
            about += f", node{'s' * (len(message['nodes']) > 1)} {' '.join(map(str, message['nodes']))}"
        messages.append(Text(f"{duration(message['sent'])}  {message['message']}: {about}", "dim"))
    bar = ProgressBar(total=total, completed=jobs["ended"], width=60)
    note = [Text(f"each cell shows the first of {every} nodes", "dim")] if every > 1 else []
    return Group(title, bar, parts, table, *note, *messages)
