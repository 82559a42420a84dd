"""The progress bar of a run: simulated time, jobs done, queue, time left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlsim.experiment import Progress
    from mlsim.scenario import Scenario

__all__ = ["progress_bar", "watched"]


@contextmanager
def watched(
    scenario: Scenario, status: Path | None, live: bool, shown: bool
) -> Iterator[Callable[[Progress], None] | None]:
    """Show a run, and keep its state in a file, while the block runs.

    Parameters
    ----------
    scenario
        What is simulated.
    status
        The file; None for none.
    live
        Whether jobs and nodes are shown rather than a bar.
    shown
        False for nothing on the terminal.

    Yields
    ------
    callable or None
        To be called with each :class:`mlsim.experiment.Progress`.
    """
    if status is None and not (live and shown):
        with progress_bar(scenario.name, shown) as bar:
            yield bar
        return
    from mlsim.experiment.status import StatusFile

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
    from mlsim.experiment.status import StateOf

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
    """Show a progress bar on standard error while the block runs, if that is a terminal.

    Parameters
    ----------
    name
        What is being run.
    shown
        False for none at all.

    Yields
    ------
    callable or None
        To be called with each :class:`mlsim.experiment.Progress`.
    """
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
