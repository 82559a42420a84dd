"""What executors have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from mlsim.experiment.study.tasks import Done, Task

__all__ = ["Executor", "Started"]

Started = Callable[[Task], None]
"""Called when a task is begun, or handed out where nobody tells when it is begun."""


class Executor(Protocol):
    """Hands out tasks."""

    def results(self, tasks: Sequence[Task], started: Started) -> Iterator[Done]:
        """Do tasks, about in their order, and yield each when it is done.

        When the iterator is closed, all that is still running is given up.
        """
