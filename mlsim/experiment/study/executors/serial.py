"""Does tasks in this process, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlsim.experiment.study.executing import execute
from mlsim.experiment.study.executors.base import Started
from mlsim.experiment.study.tasks import Done, Task

__all__ = ["Serial"]


class Serial:
    """One task at a time, in this process; nobody ends one that hangs."""

    def results(self, tasks: Sequence[Task], started: Started) -> Iterator[Done]:
        """Do tasks; see :class:`~mlsim.experiment.study.executors.base.Executor`."""
        for task in tasks:
            started(task)
            yield execute(task)
