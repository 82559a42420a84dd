"""Executors of many machines: MPI and Dask."""

from __future__ import annotations

import logging
import signal
import sys
from asyncio import CancelledError as AsyncCancelledError
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from threading import Lock
from typing import Any

from mlsim.errors import SIGNALS, InputError, OutputError, StoppedError
from mlsim.experiment.study.executor_worker import Executor, Started
from mlsim.experiment.study.study_model import Done, Task
from mlsim.experiment.study.study_worker import execute, record_failure

_alone = Lock()
"""One run at a time in a process, where a cluster's workers have several threads."""
_AHEAD = 2
"""Tasks for each worker that are handed out at a time, so that none waits for its next one."""


def do(task: Task) -> Done:
    """Do a task in a worker: by a process of its own where it may be ended, otherwise at once."""
    if task.timeout is None:
        with _alone:
            return execute(task)
    from mlsim.experiment.study.local_executors import Processes

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


_SECONDS_TO_CONNECT = 30


class _Cluster:
    def __init__(self, client: Any) -> None:
        self._client = client
        self._begun = False

    def results(self, tasks: Sequence[Task], started: Started) -> Iterator[Done]:
        """Do tasks; see :class:`~mlsim.experiment.study.executor_worker.Executor`."""
        from distributed import wait

        def submit(function: Any, task: Task) -> Any:
            with _connected():
                return self._client.submit(function, task, pure=False)

        def first(futures: Sequence[Any]) -> Sequence[Any]:
            with _connected():
                done = list(wait(futures, return_when="FIRST_COMPLETED").done)
                if any(future.status in ("cancelled", "lost") for future in done):
                    raise CancelledError("runs were cancelled")
                return done

        with _connected():
            threads = sum(self._client.nthreads().values())
        first_alone, self._begun = not self._begun, True
        return hand_out(submit, first, max(threads, 1), tasks, started, first_alone=first_alone)


@contextmanager
def _connected() -> Iterator[None]:
    """Turn what the client raises without its scheduler into an error that says that no run is lost."""
    try:
        yield
    except (CancelledError, AsyncCancelledError, OSError, RuntimeError) as error:
        raise OutputError(
            f"the Dask scheduler has ended, or cannot be reached: {type(error).__name__}. All runs that were "
            "finished are kept: start the study again with another scheduler, it goes on where it ended."
        ) from error


@contextmanager
def _silent() -> Iterator[None]:
    """Have the client print no tracebacks of its own when its scheduler ends."""
    loggers = [
        logging.getLogger(name) for name in ("distributed.client", "distributed.comm", "distributed.core")
    ]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextmanager
def on_cluster(scheduler: str, jobs: int | None) -> Iterator[Executor]:
    """Give an executor that hands tasks to a Dask cluster.

    Parameters
    ----------
    scheduler
        Address of its scheduler; or ``slurm``, for a cluster of Slurm's, of what dask-jobqueue is configured
        to ask for.
    jobs
        How many workers Slurm is asked for.

    Raises
    ------
    InputError
        If there is no Dask, or no such scheduler.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise InputError(f"--executor dask: {error}; pip install 'mlsim[dask]'") from error
    if scheduler == "slurm":
        try:
            from dask_jobqueue import SLURMCluster
        except ImportError as error:
            raise InputError(f"--scheduler slurm: {error}; pip install 'mlsim[dask]'") from error
        with _silent(), SLURMCluster() as cluster, Client(cluster) as client:
            cluster.scale(jobs or 1)
            client.wait_for_workers(1)
            yield _Cluster(client)
        return
    try:
        client = Client(scheduler, timeout=_SECONDS_TO_CONNECT)
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(f"--scheduler {scheduler}: no Dask scheduler answers there: {error}") from error
    with _silent(), client:
        yield _Cluster(client)


class _Ranks:
    def __init__(self, pool: Any, ranks: int) -> None:
        self._pool, self._ranks = pool, ranks
        self._begun = False

    def results(self, tasks: Sequence[Task], started: Started) -> Iterator[Done]:
        """Do tasks; see :class:`~mlsim.experiment.study.executor_worker.Executor`."""
        from concurrent.futures import FIRST_COMPLETED, wait

        def first(futures: Sequence[Any]) -> Sequence[Any]:
            return list(wait(futures, return_when=FIRST_COMPLETED).done)

        first_alone, self._begun = not self._begun, True
        return hand_out(self._pool.submit, first, self._ranks, tasks, started, first_alone=first_alone)


@contextmanager
def over_ranks() -> Iterator[Executor | None]:
    """Give rank 0 an executor that hands tasks to the other ranks; they do them, and get None at the end.

    Raises
    ------
    InputError
        If there is no mpi4py, or no other rank.
    """
    handlers = _by_default()  # MPI waits for other ranks as it starts, where Python handles no signal
    if SIGNALS:
        raise StoppedError(SIGNALS[0])
    try:
        from mpi4py import MPI
        from mpi4py.futures import MPICommExecutor
    except (ImportError, RuntimeError) as error:
        raise InputError(
            f"--executor mpi: mpi4py cannot be used: {error}; pip install 'mlsim[mpi]', beside an MPI"
        ) from error
    world = MPI.COMM_WORLD
    if world.Get_size() < 2:
        raise InputError(
            "--executor mpi: there is one rank only; start it as `mpiexec -n 5 mlsim study DIR --executor "
            "mpi`: rank 0 hands out runs, the others do them"
        )
    if world.Get_rank() == 0:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    with _aborting(world), MPICommExecutor(world, root=0) as pool, _aborting(world):
        # Within the pool as well, which waits for the runs of other ranks as it ends.
        yield None if pool is None else _Ranks(pool, world.Get_size() - 1)


@contextmanager
def _aborting(world: Any) -> Iterator[None]:
    """End all ranks where a signal ends the block."""
    try:
        yield
    except StoppedError as stopped:
        print("mlsim: interrupted; finished runs are kept, and the same command continues", file=sys.stderr)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        world.Abort(128 + stopped.number)


def _by_default() -> dict[int, Any]:
    """Have signals end this process at once, as MPI then ends the others; return what handled them before.

    In ranks that do runs, mpi4py would take the exception of a handler for the result of a run. What such a
    run leaves unfinished is removed when the study goes on.
    """
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    heeded = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    return {number: signal.signal(number, signal.SIG_DFL) for number in heeded}
