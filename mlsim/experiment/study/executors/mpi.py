"""Does tasks in the ranks of MPI, by mpi4py.futures: ``mpiexec -n 5 mlsim study DIR --executor mpi``."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from mlsim.errors import SIGNALS, InputError, StoppedError
from mlsim.experiment.study.executors.base import Executor, Started
from mlsim.experiment.study.executors.remote import hand_out
from mlsim.experiment.study.tasks import Done, Task

__all__ = ["over_ranks"]


class _Ranks:
    def __init__(self, pool: Any, ranks: int) -> None:
        self._pool, self._ranks = pool, ranks
        self._begun = False

    def results(self, tasks: Sequence[Task], started: Started) -> Iterator[Done]:
        """Do tasks; see :class:`~mlsim.experiment.study.executors.base.Executor`."""
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
