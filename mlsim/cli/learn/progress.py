"""How far a search over weeks is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["weeks_done"]


@contextmanager
def weeks_done() -> Iterator[Callable[[int, int], None] | None]:
    """Draw a bar on a terminal; elsewhere nothing is told."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("weeks", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
