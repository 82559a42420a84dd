"""The batch system: SimPy events outside, compiled passes inside."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

import numpy as np
import simpy
from numpy.typing import NDArray

from mlsim._arrays import Ints
from mlsim.batch.clock.clock_progress import Progress
from mlsim.batch.clock.event_clock import Clock, Event, Order
from mlsim.batch.columns.job_table import (
    ESTIMATE,
    NUMBER,
    PLANNED,
    START,
    STATE,
    SUBMIT,
    WALLTIME,
    WITHDRAWAL,
)
from mlsim.batch.columns.occupancy import BEGIN, COUNT, FINISH, NODE_CORES
from mlsim.batch.columns.running_jobs import leave_time
from mlsim.batch.events.dependency_events import Corrections, Dependants
from mlsim.batch.events.event_context import Applications
from mlsim.batch.events.outages import NO_NODE, OutageCalendar, OutagePlan, Restarts
from mlsim.batch.events.releases import ReleaseNegotiator, Releases
from mlsim.batch.job_recorder import DispatchTimes, JobRecorder, PassLog, RejectionLog, wall_clock
from mlsim.batch.predictors.estimates import LearnedEstimates, estimates_for
from mlsim.batch.predictors.predictor import CorrectingPredictor
from mlsim.batch.room.power_cap import PowerCap
from mlsim.batch.room.unit_requests import Requests
from mlsim.batch.state.state_choice import state_for
from mlsim.batch.weekly.weekly_forests import JobClasses
from mlsim.coordination import Forecast, MessageLog, NodeFailed
from mlsim.platform import Machine
from mlsim.record import Attempts, Jobs, JobState, Occupancy, Outages, Passes, Rejections, empty
from mlsim.record.growing_arrays import GrowingTimes
from mlsim.scenario import BatchConfig, CoordinationConfig, Dispatcher, OverrunRule, ReleasedNodes, TieOrder
from mlsim.workload.workload_dependencies import Dependencies
from mlsim.workload.workload_jobs import JobBlock

_PROGRESS_EVERY = 1024
"""Passes between two reports of progress."""

_NOTHING = np.empty(0, np.int64)

REJECTS_ALL = "the dispatcher rejects every job"
"""Why a job is turned away."""


class BatchSystem:
    """Queue, dispatcher and nodes of one machine.

    Parameters
    ----------
    machine
        The nodes.
    config
        Policy, backfilling and what happens at the estimate's end.
    requests
        How jobs ask for room.
    coordination
        The coordination of the two levels.
    log
        Where messages are noted, and how long they take; None where nodes stay with their job until
        it ends.
    plan
        Nodes that will be out of use.
    report
        Called now and then with the progress.
    executable_names
        Names behind the codes of executables, for predictors; none where codes are all there is.
    keep_passes
        Whether a row is kept for every pass.
    seed
        Of random choices of nodes.
    cap
        How much power jobs may add.
    dependencies
        Which job waits for which; None where none does.
    feedback
        Whether these determine when a job is submitted, whatever its submit time.
    local
        From submit times [s] to seconds since 1970 on the clocks of the log's time zone, for what learns from
        features of jobs; default: time 0 is 1970-01-01.
    """

    def __init__(
        self,
        machine: Machine,
        config: BatchConfig,
        requests: Requests,
        coordination: CoordinationConfig | None = None,
        log: MessageLog | None = None,
        plan: OutagePlan | None = None,
        report: Callable[[Progress], None] | None = None,
        executable_names: Sequence[str] = (),
        keep_passes: bool = False,
        seed: int = 0,
        cap: PowerCap | None = None,
        dependencies: Dependencies | None = None,
        feedback: bool = False,
        local: Callable[[NDArray[np.float64]], NDArray[np.float64]] = np.asarray,
    ) -> None:
        coordination = coordination or CoordinationConfig()
        self.clock = Clock(self._close_time)
        plan = plan or OutagePlan()
        self.state = state_for(machine, config, requests, log is not None, seed, cap, plan.announces)
        self._cap = cap
        self._rejections = RejectionLog()
        self.pass_times = GrowingTimes()
        self._pass_log = PassLog() if keep_passes else None
        self._dispatch_times = DispatchTimes() if config.count_dispatch_time else None
        self.applications: Applications
        self._releases = None if log is None else Releases(self, log, coordination)
        self._negotiator = self._negotiator_of(log, coordination)
        self._short_first = coordination.released_nodes is ReleasedNodes.SHORT_FIRST
        self._interval = config.pass_interval or config.backfill_interval
        self._starts_between = config.backfill_interval > 0
        self._next_pass = -math.inf  # the last one while none is planned
        self._kills = config.on_overrun is OverrunRule.KILL
        self._rejects = config.dispatcher is Dispatcher.REJECT
        self._turned_away: list[Ints] = []
        self._estimates = estimates_for(config, self.state.table, executable_names, local, seed)
        self._corrections = self._corrections_of(self._estimates)
        self._classes = (
            None
            if config.classifier is None
            else JobClasses(self.state.table, config.classifier, local, seed)
        )
        self.passes_after_each_event = config.ties is not TieOrder.DRAINED
        self.submissions_first = config.ties is TieOrder.PER_EVENT
        self._wake: Event | None = None
        self._feedback = feedback
        self._dependants = None if dependencies is None else Dependants(self, dependencies, feedback)
        self._outages = OutageCalendar(self, plan, self._releases) if plan else None
        self._restarts = Restarts(self, config)
        self._report = report
        self._recorder = JobRecorder(self.state.table, requests)
        self._arrivals = np.empty(0, np.int64)
        self._first_arrival = self._last_arrival = 0
        self._ending: list[int] = []
        self._end_events: dict[int, Event] | None = {} if plan or self._negotiator or self._classes else None
        self._withdrawals: dict[int, Event] = {}  # by slot, of jobs that wait
        self._all_submitted = False
        self._finished: list[int] = []
        self._n_finished = 0

    def _negotiator_of(
        self, log: MessageLog | None, coordination: CoordinationConfig
    ) -> ReleaseNegotiator | None:
        if log is None or self._releases is None:
            return None
        return ReleaseNegotiator.of(self, self._releases, log, coordination)

    def _corrections_of(self, estimates: object) -> Corrections | None:
        if not isinstance(estimates, LearnedEstimates):
            return None
        predictor = estimates.predictor
        if not isinstance(predictor, CorrectingPredictor):
            return None
        return Corrections(self, estimates, predictor)

    def run(self, blocks: Iterable[JobBlock], applications: Applications) -> None:
        """Simulate a workload until its last job has ended.

        Parameters
        ----------
        blocks
            The jobs in order of (submit_time, job_id).
        applications
            Starts the jobs' applications.
        """
        self.applications = applications
        if self._pass_log is not None or self._dispatch_times is not None:
            # The first call loads kernels from disk, which is not the dispatcher's time.
            self.state.advance(self.clock.time, [], self._arrivals, 0, 0, _NOTHING)
        if self._outages is not None:
            self._outages.begin()
        if self._cap is not None:
            for at, watts in self._cap.levels:
                self.clock.at(at, Order.FAILURE, self._set_power_cap, watts)
        self.clock.process(self._submit_all(blocks))
        self.clock.run()
        while (promised := self.state.next_reservation(self.clock.time)) < math.inf:
            self._wake_at(promised)  # no other event is left
            self.clock.run()
        self._reject_turned_away()
        # Nodes that are out of use for good may leave jobs that nothing will ever start.
        stranded = self.state.empty_queue()
        died = [slot for slot in stranded if self._restarts.strand(slot)]
        self._retire(died)
        never = [slot for slot in stranded if slot not in died]
        self._reject(never, "waited until nothing could start it any more")
        if self._dependants is not None:
            self._dependants.reject_rest()
        self._flush()

    def jobs(self) -> Jobs:
        """Return the rows of all jobs, in order of arrival."""
        jobs = self._recorder.jobs()
        if self._dependants is not None:
            jobs = self._dependants.added_to(jobs)
        if self._classes is not None:
            jobs = self._classes.added_to(jobs)
        return jobs if self._dispatch_times is None else self._dispatch_times.added_to(jobs)

    def passes(self) -> Passes:
        """Return the rows of all passes; an empty table where they are not kept."""
        return empty(Passes) if self._pass_log is None else self._pass_log.passes()

    def occupancy_rows(self) -> Occupancy:
        """Return the occupancy rows: which job held which nodes, in order of start."""
        return self.state.occupancy.record(self.state.n_rows)

    def outage_rows(self) -> Outages:
        """Return the outages of nodes, in order of start."""
        return empty(Outages) if self._outages is None else self._outages.record()

    def attempt_rows(self) -> Attempts:
        """Return the attempts that failures or the safeguard ended, by job."""
        return self._restarts.record()

    def tables(self) -> dict[str, Any]:
        """Return the further tables of its records, by the names that :class:`mlsim.record.Records` has."""
        return {
            "passes": self.passes(),
            "outages": self.outage_rows(),
            "attempts": self.attempt_rows(),
            "solves": self.state.solves(),
            "rejections": self.rejections(),
        }

    # Submissions

    def _submit_all(self, blocks: Iterable[JobBlock]) -> Generator[simpy.Event, Any, None]:
        """Submit the jobs of each submit time together; a SimPy process."""
        if self._feedback:
            blocks = [
                JobBlock.concatenate(list(blocks))
            ]  # jobs may come before those that the log has earlier
        for block in blocks:
            slots, reached = self._admit(block), 0
            submits = self.state.table.floats[SUBMIT, slots]
            bounds = np.flatnonzero(np.diff(submits, append=np.nan)) + 1
            order = Order.SUBMISSION
            if self.passes_after_each_event:
                bounds = np.arange(1, len(slots) + 1)
                order = Order.FIRST if self.submissions_first else Order.SUBMISSION
            for at, last in zip(submits[bounds - 1].tolist(), bounds.tolist(), strict=True):
                yield self.clock.until(at, order)
                if self._dependants is not None:
                    self.queue_up(self._dependants.submit(slots, reached, last))
                    reached = last
                    continue
                self._tell_dispatcher(slots[self._last_arrival : last])
                self._last_arrival = last
                self._event_over()
        self._all_submitted = True

    def _admit(self, block: JobBlock) -> Ints:
        """Assign slots to the jobs of a block and reject those that can never fit."""
        # The last jobs of the block before may still wait for their pass.
        self.state.enter_queue(self.clock.time, self._arrivals, self._first_arrival, self._last_arrival)
        self._reject_turned_away()
        table, requests = self.state.table, self.state.requests
        if table.n_free < len(block.job_id):
            self._flush()
        self.pass_times.settle()
        self.state.occupancy.free_filed()
        slots = table.admit(block, requests.units_of(block))
        self.state.ensure_capacity()
        if self._estimates is not None:
            self._estimates.admit(block, slots)
        accepted = np.ones(len(slots), np.bool_)
        for reason, unfit in self.state.never_fit(slots, block).items():
            self.reject_unseen(slots[unfit].tolist(), table.floats[SUBMIT, slots[unfit]], reason)
            accepted &= ~unfit
        at_once = accepted & (table.floats[WITHDRAWAL, slots] <= table.floats[SUBMIT, slots])
        if at_once.any() and not self._feedback:
            self._withdraw_unseen(slots[at_once].tolist(), table.floats[SUBMIT, slots[at_once]])
            accepted &= ~at_once
        if self._dependants is not None:
            self._dependants.admit(slots[accepted])
        if self._feedback and self._dependants is not None:
            self.await_withdrawals(self._dependants.independent(slots[accepted]))
        else:
            self.await_withdrawals(slots[accepted])
        if self._classes is not None:
            self._classes.admit(block.select(np.flatnonzero(accepted)), slots[accepted])
        self._arrivals = slots[accepted]
        self._first_arrival = self._last_arrival = 0
        return self._arrivals

    def await_withdrawals(self, slots: Ints) -> None:
        """Have jobs leave the queue at the times at which they are withdrawn, unless they start before."""
        times = self.state.table.floats[WITHDRAWAL, slots]
        for k in np.flatnonzero(times < math.inf).tolist() if not self._rejects else ():
            slot = int(slots[k])
            self._withdrawals[slot] = self.clock.at(float(times[k]), Order.WITHDRAWAL, self._withdraw, slot)

    def _withdraw(self, event: Event) -> None:
        """Take a job that still waits out of the queue."""
        slot, now = event.subject, self.clock.time
        if self._dependants is not None and self._dependants.forget(slot):
            self._withdraw_unseen([slot], now)
            return
        arriving = self._arrivals[self._first_arrival : self._last_arrival]
        if self._dependants is not None and slot in arriving:  # it became eligible at this very time
            self._arrivals = arriving[arriving != slot]
            self._first_arrival, self._last_arrival = 0, len(self._arrivals)
        self.state.withdraw(slot)
        self._notify_dependants([slot], now, completed=False)
        self._retire([slot])
        self._event_over()

    def _forget_withdrawals(self, slots: list[int]) -> None:
        for slot in slots if self._withdrawals else ():
            if slot in self._withdrawals:
                self._withdrawals.pop(slot).cancel()

    def _withdraw_unseen(self, slots: list[int], at: float | NDArray[np.float64]) -> None:
        """Withdraw jobs that no dispatcher has seen, at these times."""
        self.state.table.floats[ESTIMATE, slots] = np.nan
        self._notify_dependants(slots, at, completed=False)
        self.state.table.ints[STATE, slots] = JobState.WITHDRAWN
        self._retire(slots)

    def queue_up(self, slots: Ints) -> None:
        """Put jobs into the queue now, and make a pass or ask for one."""
        if not len(slots):
            return
        self._tell_dispatcher(slots)
        pending = self._arrivals[self._first_arrival : self._last_arrival]
        self._arrivals = np.concatenate([pending, slots]) if len(pending) else slots
        self._first_arrival, self._last_arrival = 0, len(self._arrivals)
        self._event_over()

    def _tell_dispatcher(self, slots: Ints) -> None:
        """Have the dispatcher know what it is told of jobs that are submitted now."""
        if self._estimates is not None:
            self._estimates.arrive(slots)
        if self._classes is not None:
            self._classes.arrive(slots, self.clock.time)

    def reject_unseen(self, slots: list[int], at: float | NDArray[np.float64], reason: str) -> None:
        """Reject jobs that no dispatcher has seen, at these times."""
        self.state.table.floats[ESTIMATE, slots] = np.nan
        self._notify_dependants(slots, at, completed=False)
        self._reject(slots, reason)

    def _notify_dependants(
        self, slots: list[int] | Ints, at: float | NDArray[np.float64], *, completed: bool
    ) -> None:
        """Notify the dependent jobs that jobs end for good, at these times."""
        if self._dependants is not None:
            times = np.broadcast_to(at, len(slots)).tolist()
            for number, time in zip(self.state.table.ints[NUMBER, slots].tolist(), times, strict=True):
                self._dependants.ended(number, time, completed)

    def _reject(self, slots: list[int], reason: str) -> None:
        """Reject jobs."""
        self.state.table.ints[STATE, slots] = JobState.REJECTED
        self._rejections.add(self.state.table.ints[NUMBER, slots], reason)
        self._retire(slots)

    def rejections(self) -> Rejections:
        """Return the rejected jobs, with the reasons."""
        return self._rejections.record()

    # Passes

    def _event_over(self) -> None:
        """Make a pass: now if there is one after every event, else when the current time is over."""
        if self.passes_after_each_event:
            self._close_time()
        else:
            self.clock.ask_to_close()

    def _close_time(self) -> None:
        """Handle what happened at the current time; make a pass, or wait for the next one's time.

        With an interval of backfilling only, passes between its times start jobs in order.
        """
        now = self.clock.time
        if self._interval == 0:
            self._pass(now)
            return
        is_between = self._is_between(now)
        if self._starts_between:
            self.state.allow_backfill(not is_between)
        elif is_between:
            self.free_ended()
            self.state.enter_queue(now, self._arrivals, self._first_arrival, self._last_arrival)
            self._first_arrival = self._last_arrival
            return
        self._pass(now)

    def _is_between(self, now: float) -> bool:
        """Whether this is none of the interval's times; has the next one come, if none is planned."""
        if self._next_pass < now:
            self._next_pass = math.ceil(now / self._interval) * self._interval
            if self._next_pass > now:
                wake = Order.SUBMISSION
                self.clock.at(self._next_pass, wake, lambda _: self.clock.ask_to_close(), None)
        return self._next_pass > now

    def _pass(self, now: float) -> None:
        """Make a pass: jobs end and arrive, then jobs of the queue start."""
        state = self.state
        if self._outages is not None and state.holds_back:
            self.free_ended()
        released = self._releases.released_now() if self._short_first and self._releases else _NOTHING
        waiting = 0 if self._pass_log is None else state.n_waiting + self._last_arrival - self._first_arrival
        began = wall_clock()
        if self._rejects:
            n_started = self._turn_away()
        else:
            n_started = state.advance(
                now, self._ending, self._arrivals, self._first_arrival, self._last_arrival, released
            )
        seconds = wall_clock() - began
        self.pass_times.append(seconds)
        if self._pass_log is not None:
            self._pass_log.add(now, waiting, n_started, state, seconds)
        self._first_arrival = self._last_arrival
        if self._ending:
            self._retire(self._ending)
            self._ending.clear()
        if state.rejected:
            for slot, reason in state.rejected:
                self._notify_dependants([slot], now, completed=False)
                self._reject([slot], reason)
            state.rejected.clear()
        if n_started:
            self._launch(state.started[:n_started], now, seconds)
        if self._releases is not None:
            self._releases.after_pass(now)
        if self._negotiator is not None:
            self._negotiator.after_pass(now)
        if self._outages is not None:
            self._outages.after_pass(now, n_started)
        if state.wakes:
            self._wake_at(state.next_reservation(now))
        if self._report is not None and len(self.pass_times) % _PROGRESS_EVERY == 0:
            self._report(Progress.of(state, now, self._n_finished))

    def _wake_at(self, time: float) -> None:
        """Have a pass at this time, and not at the one that was asked for before."""
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        if time < math.inf:
            self._wake = self.clock.at(time, Order.SUBMISSION, lambda _: self.clock.ask_to_close(), None)

    def _launch(self, slots: Ints, now: float, seconds: float) -> None:
        """Start the applications of the jobs that a pass of so many seconds has given nodes to."""
        if self._dispatch_times is not None:
            self._dispatch_times.add(slots, self.state.table, seconds)
        self._forget_withdrawals(slots.tolist())
        for slot in slots.tolist():
            self.plan(slot, now, self.applications.launch(slot, now))
        if self.state.n_rows > self.state.row_limit:
            self.state.ensure_capacity()

    def _set_power_cap(self, event: Event) -> None:
        self.state.set_power_cap(event.subject)
        self.clock.ask_to_close()

    def _turn_away(self) -> int:
        """Reject every job that has arrived, rows to be written later; return 0, the number that start."""
        slots = [self._arrivals[self._first_arrival : self._last_arrival]]
        if self.state.n_waiting:
            slots.append(np.array(self.state.empty_queue(), np.int64))
        for turned_away in slots:
            self._notify_dependants(turned_away, self.clock.time, completed=False)
        self._turned_away += slots
        return 0

    def _reject_turned_away(self) -> None:
        """Write the rows of the jobs that passes have rejected."""
        if not self._turned_away:
            return
        slots = np.concatenate(self._turned_away)
        self._turned_away.clear()
        self.state.table.floats[ESTIMATE, slots] = np.nan
        self._reject(slots.tolist(), REJECTS_ALL)

    # Starts and ends

    def plan(self, slot: int, now: float, forecast: Forecast) -> None:
        """Schedule what a forecast says will happen after ``now``, in place of what was planned."""
        floats = self.state.table.floats
        end = leave_time(forecast.end, float(floats[START, slot]), float(floats[WALLTIME, slot]), self._kills)
        handler = self._kill if end < forecast.end else self._complete
        if self._classes is not None and (limit := floats[START, slot] + self._classes.limit(slot)) < end:
            end, handler = float(limit), self._take_back
        floats[PLANNED, slot] = end
        event = self.clock.at(end, Order.END, handler, slot)
        if self._end_events is not None:
            if slot in self._end_events:
                self._end_events[slot].cancel()
            self._end_events[slot] = event
        if self._corrections is not None:
            self._corrections.plan(slot, end)
        if self._releases is not None:
            self._releases.plan(slot, now, forecast)

    def _complete(self, event: Event) -> None:
        if self._negotiator is not None:
            self._negotiator.record_use(event.subject)
        self._end(event.subject, JobState.COMPLETED)
        self._event_over()

    def _kill(self, event: Event) -> None:
        self.state.table.ints[STATE, event.subject] = JobState.KILLED
        self._end(event.subject, JobState.KILLED)
        self._event_over()

    def _take_back(self, event: Event) -> None:
        """Kill a job that was taken for small and runs past its divider; it starts again as a large one."""
        slot: int = event.subject
        assert self._classes is not None
        self._classes.make_large(slot)
        self._start_again(slot, self.clock.time, NO_NODE)

    def _end(self, slot: int, state: JobState) -> None:
        now = self.clock.time
        self.applications.finish(slot, now, state)
        if self._releases is not None:
            self._releases.forget(slot, now)
        if self._end_events is not None:
            del self._end_events[slot]
        if self._corrections is not None:
            self._corrections.forget(slot)
        if self._estimates is not None and state is not JobState.FAILED:
            self._estimates.learn(slot, now)  # how long a failed job would have run is not known
        if self._classes is not None and state is not JobState.FAILED:
            self._classes.learn(slot, now)
        self._ending.append(slot)
        self._notify_dependants([slot], now, completed=state is JobState.COMPLETED)

    def free_ended(self) -> None:
        """Free at once what the jobs that end now hold, rather than in the pass."""
        for slot in self._ending:
            self.state.end(slot, self.clock.time)
        self._retire(self._ending)
        self._ending.clear()

    # Failures

    @property
    def is_running_out(self) -> bool:
        """Whether no job runs and no more will be submitted."""
        to_come = self._dependants is not None and self._dependants.is_pending
        return self._all_submitted and not self.state.n_running and not to_come

    def attempt(self, slot: int) -> tuple[int, int]:
        """Return the number of a job, and how often it has started again."""
        return self.state.number(slot), self._restarts.count(slot)

    def fail_job(self, slot: int, node: int) -> None:
        """End a running job that loses a node; it may go back to the queue."""
        assert self._end_events is not None
        now = self.clock.time
        self._end_events[slot].cancel()
        self.applications.apply_change(slot, now, NodeFailed(node))
        if self._restarts.may_go_on(slot):
            self._start_again(slot, now, node)
            return
        self.state.table.ints[STATE, slot] = JobState.FAILED
        self._end(slot, JobState.FAILED)
        self._ending.remove(slot)
        self.state.end(slot, now)
        self._retire([slot])

    def _start_again(self, slot: int, now: float, node: int) -> None:
        """End an attempt, at the failure of a node if one is given, and put its job back into the queue."""
        assert self._end_events is not None
        busy = self.applications.requeue(slot, now)
        rows = list(self.state.rows_of(slot))
        if self._releases is not None:
            rows += self._releases.returned_rows(slot)
            self._releases.forget(slot, now)
        del self._end_events[slot]
        if self._corrections is not None:
            self._corrections.forget(slot)
        self.state.end(slot, now)
        ints, times = self.state.occupancy.ints[:, rows], self.state.occupancy.floats[:, rows]
        core_seconds = ints[COUNT] * ints[NODE_CORES] * (times[FINISH] - times[BEGIN])
        self._restarts.record_attempt(slot, now, node, busy, float(core_seconds.sum()))
        self.state.requeue(slot, now)
        self.clock.ask_to_close()

    # Memory

    def _retire(self, slots: list[int]) -> None:
        self._forget_withdrawals(slots)
        self._restarts.forget(slots)
        self._finished.extend(slots)
        self._n_finished += len(slots)

    def _flush(self) -> None:
        """Move the rows of ended jobs to the recorder."""
        self._recorder.record_ended(np.array(self._finished, np.int64))
        self._finished.clear()
