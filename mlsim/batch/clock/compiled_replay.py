"""Compiled replay of jobs whose ends are known at their starts, with the results of the event clock."""

import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from mlsim._jit import apart_kernel, borrowed, kernel, leaf_kernel
from mlsim._runtime.arrays import Floats, Ints, Mask
from mlsim.batch.backfill.conservative import next_reservation
from mlsim.batch.clock.planned_ends import (
    ENDS,
    FINISHED,
    LAUNCHES,
    NEXT_ARRIVAL,
    NEXT_WITHDRAWAL,
    NO_RELEASES,
    OWED,
    PASSES,
    Events,
    Releasing,
    plan_ends,
    pop_end,
    pop_ends,
)
from mlsim.batch.columns import job_columns as at
from mlsim.batch.columns.job_columns import Columns, columns_at
from mlsim.batch.dispatch.passes import Reserving, arrive, begin, enter_queue, has_work, make_pass, reserving
from mlsim.batch.job_recorder import JobRecorder, RejectionLog
from mlsim.batch.order.queue import next_withdrawal, skip_started, withdraw
from mlsim.batch.room.pool import pool_at
from mlsim.batch.room.unit_requests import Requests
from mlsim.batch.state.batch_state import Progress
from mlsim.batch.state.pool_state import state_on_pool
from mlsim.platform import Machine
from mlsim.record import Jobs, JobState, Occupancy, Rejections
from mlsim.scenario import BatchConfig
from mlsim.workload.workload_jobs import JobBlock

# Why the event loop has come back.
ARRIVALS_WANTED, ROOM_WANTED, REPORT_DUE, OVER, LAUNCHES_WANTED = range(5)


class Safeguard(NamedTuple):
    """Ends jobs that were taken for small, and starts them again as large ones; empty where there is none."""

    limits: Floats  # run time of each slot's job at which it ends [s]; infinite: it does not, or no more
    run: Floats  # the run time that it needs [s]
    killed: Floats  # receives when the attempt started that was ended [s]
    lost: Floats  # receives its node-seconds


NO_SAFEGUARD = Safeguard(*(np.empty(0) for _ in range(4)))


@leaf_kernel
def _next_due(progress: Ints, withdrawals: Ints, columns: Columns) -> float:
    """Return when the next job is withdrawn that has not started [s]; infinity if there is none."""
    progress[NEXT_WITHDRAWAL] = skip_started(progress[NEXT_WITHDRAWAL], withdrawals, columns)
    return next_withdrawal(progress[NEXT_WITHDRAWAL], withdrawals, columns)


@apart_kernel
def _withdraw_due(
    now: float, others: bool, progress: Ints, withdrawals: Ints, finished: Ints, columns: Columns
) -> None:
    """Withdraw the jobs that have not started and whose time has come.

    Where there is a pass after every event, that is one job, after all ``others`` that arrive or end now.
    """
    one = columns.rules[at.PER_EVENT] != 0
    while not (one and others) and _next_due(progress, withdrawals, columns) <= now:
        slot = withdrawals[progress[NEXT_WITHDRAWAL]]
        withdraw(slot, columns)
        finished[progress[FINISHED]] = slot
        progress[FINISHED] += 1
        progress[NEXT_WITHDRAWAL] += 1
        others = True


@apart_kernel
def _start_again(now: float, n_ended: int, guard: Safeguard, columns: Columns) -> None:
    """Queue the jobs again, as large ones, that the safeguard ends now."""
    floats, ints = columns.floats, columns.ints
    for k in range(n_ended):
        slot = columns.ended[k]
        if guard.limits[slot] < np.inf:  # nothing else ends it
            guard.killed[slot] = floats[at.START, slot]
            guard.lost[slot] = ints[at.PROCESSORS, slot] * guard.limits[slot]
            guard.limits[slot], floats[at.RUN, slot] = np.inf, guard.run[slot]
            floats[at.WITHDRAWAL, slot] = np.inf  # it has started once
            ints[at.BACKFILLED, slot], ints[at.LARGE, slot] = 0, 1
            for column in (at.START, at.END, at.EXPECTED, at.PLANNED):
                floats[column, slot] = np.nan
            enter_queue(now, k, k + 1, columns.ended, columns)


@leaf_kernel
def _next_time(
    now: float, submit: float, progress: Ints, ends: Ints, withdrawals: Ints, columns: Columns
) -> float:
    """Return the time of the next event; the next job is submitted at ``submit`` [s]."""
    then = submit
    if progress[ENDS] > 0:
        then = min(then, columns.floats[at.PLANNED, ends[0]])
    if progress[NEXT_WITHDRAWAL] < len(withdrawals):
        then = min(then, _next_due(progress, withdrawals, columns))
    if columns.rules[at.ONE_ROUND] or then == np.inf:
        # A job may have reserved a time without any event.
        then = min(then, next_reservation(now, columns.counts[at.PLACES], columns.queue, columns.floats))
    return float(then)


@leaf_kernel
def _note_ended(n_ended: int, progress: Ints, finished: Ints, columns: Columns) -> None:
    for k in range(n_ended):
        finished[progress[FINISHED] + k] = columns.ended[k]
    progress[FINISHED] += n_ended


@kernel
def replay(
    more: bool,
    events: Events,
    guard: Safeguard,
    releasing: Releasing,
    row_limit: int,
    pass_limit: int,
    columns_address: int,
    pool_address: int,
    reserving: Reserving,
) -> int:
    """Process timestamps until arrivals, room, a report or launches are wanted, or all is over; return which.

    With ``more`` other jobs arrive after those of the events. The state at the two addresses
    (:func:`mlsim.batch.columns.job_columns.pack_pointers`) is changed. Launches are wanted where nodes can be
    ``releasing``: the caller plans the end of each started job.
    """
    columns, pool = columns_at(columns_address), pool_at(pool_address)
    arrivals, clock, progress = borrowed(events.arrivals), borrowed(events.clock), borrowed(events.progress)
    ends, order, finished = borrowed(events.ends), borrowed(events.order), borrowed(events.finished)
    withdrawals, n, guarded = borrowed(events.withdrawals), len(arrivals), len(guard.limits) > 0
    while True:
        if columns.counts[at.USED_ROWS] > row_limit:
            return ROOM_WANTED
        if progress[PASSES] >= pass_limit:
            return REPORT_DUE
        first = progress[NEXT_ARRIVAL]
        if first == n and more:
            return ARRIVALS_WANTED
        last, n_ended = first, 0
        now = clock[0]
        if not progress[OWED]:
            submit = columns.floats[at.SUBMIT, arrivals[first]] if first < n else np.inf
            now = _next_time(now, submit, progress, ends, withdrawals, columns)
            if now == np.inf:
                return OVER
            clock[0] = now
        ends_now = progress[ENDS] > 0 and columns.floats[at.PLANNED, ends[0]] == now
        if columns.rules[at.PER_EVENT]:
            submits_now = first < n and columns.floats[at.SUBMIT, arrivals[first]] == now
            if submits_now and not (columns.rules[at.ENDS_FIRST] and ends_now):
                last = first + 1
        else:
            while last < n and columns.floats[at.SUBMIT, arrivals[last]] == now:
                last += 1
            if last == n and last > first and more:
                # The next arrivals may belong to this time as well: the pass is owed until they are known.
                enter_queue(now, first, last, arrivals, columns)
                progress[NEXT_ARRIVAL], progress[OWED] = last, 1
                return ARRIVALS_WANTED
        if progress[NEXT_WITHDRAWAL] < len(withdrawals):
            others = last > first or ends_now
            _withdraw_due(now, others, progress, withdrawals, finished, columns)
        if not columns.rules[at.PER_EVENT]:
            n_ended = pop_ends(now, progress, ends, order, releasing, columns, pool)
        elif last == first and ends_now:
            columns.ended[0] = pop_end(progress[ENDS], ends, order, columns.floats)
            progress[ENDS] -= 1
            n_ended = 1
        progress[OWED], progress[NEXT_ARRIVAL] = 0, last
        arrive(now, n_ended, first, last, arrivals, columns, pool)
        if guarded:
            _start_again(now, n_ended, guard, columns)
        n_started = 0
        if has_work(columns):
            begin(now, False, columns, pool)
            n_started = make_pass(0, now, columns, pool, reserving)
        _note_ended(n_ended, progress, finished, columns)
        progress[PASSES] += 1
        if n_started > 0 and len(releasing.first) > 0:
            progress[LAUNCHES] = n_started
            return LAUNCHES_WANTED
        plan_ends(n_started, now, progress, ends, order, columns)


_REPORT_EVERY = 65536  # passes between two reports of progress


class CompiledBatch:
    """Queue, dispatcher and nodes of one machine, for jobs that end after their run times.

    Attributes
    ----------
    seconds
        Wall-clock seconds spent in compiled code, events and passes together.
    """

    def __init__(
        self,
        machine: Machine,
        config: BatchConfig,
        requests: Requests,
        report: Callable[[Progress], None] | None = None,
        nodes_one_by_one: bool = False,
    ) -> None:
        self.state = state_on_pool(machine, config, requests, nodes_one_by_one)
        self._reserving = reserving(self.state.columns.rules)
        self.seconds = 0.0
        self._report = report
        self._recorder = JobRecorder(self.state.table, requests)
        self._rejections = RejectionLog()
        self._n_recorded = 0
        nothing = np.empty(0, np.int64)
        self._events, self._releasing = Events.of(nothing, nothing, 0), NO_RELEASES
        self._progress = self._events.progress
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
        """Return the further tables of its records, as :meth:`.BatchSystem.tables` does."""
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
            table.ints[at.STATE, slots[unfit]] = JobState.REJECTED
            table.floats[at.ESTIMATE, slots[unfit]] = np.nan
            self._rejections.add(table.ints[at.NUMBER, slots[unfit]], reason)
            self._recorder.record_ended(slots[unfit])
            self._n_recorded += int(np.count_nonzero(unfit))
            accepted &= ~unfit
        accepted &= ~self._withdraw_at_once(slots, accepted)
        self._await_withdrawals(slots[accepted])
        self._events = self._events._replace(arrivals=slots[accepted])
        self._progress[NEXT_ARRIVAL] = 0

    def _withdraw_at_once(self, slots: Ints, accepted: Mask) -> Mask:
        """Return which jobs are withdrawn at their submission; they never enter the queue."""
        floats = self.state.table.floats
        found: Mask = accepted & (floats[at.WITHDRAWAL, slots] <= floats[at.SUBMIT, slots])
        if found.any():
            self.state.table.ints[at.STATE, slots[found]] = JobState.WITHDRAWN
            floats[at.ESTIMATE, slots[found]] = np.nan
            self._recorder.record_ended(slots[found])
            self._n_recorded += int(np.count_nonzero(found))
        return found

    def _await_withdrawals(self, slots: Ints) -> None:
        """Add the withdrawals of admitted jobs to those of waiting jobs, in order of time."""
        times = self.state.table.floats[at.WITHDRAWAL]
        coming = slots[times[slots] < np.inf]
        if len(coming):
            pending = np.concatenate([self._pending_withdrawals(), coming])
            self._expect_withdrawals(pending[np.argsort(times[pending], kind="stable")])

    def _pending_withdrawals(self) -> Ints:
        return self._events.withdrawals[self._progress[NEXT_WITHDRAWAL] :]

    def _expect_withdrawals(self, slots: Ints) -> None:
        self._events, self._progress[NEXT_WITHDRAWAL] = self._events._replace(withdrawals=slots), 0

    def _go_on(self, more: bool) -> None:
        """Simulate until the next block is needed, or to the end."""
        wanted, every = -1, self._report_every()
        while wanted not in (ARRIVALS_WANTED, OVER):
            began = time.perf_counter()
            wanted = replay(
                more,
                self._events,
                NO_SAFEGUARD,
                self._releasing,
                self.state.row_limit,
                (self.n_passes // every + 1) * every,
                self.state.address,
                self.state.room.address,
                self._reserving,
            )
            self.seconds += time.perf_counter() - began
            if wanted == LAUNCHES_WANTED:
                self._launch()
            elif wanted == REPORT_DUE:
                self._report_progress()
            elif wanted not in (ARRIVALS_WANTED, OVER):
                self.state.ensure_capacity()

    def _launch(self) -> None:
        """Plan the ends of the jobs that have just started, where the kernel does not."""
        raise AssertionError("the kernel plans the ends of rigid jobs itself")

    def _report_every(self) -> int:
        """Return the passes between two reports of progress."""
        return _REPORT_EVERY

    def _report_progress(self) -> None:
        if self._report is not None:
            done = self._n_recorded + int(self._progress[FINISHED])
            self._report(self.state.progress(float(self._events.clock[0]), done))

    def _ensure_capacity(self) -> None:
        """Grow the arrays to hold all jobs in the system."""
        self.state.ensure_capacity()
        more = self.state.table.capacity - len(self._events.ends)
        if more > 0:
            grown = {
                name: np.concatenate([getattr(self._events, name), np.zeros(more, np.int64)])
                for name in ("ends", "order", "finished")
            }
            self._events = self._events._replace(**grown)

    def _flush(self) -> None:
        """Move the rows of ended jobs to the recorder."""
        pending = self._pending_withdrawals()  # whose slots may soon be those of other jobs
        self._expect_withdrawals(pending[np.isnan(self.state.table.floats[at.START, pending])])
        n = int(self._progress[FINISHED])
        self._recorder.record_ended(self._events.finished[:n].copy())
        self._n_recorded += n
        self._progress[FINISHED] = 0
