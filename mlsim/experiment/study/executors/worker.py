"""What a process does that does tasks for another one, which sends them through a pipe."""

from __future__ import annotations

from collections.abc import Sequence

from mlsim import _jit
from mlsim.experiment.study.executing import execute
from mlsim.experiment.study.tasks import Done, Task

__all__ = ["execute_all"]

_jit.quiet()


def execute_all(tasks: Sequence[Task]) -> list[Done]:
    """Do tasks, one after the other."""
    return [execute(task) for task in tasks]
