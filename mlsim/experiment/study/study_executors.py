"""Execute the tasks of a study: in this process, or on the workers of a pool.

Every pool, of processes of this machine, of MPI ranks or of Dask workers, has one shape: ``submit`` some
tasks, get a future, wait for the first futures that are done. One loop (:meth:`Pool.results`) serves all.
"""

import os
import shutil
import signal
import tempfile
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from mlsim import _jit
from mlsim._files import read_bytes
from mlsim._runtime.late import load_matplotlib
from mlsim._runtime.processes import Helper, HelperEndedError, wait
from mlsim._runtime.shared_cache import sharing
from mlsim.cosim.scenario_inputs import workload_of
from mlsim.errors import MlsimError, OutputError, StoppedError
from mlsim.experiment import manifest, result_directories
from mlsim.experiment.study.study_model import Balance, Done, OwnPicture, Simulated, Task
from mlsim.experiment.study.study_store import Store, beside_name, disk_error, write_whole

Started = Callable[[Task], None]  # called when a task starts, or is submitted if the pool reports no starts

_BINS = 400  # of the curve of the busy share over time
_BATCH_SECONDS = 0.02  # of runs that are submitted together: submitting one takes as long as a short run
_SECONDS_PER_PROCESS = 2.0  # work left per process, below which none is started; starting one takes 1 s


def execute(task: Task) -> Done:
    """Execute a task, and store its result or failure; a failure to write stops the study."""
    began = time.perf_counter()
    here = os.getcwd()
    with sharing():
        try:
            try:
                simulated = _simulated(task)
            finally:
                os.chdir(here)  # code of the user's may have changed to another directory
        except (StoppedError, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # whatever a plugin or a compiled library raises
            kind = "" if isinstance(error, MlsimError) else f"{type(error).__name__}: "
            reason = "there is not enough memory" if isinstance(error, MemoryError) else f"{kind}{error}"
            return record_failure(task, reason, time.perf_counter() - began)
        try:
            content = _content(task, simulated)
        except OSError as error:
            return _not_written(task, error)
        return _stored(task, content | {"seconds": time.perf_counter() - began})


def execute_all(tasks: Sequence[Task]) -> list[Done]:
    """Execute tasks one after the other in a process of their own, which announces no compilation."""
    _jit.quiet()
    return [execute(task) for task in tasks]


def record_failure(task: Task, why: str, seconds: float) -> Done:
    """Store the failure of a run."""
    return _stored(task, {"status": "failed", "message": why, "seconds": seconds})


def _stored(task: Task, content: dict[str, Any]) -> Done:
    failed, seconds = content.get("message", ""), content["seconds"]
    if task.store is None:
        return Done(task.key, failed, seconds, content)
    try:
        Store(task.store).put(task.key, content)
    except OSError as error:
        return _not_written(task, error)
    return Done(task.key, failed, seconds)


def _not_written(task: Task, error: OSError) -> Done:
    return Done(task.key, stops=str(disk_error(task.store or Path(), error)))


def _simulated(task: Task) -> Simulated:
    scenario = task.subject.scenario(task.base, task.overrides)
    draws_chunks = any(picture.kind == "timeline" for picture in task.pictures.values())
    return task.subject.simulate(scenario, draws_chunks)


def _content(task: Task, simulated: Simulated) -> dict[str, Any]:
    """Return the stored content of a run, after its further files are written."""
    files: list[str] = []
    content: dict[str, Any] = {
        "status": "done",
        "labels": dict(task.labels),
        "keep": task.keep,
        "output": task.output,
        "summary": simulated.summary,
        "shows": task.shows,
        "files": files,
    }
    records = simulated.records
    if task.curve:
        from mlsim.analysis.plots import chart_style, utilization_plot

        axis = chart_style.time_axis(records.jobs)
        edges = np.linspace(axis.begin, axis.end, _BINS + 1)
        middles, busy = 0.5 * (edges[1:] + edges[:-1]), utilization_plot.busy_share(records, axis, _BINS)
        content["curve"] = [middles.tolist(), busy.tolist()]
    if task.balance:
        from mlsim.analysis.machine_metrics import max_over_mean

        names = workload_of(simulated.scenario).header.get("executable_names")
        jobs, loops = records.jobs, records.loops
        codes = jobs.executable[loops.job].tolist()
        words = [names[code - 1] if isinstance(names, list) and code > 0 else str(code) for code in codes]
        balance = Balance(jobs.job_id[loops.job].tolist(), words, max_over_mean(loops).tolist())
        content["balance"] = balance._asdict()
    if task.store is not None:
        store = Store(task.store)
        for name, picture in task.pictures.items():
            files.append(beside_name(name))
            path = store.beside(task.key, files[-1])
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, _image(picture, simulated, path.suffix))
        if task.keep != "summary":
            _write_run(store.beside(task.key, "run"), simulated, whole=task.keep == "all")
            files.append("run")
    return content


def _write_run(directory: Path, simulated: Simulated, whole: bool) -> None:
    """Write the directory of a run, complete or not at all."""
    part = directory.with_name(f".{directory.name}.{os.getpid()}.part")
    for old in (part, directory):
        if old.exists():
            shutil.rmtree(old)
    part.mkdir(parents=True)
    try:
        place = result_directories.Place(directory, directory, part, [])
        simulated.write(place, whole)
        for name, why in place.missing.items():
            raise OSError(None, f"{name}: {why}")
        manifest.write_manifest(part)
        part.rename(directory)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def _image(picture: OwnPicture, simulated: Simulated, suffix: str) -> bytes:
    load_matplotlib()
    from mlsim.analysis.plots import gantt, pe_timeline, write_picture

    with tempfile.TemporaryDirectory(prefix="mlsim-") as directory:
        path = Path(directory) / f"picture{suffix}"
        if picture.kind == "timeline":
            figure = pe_timeline(simulated.records, picture.title)
        else:
            figure = gantt(simulated.records, picture.title, picture.span)
        write_picture(figure, path)
        return read_bytes(path)


class Executor(Protocol):
    """Executes tasks."""

    def results(self, tasks: Sequence[Task], started: Started) -> Iterator[Done]:
        """Execute tasks, about in order, and yield each when it is done; closing this cancels the rest."""


class Serial:
    """One task at a time, in this process; a task that hangs is not ended."""

    def results(self, tasks: Sequence[Task], started: Started) -> Iterator[Done]:
        """Execute tasks; see :class:`Executor`."""
        for task in tasks:
            started(task)
            yield execute(task)


class WorkerEndedError(Exception):
    """The process of a worker has ended: the reason, and after how many seconds."""


class Pool(ABC):
    """An executor with several workers."""

    most_together: ClassVar[int] = 1  # largest number of short tasks that are submitted together
    _cold = True  # no task has been executed yet

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
                            yield record_failure(batch[0], *error.args)
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


class _Worker(Helper):
    """A process that executes tasks; also the future of the tasks that it is executing."""

    def __init__(self, idle: list["_Worker"]) -> None:
        self._tasks: Sequence[Task] = ()
        self._idle_workers = idle
        try:
            super().__init__(f"{__name__}:execute_all")
        except OSError as error:
            raise OutputError(f"no process can be started for the runs of the study: {error}") from error

    def begin(self, tasks: Sequence[Task]) -> None:
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
            how = f"its process ended with exit code {error.code}"
            if error.code < 0:
                number = -error.code
                name = signal.Signals(number).name if number in list(signal.Signals) else f"signal {number}"
                memory = ", as the system does where memory is used up" if number == signal.SIGKILL else ""
                how = f"its process was killed by {name}{memory}"
            raise WorkerEndedError(f"{how}, 2 times", self.seconds()) from error
        self._idle_workers.append(self)
        return done


class Processes(Pool):
    """Processes of this machine; by default one per core, or a single one if the rest takes only seconds.

    They are not those of ``concurrent.futures``, whose pool breaks as a whole when one process is killed, and
    which cannot end a task that exceeds its timeout.
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
        return max(min(cores(), tasks, 1 + int(tasks * self._first_seconds / _SECONDS_PER_PROCESS)), 1)

    def _kill_idle(self) -> None:
        while self._idle:
            self._idle.pop().kill()
