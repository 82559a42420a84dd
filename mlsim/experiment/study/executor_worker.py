"""What executors share, and a process that executes tasks of another one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from mlsim import _jit
from mlsim.experiment.study.study_model import Done, Task
from mlsim.experiment.study.study_worker import execute

Started = Callable[[Task], None]
"""Called when a task is begun, or handed out where nobody tells when it is begun."""


class Executor(Protocol):
    """Hands out tasks."""

    def results(self, tasks: Sequence[Task], started: Started) -> Iterator[Done]:
        """Do tasks, about in their order, and yield each when it is done.

        When the iterator is closed, all that is still running is given up.
        """


_jit.quiet()


def execute_all(tasks: Sequence[Task]) -> list[Done]:
    """Do tasks, one after the other."""
    return [execute(task) for task in tasks]
