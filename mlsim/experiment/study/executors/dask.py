"""Does tasks in the workers of a Dask cluster, one that is there or one that Slurm is asked for."""

from __future__ import annotations

import logging
from asyncio import CancelledError as AsyncCancelledError
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any

from mlsim.errors import InputError, OutputError
from mlsim.experiment.study.executors.base import Executor, Started
from mlsim.experiment.study.executors.remote import hand_out
from mlsim.experiment.study.tasks import Done, Task

__all__ = ["on_cluster"]

_SECONDS_TO_CONNECT = 30


class _Cluster:
    def __init__(self, client: Any) -> None:
        self._client = client
        self._begun = False

    def results(self, tasks: Sequence[Task], started: Started) -> Iterator[Done]:
        """Do tasks; see :class:`~mlsim.experiment.study.executors.base.Executor`."""
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
