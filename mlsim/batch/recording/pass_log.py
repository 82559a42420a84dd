"""What passes of the dispatcher leave: a row for each, and what they add to the waits of jobs."""

from __future__ import annotations

import time
from array import array
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import compile_seconds
from mlsim.batch.columns.table import NUMBER, JobTable
from mlsim.record import Jobs, Passes

__all__ = ["DispatchTimes", "PassLog", "wall_clock"]


def wall_clock() -> float:
    """Return wall-clock seconds without the time in which kernels are compiled, which is once a machine."""
    return time.perf_counter() - compile_seconds()


class _State(Protocol):
    """What a pass leaves."""

    @property
    def n_free(self) -> int:
        """Units that no job holds."""
        ...

    def running(self) -> list[int]:
        """Slots of the running jobs."""
        ...


class PassLog:
    """A row for every pass, in columns that grow: 48 bytes each."""

    def __init__(self) -> None:
        self._floats = {name: array("d") for name in ("time", "wall_time")}
        self._ints = {name: array("q") for name in ("queue_length", "started", "running", "free_units")}

    def add(self, now: float, waiting: int, started: int, state: _State, seconds: float) -> None:
        """Add the pass that has just ended.

        Parameters
        ----------
        now
            Simulated time in seconds.
        waiting
            Jobs that waited when it began.
        started
            Jobs it started.
        state
            As the pass left it.
        seconds
            Wall-clock seconds it took.
        """
        self._floats["time"].append(now)
        self._floats["wall_time"].append(seconds)
        self._ints["queue_length"].append(waiting)
        self._ints["started"].append(started)
        self._ints["running"].append(len(state.running()))
        self._ints["free_units"].append(state.n_free)

    def passes(self) -> Passes:
        """Return the rows of all passes."""
        columns: dict[str, NDArray[Any]] = {
            **{name: np.array(column, np.float64) for name, column in self._floats.items()},
            **{name: np.array(column, np.int64) for name, column in self._ints.items()},
        }
        return Passes(**columns)


class DispatchTimes:
    """The wall time of the pass that started each job."""

    def __init__(self) -> None:
        self._numbers: list[NDArray[np.int64]] = []
        self._seconds = array("d")

    def add(self, slots: NDArray[np.int64], table: JobTable, seconds: float) -> None:
        """Record a pass that started the jobs in these slots."""
        self._numbers.append(table.ints[NUMBER, slots])
        self._seconds.append(seconds)

    def added_to(self, jobs: Jobs) -> Jobs:
        """Return the jobs with their dispatch times, those of the last attempt where there were several."""
        times = np.full(len(jobs.job_id), np.nan)
        if self._numbers:
            many = [len(numbers) for numbers in self._numbers]
            times[np.concatenate(self._numbers)] = np.repeat(np.array(self._seconds), many)
        return replace(jobs, dispatch_time=times)
