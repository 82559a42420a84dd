"""Execute the tasks of a study: in this process, or on the workers of a pool.

Every pool, of processes of this machine, of MPI ranks or of Dask workers, has one shape: ``submit`` some
tasks, get a future, wait for the first futures that are done. One loop (:meth:`Pool.results`) serves all.
"""

from __future__ import annotations

import os
import signal
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Protocol

from mlsim._runtime.processes import Helper, HelperEndedError, wait
from mlsim.errors import MlsimError, OutputError
from mlsim.experiment.study.study_model import Done, Task
from mlsim.experiment.study.study_worker import execute, record_failure

Started = Callable[[Task], None]
"""Called when a task starts, or when it is submitted if the pool does not report starts."""

_BATCH_SECONDS = 0.02
"""Seconds of runs that are submitted together: submitting one takes as long as a short run itself."""
_SECONDS_PER_PROCESS = 2.0
"""Work left per process below which no further process is started; starting one takes 1 s."""


class Executor(Protocol):
    """Executes tasks."""

    def results(self, tasks: Sequence[Task], started: Started) -> Iterator[Done]:
        """Execute tasks, about in their order, and yield each when it is done.

        Closing the iterator cancels all tasks that are still running.
        """


class Serial:
    """One task at a time, in this process; a task that hangs is not ended."""

    def results(self, tasks: Sequence[Task], started: Started) -> Iterator[Done]:
        """Execute tasks; see :class:`Executor`."""
        for task in tasks:
            started(task)
            yield execute(task)


class WorkerEndedError(Exception):
    """The process of a worker has ended; the reason, and after how many seconds."""

    def __init__(self, reason: str, seconds: float) -> None:
        super().__init__(reason)
        self.reason, self.seconds = reason, seconds


class Pool(ABC):
    """An executor with several workers."""

    most_together: ClassVar[int] = 1
    """Largest number of short tasks that are submitted together."""
    _cold = True
    """Whether no task has been executed yet."""

    @abstractmethod
    def submit(self, tasks: Sequence[Task]) -> Any:
        """Start tasks on a worker; return a future whose ``result()`` is a list of :class:`Done`."""

    @abstractmethod
    def first_done(self, futures: Sequence[Any]) -> Sequence[Any]:
        """Wait until some futures are done; return them."""

    @abstractmethod
    def cancel(self, futures: Sequence[Any]) -> None:
        """Cancel futures that are not done, as no more results are wanted."""

    @abstractmethod
    def size(self, tasks: int) -> int:
        """Return how many futures may be pending while this many tasks are left."""

    def results(self, tasks: Sequence[Task], started: Started) -> Iterator[Done]:
        """Execute tasks; see :class:`Executor`."""
        waiting = deque(tasks)
        if waiting and self._cold:
            # The first task runs alone: it compiles the kernels, which all workers then find on disk.
            yield from self._run(deque([waiting.popleft()]), 1, started)
            self._cold = False
        yield from self._run(waiting, self.size(len(waiting)), started)

    def _run(self, waiting: deque[Task], size: int, started: Started) -> Iterator[Done]:
        running: dict[Any, list[Task]] = {}
        ended: set[str] = set()  # keys of tasks whose worker has ended once
        pace = 0.0  # seconds per task of the last batch; 0: unknown
        try:
            while waiting or running:
                while waiting and len(running) < size:
                    batch = self._batch(waiting, pace, size, ended)
                    running[self.submit(batch)] = batch
                    started(batch[0])
                for future in self.first_done(list(running)):
                    batch = running.pop(future)
                    try:
                        done = future.result()
                    except WorkerEndedError as error:
                        if len(batch) == 1 and batch[0].key in ended:
                            yield record_failure(batch[0], error.reason, error.seconds)
                        else:  # again, each alone: it is unknown which of them ended the process
                            ended |= {task.key for task in batch}
                            waiting.extendleft(reversed(batch))
                        continue
                    except MlsimError as error:  # not of a run: those are recorded with their runs
                        raise OutputError(f"a process of the study has failed: {error}") from error
                    except Exception as error:  # a worker of a cluster, which has tried it elsewhere as well
                        reason = f"its worker ended: {type(error).__name__}: {error}"
                        done = [record_failure(task, reason, 0.0) for task in batch]
                    pace = sum(one.seconds for one in done) / len(done)
                    for task, one in zip(batch, done, strict=True):
                        if task is not batch[0]:
                            started(task)
                        yield one
        finally:
            self.cancel(list(running))

    def _batch(self, waiting: deque[Task], pace: float, size: int, ended: set[str]) -> list[Task]:
        """Dequeue the next tasks: several if the last ones were short; suspects and timed ones alone."""

        def alone(task: Task) -> bool:
            return task.timeout is not None or task.key in ended

        short = int(_BATCH_SECONDS / pace) if pace > 0.0 else 1
        count = max(1, min(short, self.most_together, len(waiting) // (2 * size)))
        batch = [waiting.popleft()]
        while len(batch) < count and not alone(batch[0]) and not alone(waiting[0]):
            batch.append(waiting.popleft())
        return batch


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Processes(Pool):
    """Processes of this machine.

    They are not those of ``concurrent.futures``, whose pool breaks as a whole when one process is killed, and
    which cannot end a task that exceeds its timeout.

    Parameters
    ----------
    jobs
        Number of processes; None: one per core, but a single one if the rest takes only seconds.
    """

    most_together = 32

    def __init__(self, jobs: int | None = None) -> None:
        self._jobs = jobs
        self._idle: list[_Worker] = []
        self._kept = False
        self._first_seconds = 0.0

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep the processes from one call of :meth:`results` to the next while the block runs."""
        self._kept = True
        try:
            yield
        finally:
            self._kept = False
            self._kill_idle()

    def results(self, tasks: Sequence[Task], started: Started) -> Iterator[Done]:
        """Execute tasks; see :class:`Executor`."""
        self._cold = not self._idle
        try:
            if self._cold:  # processes that are wanted anyway load their modules during the first run
                self._idle += [_Worker(self._idle) for _ in range(min(self._jobs or 1, len(tasks)))]
            yield from super().results(tasks, started)
        finally:
            if not self._kept:
                self._kill_idle()

    def submit(self, tasks: Sequence[Task]) -> _Worker:
        """Start tasks in an idle process, or in a new one."""
        worker = self._idle.pop(0) if self._idle else _Worker(self._idle)
        worker.begin(tasks)
        return worker

    def first_done(self, futures: Sequence[Any]) -> Sequence[Any]:
        """Wait for answers; a process whose task exceeds its timeout is done as well."""
        left = min(worker.left() for worker in futures)
        ready = wait(futures, None if left == float("inf") else max(left, 0.0))
        done = [worker for worker in futures if worker in ready or worker.left() <= 0.0]
        if self._cold and done:
            self._first_seconds = done[0].seconds()
        return done

    def cancel(self, futures: Sequence[Any]) -> None:
        """Kill processes that are busy."""
        for worker in futures:
            worker.kill()

    def size(self, tasks: int) -> int:
        """Return the number of processes that are worth starting, by the time that the first task took."""
        if self._jobs is not None:
            return max(min(self._jobs, tasks), 1)
        worth = int(tasks * self._first_seconds / _SECONDS_PER_PROCESS)
        return max(min(cores(), tasks, 1 + worth), 1)

    def _kill_idle(self) -> None:
        while self._idle:
            self._idle.pop().kill()


class _Worker(Helper):
    """A process that executes tasks; also the future of the tasks that it is executing."""

    def __init__(self, idle: list[_Worker]) -> None:
        self._tasks: Sequence[Task] = ()
        self._idle_workers = idle
        try:
            super().__init__("mlsim.experiment.study.study_worker:execute_all")
        except OSError as error:
            raise OutputError(f"no process can be started for the runs of the study: {error}") from error

    def begin(self, tasks: Sequence[Task]) -> None:
        """Start tasks."""
        self._tasks = tasks
        self.send(tasks)

    def left(self) -> float:
        """Return the seconds until the task exceeds its timeout; infinity without one."""
        timeout = self._tasks[0].timeout
        return float("inf") if timeout is None else timeout - self.seconds()

    def result(self) -> list[Done]:
        """Return what the process answers; a task that exceeds its timeout is ended and has failed."""
        if not wait([self], 0.0):
            task, seconds = self._tasks[0], self.seconds()
            self.kill()
            return [record_failure(task, f"took longer than timeout: {task.timeout:g} s", seconds)]
        try:
            done: list[Done] = self.receive()
        except HelperEndedError as error:
            raise WorkerEndedError(_death(error.code), self.seconds()) from error
        self._idle_workers.append(self)
        return done


def _death(code: int) -> str:
    """Describe how a process has ended, twice, by its exit code; below 0: the signal."""
    if code >= 0:
        return f"its process ended with exit code {code}, 2 times"
    name = signal.Signals(-code).name if -code in list(signal.Signals) else f"signal {-code}"
    memory = ", as the system does where memory is used up" if -code == signal.SIGKILL else ""
    return f"its process was killed by {name}{memory}, 2 times"
