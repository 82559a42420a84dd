"""Executors of this machine: one process, or many."""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from mlsim._processes import Helper, HelperEndedError, wait
from mlsim.errors import MlsimError, OutputError
from mlsim.experiment.study.executor_worker import Started
from mlsim.experiment.study.study_model import Done, Task
from mlsim.experiment.study.study_worker import execute, record_failure


class Serial:
    """One task at a time, in this process; nobody ends one that hangs."""

    def results(self, tasks: Sequence[Task], started: Started) -> Iterator[Done]:
        """Do tasks; see :class:`~mlsim.experiment.study.executor_worker.Executor`."""
        for task in tasks:
            started(task)
            yield execute(task)


_FUNCTION = "mlsim.experiment.study.executor_worker:execute_all"
_ATTEMPTS = 2
"""How often a run is begun whose process ends."""
_WORTH_A_PROCESS = 2.0
"""Seconds of work left for each process, below which no further ones are started; to start one takes 1 s."""
_AT_A_TIME = 0.02
"""Seconds of runs that are handed out together: to hand out one takes as long as a short run itself."""
_MOST_AT_A_TIME = 32


def cores() -> int:
    """Return how many processes this machine executes at a time."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Processes:
    """Tasks in processes.

    The first task is done alone: it compiles kernels, which all processes then find on disk.

    Parameters
    ----------
    jobs
        How many processes; None: as many as there are cores, but only one where the rest is done soon.
    """

    def __init__(self, jobs: int | None = None) -> None:
        self._jobs = jobs
        self._pool: list[_Worker] = []
        self._kept = False
        self._seconds = 0.0
        """Of the first task of all."""

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep the processes from one call to the next while the block runs."""
        self._kept = True
        try:
            yield
        finally:
            self._kept = False
            self._end()

    def results(self, tasks: Sequence[Task], started: Started) -> Iterator[Done]:
        """Do tasks; see :class:`~mlsim.experiment.study.executor_worker.Executor`."""
        left = deque(tasks)
        deaths: dict[str, int] = {}
        pool = self._pool
        try:
            if left and not pool:
                # Others that are wanted anyway load what they need while the first run goes on.
                pool += [_Worker() for _ in range(min(self._jobs or 1, len(left)))]
                began, first = time.perf_counter(), pool[:1]
                try:
                    yield from _spend(first, deque([left.popleft()]), deaths, started)
                finally:
                    pool[:1] = first  # another one, if that was killed
                self._seconds = time.perf_counter() - began
            pool += [_Worker() for _ in range(self._more(len(left), self._seconds) - len(pool) + 1)]
            yield from _spend(pool, left, deaths, started)
        finally:
            if not self._kept or any(worker.tasks for worker in pool):
                self._end()

    def _more(self, left: int, seconds: float) -> int:
        """Return how many processes are worth having beside the first one."""
        if self._jobs is not None:
            return min(self._jobs - 1, left)
        worth = int(left * seconds / _WORTH_A_PROCESS)
        return max(min(cores() - 1, left - 1, worth), 0)

    def _end(self) -> None:
        """End all processes."""
        for worker in self._pool:
            worker.kill()
        self._pool.clear()


def _spend(
    pool: list[_Worker], left: deque[Task], deaths: dict[str, int], started: Started
) -> Iterator[Done]:
    """Do tasks on the workers of a pool; one that has ended is replaced."""
    while left or any(worker.tasks for worker in pool):
        for worker in pool:
            if left and not worker.tasks:
                worker.begin(_together(left, worker.pace, len(pool), deaths))
                started(worker.tasks[0])
        busy = [worker for worker in pool if worker.tasks]
        ready = wait(busy, _patience(busy))
        for worker in busy:
            if worker in ready:
                yield from _finished(pool, worker, left, deaths, started)
            elif worker.overdue() <= 0.0:
                yield from _timed_out(pool, worker)


def _together(left: deque[Task], pace: float, workers: int, deaths: Mapping[str, int]) -> list[Task]:
    """Take the tasks that are handed out next: several if the last ones were short, one where it matters.

    What has a timeout, or whose process has ended before, is done alone, so that it is known which it was.
    """
    short = int(_AT_A_TIME / pace) if pace > 0.0 else 1
    count = max(1, min(short, _MOST_AT_A_TIME, len(left) // (2 * workers)))
    taken = [left.popleft()]
    while len(taken) < count and not (_alone(taken[0], deaths) or _alone(left[0], deaths)):
        taken.append(left.popleft())
    return taken


def _alone(task: Task, deaths: Mapping[str, int]) -> bool:
    return task.timeout is not None or task.key in deaths


def _patience(busy: Sequence[_Worker]) -> float | None:
    """Return the seconds until the first run has taken too long; None: none ever does."""
    times = [worker.overdue() for worker in busy if worker.tasks[0].timeout is not None]
    return max(min(times), 0.0) if times else None


def _finished(
    pool: list[_Worker], worker: _Worker, left: deque[Task], deaths: dict[str, int], started: Started
) -> Iterator[Done]:
    tasks = worker.tasks
    try:
        ended = worker.receive()
    except MlsimError as error:  # none of the runs' own: those are kept with their runs
        raise OutputError(f"a process that did runs of the study has failed: {error}") from error
    except HelperEndedError as error:
        pool[pool.index(worker)] = _Worker()
        for task in tasks:
            deaths[task.key] = deaths.get(task.key, 0) + 1
        if len(tasks) > 1 or deaths[tasks[0].key] < _ATTEMPTS:
            left.extendleft(reversed(tasks))
            return
        yield record_failure(tasks[0], _death(error.code), worker.seconds())
        return
    worker.pace = sum(done.seconds for done in ended) / len(ended)
    worker.tasks = ()
    for task, done in zip(tasks, ended, strict=True):
        if task is not tasks[0]:
            started(task)
        yield done


def _timed_out(pool: list[_Worker], worker: _Worker) -> Iterator[Done]:
    task = worker.tasks[0]
    worker.kill()
    pool[pool.index(worker)] = _Worker()
    yield record_failure(task, f"took longer than timeout: {task.timeout:g} s", worker.seconds())


def _death(code: int) -> str:
    if code < 0:
        name = signal.Signals(-code).name if -code in list(signal.Signals) else f"signal {-code}"
        cause = f"was killed by {name}"
        if -code == signal.SIGKILL:
            cause += ", as the system does where memory is used up"
    else:
        cause = f"ended with exit code {code}"
    return f"its process {cause}, {_ATTEMPTS} times"


class _Worker(Helper):
    """A process that does one task after the other."""

    def __init__(self) -> None:
        self.tasks: Sequence[Task] = ()
        """What it does at the moment."""
        self.pace = 0.0
        """Seconds that each of the last ones took; 0: not known."""
        try:
            super().__init__(_FUNCTION)
        except OSError as error:
            raise OutputError(f"no process can be started for the runs of the study: {error}") from error

    def begin(self, tasks: Sequence[Task]) -> None:
        """Hand out tasks."""
        self.tasks = tasks
        self.send(tasks)

    def overdue(self) -> float:
        """Return the seconds that its task may still take."""
        timeout = self.tasks[0].timeout if self.tasks else None
        return float("inf") if timeout is None else timeout - self.seconds()
