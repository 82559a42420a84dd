"""Progress on the terminal: of a run here, of all other work, and ``mlsim watch``, of a run elsewhere."""

from __future__ import annotations

import json
import math
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlsim._runtime.work_progress import HowFar, Stage, how_far, stage
from mlsim.cli.command_options import Options, argument, flag, option

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mlsim.experiment import Progress
    from mlsim.scenario import Scenario


_SHOWN_AFTER = 3.0  # Seconds of work after which its progress is shown
_BETWEEN = 0.5
_MOST_CELLS = 1200  # Nodes with a cell each; of more nodes, one cell shows several
_LOOKS = {".": ("·", "dim"), "#": ("■", "blue"), "x": ("x", "red")}


@contextmanager
def watched(
    scenario: Scenario, status: Path | None, live: bool, shown: bool
) -> Iterator[Callable[[Progress], None] | None]:
    """Show a run while the block runs, and keep its state in the file ``status``; yield a listener.

    ``live``: jobs and nodes instead of a bar. ``shown``: False for nothing on the terminal.
    """
    view = _live(scenario) if live and shown else progress_bar(scenario.name, shown)
    if status is None:
        with view as show:
            yield show
        return
    from mlsim.experiment.run_status import StatusFile

    kept = StatusFile(status, scenario, at_once=True)
    kept.begin()
    try:
        with view as show:

            def report(state: Progress) -> None:
                kept(state)
                if show is not None:
                    show(state)

            yield report
    except BaseException:
        kept.end("failed")
        raise
    kept.end("completed")


@contextmanager
def _live(scenario: Scenario) -> Iterator[Callable[[Progress], None] | None]:
    """Show jobs and nodes on standard error, if that is a terminal."""
    from rich.console import Console
    from rich.live import Live

    from mlsim.experiment.run_status import StateOf

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    state = StateOf(scenario)
    with Live(console=console, transient=True, refresh_per_second=4) as live:

        def show(progress: Progress) -> None:
            found = state.due(progress)
            if found is not None:
                live.update(state_view(found))

        yield show


@contextmanager
def progress_bar(name: str, shown: bool) -> Iterator[Callable[[Progress], None] | None]:
    """Show a progress bar on standard error while the block runs, if that is a terminal; yield a listener."""
    if not shown or not sys.stderr.isatty():
        yield None
        return
    from rich import progress
    from rich.console import Console

    with progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.TextColumn("{task.fields[state]}"),
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as bar:
        task = bar.add_task(name, total=None, state="reading the workload")

        def show(state: Progress) -> None:
            words = f"{state.done:,}/{state.total:,} jobs, {state.waiting:,} waiting"
            words += f", day {state.time / 86400.0:.1f}"
            bar.update(task, completed=state.done, total=state.total, state=words)

        yield show


@contextmanager
def working(words: str, total: float | None = None) -> Iterator[Stage]:
    """Show the progress of work that takes longer than some seconds, in a line on standard error."""
    with stage(words, total) as own:
        if not sys.stderr.isatty():
            yield own
            return
        ended = threading.Event()
        thread = threading.Thread(target=_show_until, args=(ended,), daemon=True)
        thread.start()
        try:
            yield own
        finally:
            ended.set()
            thread.join()


@contextmanager
def reporting(words: str) -> Iterator[Callable[[int, int], None]]:
    """Show the progress of work that reports how many of its parts are done, and of how many."""
    with working(words) as own:

        def report(done: int, total: int) -> None:
            own.done, own.total = done, total

        yield report


def _show_until(ended: threading.Event) -> None:
    """Keep the line up to date, and remove it in the end."""
    if ended.wait(_SHOWN_AFTER):
        return
    try:
        while True:
            state = how_far()
            if state is not None:
                line = _line(state)[: shutil.get_terminal_size().columns - 1]
                sys.stderr.write(f"\r{line}\x1b[K")
                sys.stderr.flush()
            if ended.wait(_BETWEEN):
                return
    finally:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def _line(state: HowFar) -> str:
    """Return the progress of an activity as a line.

    >>> _line(HowFar("loops", 0.25, 10.0))
    'loops: 25 %, 0:10, about 0:30 left'
    >>> _line(HowFar("reading log.swf", None, 3725.0))
    'reading log.swf: 1:02:05'
    """
    if state.share is None:
        return f"{state.words}: {_clock(state.seconds)}"
    left = state.seconds * (1 - state.share) / state.share if state.share > 0 else math.inf
    rest = f", about {_clock(left)} left" if math.isfinite(left) else ""
    return f"{state.words}: {math.floor(100 * state.share)} %, {_clock(state.seconds)}{rest}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class _WatchOptions(Options):
    target: Path = argument(
        "The directory that a run or study writes, or the file of `mlsim run --status`.", "RUN"
    )
    once: bool = flag("Print the state once, and end.", "--once")
    json_: bool = flag("Print the state once as JSON, and end.", "--json")
    interval: float = option("Seconds between updates.", default=1.0, min=0.1)


def watch(options: _WatchOptions) -> None:
    """Show the progress of a running simulation or study: time, jobs, queue, nodes, messages."""
    # `look` returns the state, laid out or as a sentence, and whether the run goes on.
    from rich.console import Console

    from mlsim.experiment.study.study_store import is_store

    target = options.target
    if is_store(target):
        from mlsim.experiment.study.study_runner import status_of

        def look() -> tuple[RenderableType, bool]:
            lines = list(status_of(target))
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
    from rich.live import Live

    with Live(view, console=console, refresh_per_second=4) as live:
        while goes_on:
            time.sleep(options.interval)
            view, goes_on = look()
            live.update(view)


def _state(target: Path) -> dict[str, Any] | None:
    from mlsim.experiment.run_status import find_status, read_status

    path = find_status(target)
    return None if path is None else read_status(path)


def state_view(state: dict[str, Any]) -> RenderableType:
    """Lay out the state of a run (:func:`mlsim.experiment.run_status.read_status`) for the terminal."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    from mlsim.analysis.formatting import duration

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
