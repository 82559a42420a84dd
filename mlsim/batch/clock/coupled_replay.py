"""Compiled replay of jobs whose applications are simulated when they start."""

from collections.abc import Callable, Iterable

import numpy as np

from mlsim._runtime.arrays import ranges
from mlsim._runtime.memory import let_go_of_freed
from mlsim.batch.clock.compiled_replay import CompiledBatch
from mlsim.batch.clock.planned_ends import ENDS, FINISHED, LAUNCHES, Planning, Releasing, plan_releases
from mlsim.batch.columns import job_columns as at
from mlsim.batch.columns.job_columns import pack_pointers
from mlsim.batch.job_recorder import MessageLog
from mlsim.batch.room.unit_requests import Requests
from mlsim.batch.state.batch_state import Applications, Progress
from mlsim.coordination import IdleNodes
from mlsim.platform import Machine
from mlsim.record import JobState
from mlsim.scenario import BatchConfig
from mlsim.workload.workload_jobs import JobBlock

_REPORT_EVERY = 4096  # passes between two reports of progress: single ones may take long
_TRIMMED_EVERY = 1024  # loops after which memory that they freed is returned to the system


class CoupledBatch(CompiledBatch):
    """As :class:`CompiledBatch`, for jobs with applications that forecast their ends, and idle nodes.

    The batch level asks for no nodes, and returns none: what an application forecasts at its start holds.
    """

    def __init__(
        self,
        machine: Machine,
        config: BatchConfig,
        requests: Requests,
        report: Callable[[Progress], None] | None = None,
        log: MessageLog | None = None,
    ) -> None:
        self._latency = 0.0 if log is None else log.latency
        # Running jobs have a release for each core of the machine at most.
        places = 2 * machine.n_cores + 2 if log is not None else 1
        self._place = 0  # first free one
        self._room = Releasing(
            *(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)),
            *(np.zeros(machine.n_nodes, np.int64), np.zeros(places), np.zeros(places, np.int64)),
        )
        self._n_settled = 0  # ended jobs whose applications have ended too
        self._n_launched = 0  # since freed memory was returned
        super().__init__(machine, config, requests, report, nodes_one_by_one=log is not None)

    def run(self, blocks: Iterable[JobBlock], applications: Applications | None = None) -> None:
        """Simulate a workload, jobs in order of (submit_time, job_id), until its last job has ended."""
        assert applications is not None, "the applications of the jobs are needed"
        self.state.applications = applications
        super().run(blocks)

    def _launch(self) -> None:
        """Launch the applications of the jobs that have just started, after those that ended before."""
        self._settle()
        self._n_launched += int(self._progress[LAUNCHES])
        now, launch = float(self._events.clock[0]), self.state.applications.launch
        for slot in self.state.started[: self._progress[LAUNCHES]].tolist():
            forecast = launch(slot, now)
            idle = IdleNodes.of(forecast.idle)
            if self._place + len(idle) > len(self._releasing.time):
                self._join_releases()
            self._place = plan_releases(
                *(slot, forecast.end, self._latency, idle.time, idle.node, self._place),
                *(self._packed.ctypes.data, self.state.address),
            )

    def _report_every(self) -> int:
        return _REPORT_EVERY

    def _report_progress(self) -> None:
        super()._report_progress()
        self.state.occupancy.free_filed()
        if self._n_launched >= _TRIMMED_EVERY:
            self._n_launched = 0
            let_go_of_freed()

    def _settle(self) -> None:
        """End the applications of jobs that have ended."""
        table, n = self.state.table, int(self._progress[FINISHED])
        slots = self._events.finished[self._n_settled : n]
        self._n_settled = n
        for slot, state in zip(slots.tolist(), table.ints[at.STATE, slots].tolist(), strict=True):
            if state != JobState.WITHDRAWN:
                self.state.applications.finish(slot, float(table.floats[at.END, slot]), JobState(state))

    def _flush(self) -> None:
        self._settle()
        super()._flush()
        self._n_settled = 0

    def _join_releases(self) -> None:
        """Move the releases to come to the first places."""
        first, last, _, _, time, row = self._releasing
        running = self._events.ends[: self._progress[ENDS]]
        counts = last[running] - first[running]
        kept = ranges(first[running], counts)
        time[: len(kept)], row[: len(kept)] = time[kept], row[kept]
        last[running] = np.cumsum(counts)
        first[running] = last[running] - counts
        self._place = len(kept)

    def _ensure_capacity(self) -> None:
        super()._ensure_capacity()
        old = self._releasing if len(self._releasing.first) else self._room
        more = np.zeros(self.state.table.capacity - len(old.first), np.int64)
        self._releasing = old._replace(
            first=np.concatenate([old.first, more]),
            last=np.concatenate([old.last, more]),
            leaves=np.concatenate([old.leaves, more.astype(np.float64)]),
        )
        events = self._events
        self._packed = pack_pointers(Planning(events.progress, events.ends, events.order, *self._releasing))
