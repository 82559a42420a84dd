"""The progress bar of a run: simulated time, jobs done, queue, time left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlsim.experiment import Progress

__all__ = ["progress_bar"]


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
