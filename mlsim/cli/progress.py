"""The progress bar of a run: simulated time, jobs done, queue, time left; and a line for all other work."""

from __future__ import annotations

import math
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mlsim._runtime.work_progress import HowFar, Stage, how_far, stage

if TYPE_CHECKING:
    from mlsim.experiment import Progress
    from mlsim.scenario import Scenario


_SHOWN_AFTER = 3.0
"""Seconds of work after which it is said how far it is."""
_BETWEEN = 0.5


@contextmanager
def watched(
    scenario: Scenario, status: Path | None, live: bool, shown: bool
) -> Iterator[Callable[[Progress], None] | None]:
    """Show a run while the block runs, and keep its state in the file ``status``; yield a listener.

    ``live``: jobs and nodes instead of a bar. ``shown``: False for nothing on the terminal.
    """
    if status is None and not (live and shown):
        with progress_bar(scenario.name, shown) as bar:
            yield bar
        return
    from mlsim.experiment.run_status import StatusFile

    kept = None if status is None else StatusFile(status, scenario, at_once=True)
    if kept is not None:
        kept.begin()
    try:
        with _live(scenario) if live and shown else progress_bar(scenario.name, shown) as show:
            listeners = [listener for listener in (kept, show) if listener is not None]

            def tell(state: Progress) -> None:
                for listener in listeners:
                    listener(state)

            yield tell if listeners else None
    except BaseException:
        if kept is not None:
            kept.end("failed")
        raise
    if kept is not None:
        kept.end("completed")


@contextmanager
def _live(scenario: Scenario) -> Iterator[Callable[[Progress], None] | None]:
    """Show jobs and nodes on standard error, if that is a terminal."""
    from rich.console import Console
    from rich.live import Live

    from mlsim.cli.watch import state_view
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
    if not shown:
        yield None
        return
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    with Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[state]}"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    ) as bar:
        task = bar.add_task(name, total=None, state="reading the workload")

        def show(state: Progress) -> None:
            bar.update(task, completed=state.done, total=state.total, state=_words(state))

        yield show


def _words(state: Progress) -> str:
    return f"{state.done:,}/{state.total:,} jobs, {state.waiting:,} waiting, day {state.time / 86400.0:.1f}"


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
