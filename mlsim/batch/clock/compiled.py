"""Compiled replay: rigid jobs through the batch level without Python in the loop, same results as SimPy's.

The kernels of the pass are the same as under SimPy, and so is the order of events; only the clock is
compiled. :class:`CompiledBatch` stands in for :class:`mlsim.batch.simulator.BatchSystem`; it takes jobs block
by block, so memory follows the number of jobs in the system.
:func:`mlsim.batch.clock.replay_many.replay_many` simulates thousands of small workloads in one call.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlsim.batch.clock.progress import Progress
from mlsim.batch.clock.replay_kernel import (
    ARRIVALS_WANTED,
    FINISHED,
    N_PROGRESS,
    NEXT_ARRIVAL,
    NEXT_WITHDRAWAL,
    OVER,
    PASSES,
    REPORT_DUE,
    replay,
)
from mlsim.batch.columns.table import ESTIMATE, NUMBER, START, STATE, SUBMIT, WITHDRAWAL
from mlsim.batch.dispatch.passes import reserving
from mlsim.batch.recording.recorder import JobRecorder, RejectionLog
from mlsim.batch.room.requests import Requests
from mlsim.batch.state.choice import state_on_pool
from mlsim.platform import Machine
from mlsim.record import Jobs, JobState, Occupancy, Rejections
from mlsim.scenario import BatchConfig
from mlsim.workload.jobs import JobBlock

__all__ = ["CompiledBatch"]

Ints = NDArray[np.int64]

_REPORT_EVERY = 65536
"""Passes between two reports of progress."""


class CompiledBatch:
    """Queue, dispatcher and nodes of one machine, for rigid jobs, without messages and failures.

    Parameters
    ----------
    machine, config, requests
        As of :class:`mlsim.batch.simulator.BatchSystem`.
    report
        Called now and then with the progress.

    Attributes
    ----------
    n_passes
        Passes so far.
    seconds
        Wall-clock seconds spent in compiled code, events and passes together.
    """

    def __init__(
        self,
        machine: Machine,
        config: BatchConfig,
        requests: Requests,
        report: Callable[[Progress], None] | None = None,
    ) -> None:
        self.state = state_on_pool(machine, config, requests, nodes_one_by_one=False)
        self._reserving = reserving(self.state.columns.rules)
        self.seconds = 0.0
        self._report = report
        self._recorder = JobRecorder(self.state.table, requests)
        self._rejections = RejectionLog()
        self._n_recorded = 0
        self._arrivals = np.empty(0, np.int64)
        self._clock = np.zeros(1)
        self._progress = np.zeros(N_PROGRESS, np.int64)
        self._withdrawals = np.empty(0, np.int64)
        self._ends = self._order = self._finished = np.empty(0, np.int64)
        self._ensure_capacity()

    @property
    def n_passes(self) -> int:
        """Passes so far."""
        return int(self._progress[PASSES])

    def run(self, blocks: Iterable[JobBlock]) -> None:
        """Simulate a workload, jobs in order of (submit_time, job_id), until its last job has ended."""
        for block in blocks:
            self._admit(block)
            self._go_on(more=True)
        self._go_on(more=False)
        self._flush()

    def jobs(self) -> Jobs:
        """Return the rows of all jobs, in order of arrival."""
        return self._recorder.jobs()

    def rejections(self) -> Rejections:
        """Return the rejected jobs, with the reasons."""
        return self._rejections.record()

    def occupancy_rows(self) -> Occupancy:
        """Return the occupancy rows: which job held which nodes, in order of start."""
        return self.state.occupancy.record(self.state.n_rows)

    def tables(self) -> dict[str, Any]:
        """Return the further tables of its records; see :meth:`mlsim.batch.simulator.BatchSystem.tables`."""
        return {"rejections": self.rejections()}

    def _admit(self, block: JobBlock) -> None:
        """Assign slots to the jobs of a block and reject those that can never fit."""
        table, requests = self.state.table, self.state.requests
        if table.n_free < len(block.job_id):
            self._flush()
        self.state.occupancy.free_filed()
        slots = table.admit(block, requests.units_of(block))
        self._ensure_capacity()
        accepted = np.ones(len(slots), np.bool_)
        for reason, unfit in self.state.never_fit(slots, block).items():
            table.ints[STATE, slots[unfit]] = JobState.REJECTED
            table.floats[ESTIMATE, slots[unfit]] = np.nan
            self._rejections.add(table.ints[NUMBER, slots[unfit]], reason)
            self._recorder.record_ended(slots[unfit])
            self._n_recorded += int(np.count_nonzero(unfit))
            accepted &= ~unfit
        accepted &= ~self._withdraw_at_once(slots, accepted)
        self._await_withdrawals(slots[accepted])
        self._arrivals = slots[accepted]
        self._progress[NEXT_ARRIVAL] = 0

    def _withdraw_at_once(self, slots: Ints, accepted: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which jobs are withdrawn at their submission; they never enter the queue."""
        floats = self.state.table.floats
        found: NDArray[np.bool_] = accepted & (floats[WITHDRAWAL, slots] <= floats[SUBMIT, slots])
        if found.any():
            self.state.table.ints[STATE, slots[found]] = JobState.WITHDRAWN
            floats[ESTIMATE, slots[found]] = np.nan
            self._recorder.record_ended(slots[found])
            self._n_recorded += int(np.count_nonzero(found))
        return found

    def _await_withdrawals(self, slots: Ints) -> None:
        """Have jobs that come withdrawn at their times, after those of the jobs that wait already."""
        times = self.state.table.floats[WITHDRAWAL]
        coming = slots[times[slots] < np.inf]
        if len(coming):
            pending = np.concatenate([self._withdrawals[self._progress[NEXT_WITHDRAWAL] :], coming])
            self._withdrawals = pending[np.argsort(times[pending], kind="stable")]
            self._progress[NEXT_WITHDRAWAL] = 0

    def _go_on(self, more: bool) -> None:
        """Simulate until the next block is needed, or to the end."""
        wanted = -1
        while wanted not in (ARRIVALS_WANTED, OVER):
            began = time.perf_counter()
            wanted = replay(
                more,
                self._arrivals,
                self._clock,
                self._progress,
                self._ends,
                self._order,
                self._finished,
                self._withdrawals,
                self.state.row_limit,
                (self.n_passes // _REPORT_EVERY + 1) * _REPORT_EVERY,
                self.state.address,
                self.state.room.address,
                self._reserving,
            )
            self.seconds += time.perf_counter() - began
            if wanted == REPORT_DUE:
                self._report_progress()
            elif wanted not in (ARRIVALS_WANTED, OVER):
                self.state.ensure_capacity()

    def _report_progress(self) -> None:
        if self._report is not None:
            done = self._n_recorded + int(self._progress[FINISHED])
            self._report(Progress.of(self.state, float(self._clock[0]), done))

    def _ensure_capacity(self) -> None:
        """Grow the arrays to hold all jobs in the system."""
        self.state.ensure_capacity()
        capacity = self.state.table.capacity
        if len(self._ends) < capacity:
            self._ends, self._order, self._finished = (
                np.concatenate([array, np.zeros(capacity - len(array), np.int64)])
                for array in (self._ends, self._order, self._finished)
            )

    def _flush(self) -> None:
        """Move the rows of ended jobs to the recorder."""
        if len(self._withdrawals):  # whose slots may soon be those of other jobs
            pending = self._withdrawals[self._progress[NEXT_WITHDRAWAL] :]
            waits = np.isnan(self.state.table.floats[START, pending])
            self._withdrawals, self._progress[NEXT_WITHDRAWAL] = pending[waits], 0
        n = int(self._progress[FINISHED])
        self._recorder.record_ended(self._finished[:n].copy())
        self._n_recorded += n
        self._progress[FINISHED] = 0
