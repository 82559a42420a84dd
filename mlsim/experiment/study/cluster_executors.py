"""Pools of several machines: MPI ranks and Dask workers."""

import logging
import signal
import sys
from asyncio import CancelledError as AsyncCancelledError
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, wait
from contextlib import contextmanager
from threading import Lock
from typing import Any

from mlsim.errors import SIGNALS, InputError, OutputError, StoppedError
from mlsim.experiment.study.study_executors import Executor, Pool, Processes, execute_all
from mlsim.experiment.study.study_model import Done, Task

_alone = Lock()  # held during a run: a process runs one at a time, also in a worker with several threads
_FUTURES_PER_WORKER = 2  # Futures that are pending per worker, so that none waits for its next task
_SECONDS_TO_CONNECT = 30


def execute_remotely(tasks: Sequence[Task]) -> list[Done]:
    """Execute tasks in a worker of a cluster; one with a timeout in a process that can be ended."""
    if any(task.timeout is not None for task in tasks):
        return list(Processes(1).results(tasks, lambda _: None))
    with _alone:
        return execute_all(tasks)


class _RemotePool(Pool):
    def cancel(self, futures: Sequence[Any]) -> None:
        for future in futures:
            future.cancel()


class _DaskPool(_RemotePool):
    """Workers of a Dask cluster, by its client."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def size(self, _tasks: int) -> int:
        with _connected():
            threads: dict[str, int] = self._client.nthreads()
        return max(sum(threads.values()), 1) * _FUTURES_PER_WORKER

    def submit(self, tasks: Sequence[Task]) -> Any:
        with _connected():
            return self._client.submit(execute_remotely, tasks, pure=False)

    def first_done(self, futures: Sequence[Any]) -> Sequence[Any]:
        from distributed import wait as wait_for

        with _connected():
            done = list(wait_for(futures, return_when="FIRST_COMPLETED").done)
            if any(future.status in ("cancelled", "lost") for future in done):
                raise CancelledError("runs were cancelled")
            return done


@contextmanager
def _connected() -> Iterator[None]:
    """Convert the client's exceptions on losing its scheduler to an error that states that no run is lost."""
    try:
        yield
    except (CancelledError, AsyncCancelledError, OSError, RuntimeError) as error:
        raise OutputError(
            f"the Dask scheduler has ended, or cannot be reached: {type(error).__name__}. All runs that were "
            "finished are kept: start the study again with another scheduler, it goes on where it ended."
        ) from error


@contextmanager
def _silent() -> Iterator[None]:
    """Suppress the tracebacks that the client prints when its scheduler ends."""
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
    """Yield an executor on a Dask cluster, by the address of its scheduler, or on ``jobs`` new Slurm jobs."""
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
            yield _DaskPool(client)
        return
    try:
        client = Client(scheduler, timeout=_SECONDS_TO_CONNECT)
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(f"--scheduler {scheduler}: no Dask scheduler answers there: {error}") from error
    with _silent(), client:
        yield _DaskPool(client)


class _RankPool(_RemotePool):
    """The other MPI ranks, by a pool of mpi4py."""

    def __init__(self, pool: Any, ranks: int) -> None:
        self._pool, self._ranks = pool, ranks

    def size(self, _tasks: int) -> int:
        return self._ranks * _FUTURES_PER_WORKER

    def submit(self, tasks: Sequence[Task]) -> Any:
        return self._pool.submit(execute_remotely, tasks)

    def first_done(self, futures: Sequence[Any]) -> Sequence[Any]:
        return list(wait(futures, return_when=FIRST_COMPLETED).done)


@contextmanager
def over_ranks() -> Iterator[Executor | None]:
    """Yield an executor on the other ranks in rank 0, and None in those once they have executed all tasks."""
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
            "mpi`: rank 0 distributes the runs, the others execute them"
        )
    if world.Get_rank() == 0:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    with _aborting(world), MPICommExecutor(world, root=0) as pool, _aborting(world):
        # Within the pool as well, which waits for the runs of other ranks as it ends.
        yield None if pool is None else _RankPool(pool, world.Get_size() - 1)


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
    """Make signals end this process at once, as MPI then ends the others; return the earlier handlers.

    In ranks that execute tasks, mpi4py would take the exception of a handler for the result of a task. What
    such a run leaves unfinished is removed when the study continues.
    """
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    heeded = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    return {number: signal.signal(number, signal.SIG_DFL) for number in heeded}
