"""Jobs on their way into the queue: submissions, withdrawals, and a dispatcher that rejects all of them."""

import math
from collections.abc import Iterable, Iterator

import numpy as np

from mlsim._runtime.arrays import Ints, Mask
from mlsim.batch.clock.event_clock import Event, Order
from mlsim.batch.columns.job_columns import ESTIMATE, SUBMIT, WITHDRAWAL
from mlsim.batch.events.attempts import Departures
from mlsim.batch.events.dependency_events import Dependants
from mlsim.batch.events.handler import Handler, Transitions
from mlsim.record.column_types import GrowingTimes
from mlsim.workload.workload_jobs import JobBlock

REJECTS_ALL = "the dispatcher rejects every job"  # reason of rejections by `dispatcher: reject`


class Submissions(Handler):
    """Submits the jobs of a workload, block by block.

    ``ties`` determines whether a pass follows each event, and whether submissions then precede job ends at
    the same time. With ``feedback`` dependencies alone determine when a job is submitted.
    """

    def __init__(
        self,
        transitions: Transitions,
        departures: Departures,
        pass_times: GrowingTimes,
        ties: tuple[bool, bool],
        dependants: Dependants | None,
        feedback: bool,
    ) -> None:
        super().__init__(transitions)
        self._departures, self._pass_times = departures, pass_times
        self._one_by_one = ties[0]
        self._order = Order.FIRST if ties[1] else Order.SUBMISSION
        self._dependants, self._feedback = dependants, feedback
        self._blocks: Iterator[JobBlock] = iter(())
        self._groups: Iterator[tuple[float, int]] = iter(())  # submit times, and where their jobs end
        self._slots, self._reached = np.empty(0, np.int64), 0

    def submit(self, blocks: Iterable[JobBlock]) -> None:
        """Schedule the submissions of jobs in order of (submit_time, job_id)."""
        # With feedback, jobs may be submitted before others that the log has earlier.
        self._blocks = iter([JobBlock.concatenate(list(blocks))]) if self._feedback else iter(blocks)
        self._clock.at(0.0, Order.END, self._next_block, None)

    def _next_block(self, _event: Event | None) -> None:
        """Admit blocks up to one that has jobs to submit."""
        for block in self._blocks:
            if self._admit_and_schedule(block):
                return
        self._state.all_submitted = True

    def _admit_and_schedule(self, block: JobBlock) -> bool:
        self._slots, self._reached = self.admit(block), 0
        # Jobs of one submit time are submitted together, unless each has a pass of its own.
        submits, ends = self._state.table.floats[SUBMIT, self._slots], np.arange(1, len(self._slots) + 1)
        if not self._one_by_one:
            ends = np.flatnonzero(np.diff(submits, append=np.nan)) + 1
        # Kept, as jobs that become eligible have that time in their columns instead.
        self._groups = zip(submits[ends - 1].tolist(), ends.tolist(), strict=True)
        return self._schedule_next()

    def _schedule_next(self) -> bool:
        """Schedule the next submission of the block; return whether there is one."""
        submit, last = next(self._groups, (math.inf, 0))
        if last:
            self._clock.at(submit, self._order, self._submit, last)
        return last > 0

    def _submit(self, event: Event) -> None:
        """Submit the next jobs of the block, up to the place that the event names."""
        first, last, state = self._reached, event.subject, self._state
        self._reached = last
        if self._dependants is not None:
            self._transitions.queue_up(self._dependants.submit(self._slots, first, last))
        else:
            self._transitions.arrive(self._slots[first:last])
            state.last_arrival = last
            self._clock.event_over()
        if not self._schedule_next():
            # As an event of this time: with ties per event the pass comes before the next block.
            self._clock.at(self._clock.time, self._order, self._next_block, None)

    def admit(self, block: JobBlock) -> Ints:
        """Assign slots to the jobs of a block, and reject those that can never fit; return the others."""
        state, transitions = self._state, self._transitions
        # The last jobs of the block before may still wait for their pass.
        state.enter_arrivals(self._clock.time)
        for settle in transitions.block:
            settle()
        table = state.table
        if table.n_free < len(block.job_id):
            self._departures.flush()
        self._pass_times.settle()
        state.occupancy.free_filed()
        slots = table.admit(block, state.requests.units_of(block))
        state.ensure_capacity()
        accepted = np.ones(len(slots), np.bool_)
        for listener in transitions.admission:
            listener(block, slots, accepted)
        # Without dependencies arrivals are slices of these, so that no pass copies any.
        state.arrivals = slots[accepted]
        state.first_arrival = state.last_arrival = 0
        return state.arrivals


class Misfits(Handler):
    """Rejects jobs that no set of nodes could hold, when they are submitted."""

    def on_admission(self, block: JobBlock, slots: Ints, accepted: Mask) -> None:
        """Reject the jobs of a block that never fit, by reason."""
        submits = self._state.table.floats[SUBMIT]
        for reason, unfit in self._state.never_fit(slots, block).items():
            self._transitions.reject_unseen(slots[unfit].tolist(), submits[slots[unfit]], reason)
            accepted &= ~unfit


class Withdrawals(Handler):
    """Withdraws jobs that have not started by their withdrawal time.

    With ``feedback`` that time moves with the submission. ``ignores``: no job waits at all (``dispatcher:
    reject``).
    """

    def __init__(
        self, transitions: Transitions, dependants: Dependants | None, feedback: bool, ignores: bool
    ) -> None:
        super().__init__(transitions)
        self._dependants, self._feedback, self._ignores = dependants, feedback, ignores
        self._events: dict[int, Event] = {}  # by slot, of jobs that wait

    def on_admission(self, _block: JobBlock, slots: Ints, accepted: Mask) -> None:
        """Withdraw jobs whose time is that of their submission; schedule the withdrawals of the others."""
        if self._feedback and self._dependants is not None:
            self._schedule(slots[accepted & ~self._dependants.depend(slots)])
            return
        floats = self._state.table.floats
        at_once = accepted & (floats[WITHDRAWAL, slots] <= floats[SUBMIT, slots])
        if at_once.any() and not self._feedback:
            self._transitions.withdraw_unseen(slots[at_once].tolist(), floats[SUBMIT, slots[at_once]])
            accepted &= ~at_once
        self._schedule(slots[accepted])

    def on_arrival(self, slots: Ints, _now: float) -> None:
        """With feedback, schedule the withdrawals of jobs that have become eligible."""
        if self._feedback and self._dependants is not None:
            self._schedule(slots[self._dependants.depend(slots)])

    def _schedule(self, slots: Ints) -> None:
        times = self._state.table.floats[WITHDRAWAL, slots]
        for k in np.flatnonzero(times < math.inf).tolist() if not self._ignores else ():
            slot = int(slots[k])
            self._events[slot] = self._clock.at(float(times[k]), Order.WITHDRAWAL, self._withdraw, slot)

    def _withdraw(self, event: Event) -> None:
        """Remove a job that still waits from the queue."""
        slot, now = event.subject, self._clock.time
        if self._dependants is not None and self._dependants.drop(slot):
            self._transitions.withdraw_unseen([slot], now)
            return
        if self._dependants is not None:
            self._state.remove_arrival(slot)  # it may have become eligible at this very time
        self._state.withdraw(slot)
        self._transitions.conclude([slot], now, completed=False)
        self._transitions.depart([slot])
        self._clock.event_over()

    def on_start(self, slots: Ints, _now: float, _seconds: float) -> None:
        """Cancel the withdrawals of jobs that start."""
        if self._events:
            self._cancel(slots.tolist())

    def on_departure(self, slots: Iterable[int]) -> None:
        """Cancel the withdrawals of jobs that have left."""
        if self._events:
            self._cancel(slots)

    def _cancel(self, slots: Iterable[int]) -> None:
        for slot in slots:
            if slot in self._events:
                self._events.pop(slot).cancel()


class RejectAll(Handler):
    """The dispatcher that rejects every job, which measures the simulator itself.

    Rows of rejected jobs are written block by block.
    """

    def __init__(self, transitions: Transitions) -> None:
        super().__init__(transitions)
        self._rejected: list[Ints] = []

    def advance(
        self, _now: float, _ended: list[int], arrivals: Ints, first: int, last: int, _released: Ints
    ) -> int:
        """Reject every job that has arrived; return 0, the number of jobs that start."""
        slots = [arrivals[first:last]]
        if self._state.n_waiting:
            slots.append(np.array(self._state.empty_queue(), np.int64))
        for rejected in slots:
            self._transitions.conclude(rejected, self._clock.time, completed=False)
        self._rejected += slots
        return 0

    def on_block(self) -> None:
        """Write the rows of the jobs that passes have rejected."""
        if self._rejected:
            slots = np.concatenate(self._rejected)
            self._rejected.clear()
            self._state.table.floats[ESTIMATE, slots] = np.nan
            self._transitions.reject(slots.tolist(), REJECTS_ALL)

    def on_finish(self) -> None:
        """Write the remaining rows."""
        self.on_block()
