"""What executors of MPI and Dask have in common: futures, a few for each worker at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from typing import Any

from mlsim.experiment.study.executing import execute, record_failure
from mlsim.experiment.study.executors.base import Started
from mlsim.experiment.study.tasks import Done, Task

__all__ = ["do", "hand_out"]

_alone = Lock()
"""One run at a time in a process, where a cluster's workers have several threads."""
_AHEAD = 2
"""Tasks for each worker that are handed out at a time, so that none waits for its next one."""


def do(task: Task) -> Done:
    """Do a task in a worker: by a process of its own where it may be ended, otherwise at once."""
    if task.timeout is None:
        with _alone:
            return execute(task)
    from mlsim.experiment.study.executors.processes import Processes

    (done,) = Processes(1).results([task], lambda _: None)
    return done


def hand_out(
    submit: Callable[[Callable[[Task], Done], Task], Any],
    first: Callable[[Sequence[Any]], Sequence[Any]],
    workers: int,
    tasks: Sequence[Task],
    started: Started,
    *,
    first_alone: bool,
) -> Iterator[Done]:
    """Submit tasks and yield what comes back.

    Parameters
    ----------
    submit
        Returns the future of a function of a task.
    first
        Waits for some futures; returns those that are done.
    workers
        How many there are.
    tasks, started
        As for an executor.
    first_alone
        Whether the first task is done alone, as it compiles kernels.
    """
    left = deque(tasks)
    running: dict[Any, Task] = {}
    most = 1 if first_alone else workers * _AHEAD
    try:
        while left or running:
            while left and len(running) < most:
                task = left.popleft()
                running[submit(do, task)] = task
                started(task)
            for future in first(list(running)):
                yield _result(future, running.pop(future))
            most = workers * _AHEAD
    finally:
        for future in running:
            future.cancel()


def _result(future: Any, task: Task) -> Done:
    try:
        done: Done = future.result()
    except Exception as error:  # its worker has ended, and others that it was done on again
        return record_failure(task, f"its worker ended: {type(error).__name__}: {error}", 0.0)
    return done
