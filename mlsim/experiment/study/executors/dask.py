"""Does tasks in the workers of a Dask cluster, one that is there or one that Slurm is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from mlsim.errors import InputError
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
            return self._client.submit(function, task, pure=False)

        def first(futures: Sequence[Any]) -> Sequence[Any]:
            return list(wait(futures, return_when="FIRST_COMPLETED").done)

        threads = sum(self._client.nthreads().values())
        first_alone, self._begun = not self._begun, True
        return hand_out(submit, first, max(threads, 1), tasks, started, first_alone=first_alone)


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
        with SLURMCluster() as cluster, Client(cluster) as client:
            cluster.scale(jobs or 1)
            client.wait_for_workers(1)
            yield _Cluster(client)
        return
    try:
        client = Client(scheduler, timeout=_SECONDS_TO_CONNECT)
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(f"--scheduler {scheduler}: no Dask scheduler answers there: {error}") from error
    with client:
        yield _Cluster(client)
