"""The batch system: a clock, a state and a list of handlers; SimPy events outside, compiled passes inside."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from mlsim._runtime.arrays import Floats
from mlsim.batch.clock.event_clock import Clock, Event
from mlsim.batch.events.attempts import Departures, DispatchTimes, JobEnds, Restarts
from mlsim.batch.events.dependency_events import Dependants
from mlsim.batch.events.estimates import JobClasses, LearnedEstimates, estimates_for
from mlsim.batch.events.forecasts import Forecasts
from mlsim.batch.events.handler import Handler, Transitions
from mlsim.batch.events.outages import OutageCalendar, OutagePlan, PowerLevels
from mlsim.batch.events.releases import NOTHING, ReleaseNegotiator, Releases
from mlsim.batch.events.submissions import Misfits, RejectAll, Submissions, Withdrawals
from mlsim.batch.job_recorder import JobRecorder, MessageLog, PassLog, wall_clock
from mlsim.batch.room.unit_requests import PowerCap, Requests
from mlsim.batch.state.batch_state import Applications, Progress
from mlsim.batch.state.pool_state import state_for
from mlsim.platform import Machine
from mlsim.record import Attempts, Jobs, Occupancy, Outages, Passes, Rejections, empty
from mlsim.record.column_types import GrowingTimes
from mlsim.scenario import BatchConfig
from mlsim.scenario.batch_section import CoordinationConfig
from mlsim.scenario.words import Dispatcher, RequestRule, TieOrder
from mlsim.workload.workload_dependencies import Dependencies
from mlsim.workload.workload_jobs import JobBlock

_PROGRESS_EVERY = 1024
"""Passes between two reports of progress."""

_H = TypeVar("_H", bound=Handler)


@dataclass(frozen=True, slots=True)
class BatchSetup:
    """Further inputs of a batch system besides its machine, dispatcher and requests."""

    coordination: CoordinationConfig = field(default_factory=CoordinationConfig)
    log: MessageLog | None = None  # messages and their latency; None: nodes stay with their job until it ends
    plan: OutagePlan = field(default_factory=OutagePlan)
    report: Callable[[Progress], None] | None = None  # called at intervals
    executable_names: Sequence[str] = ()  # by code, for predictors; empty: only codes are known
    keep_passes: bool = False  # whether a row is kept for every pass
    seed: int = 0  # of random choices of nodes
    cap: PowerCap | None = None
    dependencies: Dependencies | None = None
    feedback: bool = False  # whether these determine when a job is submitted, whatever its submit time
    # From submit times [s] to seconds since 1970 on the clocks of the log's time zone, for learning from
    # features of jobs; default: time 0 is 1970-01-01.
    local: Callable[[Floats], Floats] = np.asarray


class BatchSystem:
    """Queue, dispatcher and nodes of one machine: a clock, a state, and a handler per concern."""

    def __init__(
        self, machine: Machine, config: BatchConfig, requests: Requests, setup: BatchSetup | None = None
    ) -> None:
        setup = setup or BatchSetup()
        self.clock = Clock(pass_per_event=config.ties is not TieOrder.DRAINED)
        self.state = state_for(
            machine, config, requests, setup.log is not None, setup.seed, setup.cap, setup.plan.announces
        )
        self.pass_times = GrowingTimes()
        self._transitions = Transitions(self.state, self.clock)
        self._pass_log = PassLog() if setup.keep_passes else None
        self._counts_dispatch_time = config.count_dispatch_time
        self._intervals = PassIntervals(config, self._transitions)
        self._wakes = Wakes(self._transitions)
        self._recorder = JobRecorder(self.state.table, requests)
        self.handlers = self._handlers_of(machine, config, setup)
        self._transitions.connect(self.handlers)
        self._releases = self.handler(Releases)
        rejecting = self.handler(RejectAll)
        self._advance = self.state.passes.advance if rejecting is None else rejecting.advance

    def _handlers_of(self, machine: Machine, config: BatchConfig, setup: BatchSetup) -> tuple[Handler, ...]:
        """Make the handlers that a scenario needs.

        Each transition of a job is announced to them in this order. It matters where one changes what the
        next one reads: jobs that never fit are rejected before their withdrawals are scheduled, and jobs
        withdrawn at their submission are dropped before dependencies are looked up; the end of a job is known
        before its corrections and releases, which must not come after it; after a pass, nodes return to their
        owners before applications are asked for more. The order of events at one time is
        :class:`mlsim.batch.clock.event_clock.Order`.
        """
        transitions, log, plan = self._transitions, setup.log, setup.dependencies
        estimates = estimates_for(config, transitions, setup.executable_names, setup.local, setup.seed)
        classes = None
        if config.classifier is not None:
            classes = JobClasses(transitions, config.classifier, setup.local, setup.seed)
        submissions_first = config.ties is TieOrder.PER_EVENT
        dependants = releases = negotiator = forecasts = None
        if plan is not None:
            dependants = Dependants(transitions, plan, setup.feedback, submissions_first)
        if log is not None:
            releases = Releases(transitions, log, setup.coordination)
            if setup.coordination.requests is not RequestRule.NEVER:
                negotiator = ReleaseNegotiator(transitions, releases, log, setup.coordination)
        if (seen := setup.coordination.forecasts) is not None:
            latency = 0.0 if log is None else log.latency
            forecasts = Forecasts(transitions, seen, latency, machine, setup.seed)
        rejects = config.dispatcher is Dispatcher.REJECT
        restarts, departures = Restarts(transitions, config), Departures(transitions, self._recorder)
        cancels = bool(setup.plan or negotiator or classes)
        ties = (config.ties is not TieOrder.DRAINED, submissions_first)
        handlers = (
            Submissions(transitions, departures, self.pass_times, ties, dependants, setup.feedback),
            RejectAll(transitions) if rejects else None,
            restarts,
            estimates,
            Misfits(transitions),
            Withdrawals(transitions, dependants, setup.feedback, ignores=rejects),
            dependants,
            classes,
            DispatchTimes(transitions) if self._counts_dispatch_time else None,
            JobEnds(transitions, restarts, classes, config, cancels),
            estimates.corrections() if isinstance(estimates, LearnedEstimates) else None,
            releases,
            negotiator,
            forecasts,
            OutageCalendar(transitions, setup.plan, restarts) if setup.plan else None,
            None if setup.cap is None else PowerLevels(transitions, setup.cap),
            self._wakes,
            None if setup.report is None else Reports(transitions, self.pass_times, departures, setup.report),
            departures,
        )
        return tuple(handler for handler in handlers if handler is not None)

    def handler(self, kind: type[_H]) -> _H | None:
        """Return the handler of a kind; None where the scenario does not need one."""
        return next((handler for handler in self.handlers if isinstance(handler, kind)), None)

    def run(self, blocks: Iterable[JobBlock], applications: Applications) -> None:
        """Simulate a workload, jobs in order of (submit_time, job_id), until its last job has ended."""
        state, clock = self.state, self.clock
        state.applications = applications
        if self._pass_log is not None or self._counts_dispatch_time:
            # The first call loads kernels from disk, which is not the dispatcher's time.
            state.passes.advance(clock.time, [], state.arrivals, 0, 0, NOTHING)
        for begin in self._transitions.begin:
            begin()
        submissions = self.handler(Submissions)
        assert submissions is not None
        submissions.submit(blocks)
        while True:
            for now in clock.times():
                if self._intervals.allow_pass(now):
                    self._pass(now)
            promised = state.next_reservation(clock.time)
            if promised == math.inf:
                break
            self._wakes.schedule(promised)  # no other event is left
        for finish in self._transitions.finish:
            finish()

    def _pass(self, now: float) -> None:
        """Make a pass: jobs end and arrive, then jobs of the queue start."""
        state, transitions = self.state, self._transitions
        if state.room.holds_back:
            transitions.free_ended()
        released = NOTHING if self._releases is None else self._releases.released_now()
        waiting = 0 if self._pass_log is None else state.n_waiting + state.last_arrival - state.first_arrival
        began = wall_clock()
        n_started = self._advance(
            now, state.ending, state.arrivals, state.first_arrival, state.last_arrival, released
        )
        seconds = wall_clock() - began
        self.pass_times.append(seconds)
        if self._pass_log is not None:
            self._pass_log.add(now, waiting, n_started, state, seconds)
        state.first_arrival = state.last_arrival
        transitions.depart_ended()
        if state.passes.rejected:
            for slot, reason in state.passes.rejected:
                transitions.conclude([slot], now, completed=False)
                transitions.reject([slot], reason)
            state.passes.rejected.clear()
        if n_started:
            transitions.start(state.started[:n_started], now, seconds)
            if state.n_rows > state.row_limit:
                state.ensure_capacity()
        for listener in transitions.after_pass:
            listener(now, n_started)

    # Results

    @property
    def dependants(self) -> Dependants | None:
        """The jobs that wait for others; None where the scenario has none."""
        return self.handler(Dependants)

    def jobs(self) -> Jobs:
        """Return the rows of all jobs, in order of arrival."""
        jobs = self._recorder.jobs()
        for add in self._transitions.add_columns:
            jobs = add(jobs)
        return jobs

    def passes(self) -> Passes:
        """Return the rows of all passes; an empty table where they are not kept."""
        return empty(Passes) if self._pass_log is None else self._pass_log.passes()

    def occupancy_rows(self) -> Occupancy:
        """Return the occupancy rows: which job held which nodes, in order of start."""
        return self.state.occupancy.record(self.state.n_rows)

    def outage_rows(self) -> Outages:
        """Return the outages of nodes, in order of start."""
        outages = self.handler(OutageCalendar)
        return empty(Outages) if outages is None else outages.record()

    def attempt_rows(self) -> Attempts:
        """Return the attempts that failures or the safeguard ended, by job."""
        restarts = self.handler(Restarts)
        return empty(Attempts) if restarts is None else restarts.record()

    def rejections(self) -> Rejections:
        """Return the rejected jobs, with the reasons."""
        return self._transitions.rejections.record()

    def tables(self) -> dict[str, Any]:
        """Return the further tables of its records, by the names that :class:`mlsim.record.Records` has."""
        return {
            "passes": self.passes(),
            "outages": self.outage_rows(),
            "attempts": self.attempt_rows(),
            "solves": self.state.passes.solves(),
            "rejections": self.rejections(),
        }


class PassIntervals:
    """Postpones passes, or only backfilling, to multiples of an interval; 0: no pass is postponed."""

    def __init__(self, config: BatchConfig, transitions: Transitions) -> None:
        self._interval = config.pass_interval or config.backfill_interval
        self._starts_between = config.backfill_interval > 0
        self._transitions = transitions
        self._next = -math.inf  # the last one while none is scheduled

    def allow_pass(self, now: float) -> bool:
        """Whether a pass is due now; if not, jobs enter the queue, and the next pass is scheduled.

        With an interval of backfilling only, passes between its times start jobs in order.
        """
        if self._interval == 0:
            return True
        is_between = self._is_between(now)
        if self._starts_between:
            self._transitions.state.allow_backfill(not is_between)
        elif is_between:
            self._transitions.free_ended()
            self._transitions.state.enter_arrivals(now)
            return False
        return True

    def _is_between(self, now: float) -> bool:
        """Whether this is none of the interval's times; schedule the next one, unless it is already."""
        if self._next < now:
            self._next = math.ceil(now / self._interval) * self._interval
            if self._next > now:
                self._transitions.clock.schedule_pass(self._next)
        return self._next > now


class Wakes(Handler):
    """Schedules passes at times without events: kept reservations, and requests of dispatchers."""

    def __init__(self, transitions: Transitions) -> None:
        super().__init__(transitions)
        self._event: Event | None = None

    def on_pass(self, now: float, _n_started: int) -> None:
        """Schedule the next such pass."""
        if self._state.wakes:
            self.schedule(self._state.next_reservation(now))

    def schedule(self, time: float) -> None:
        """Schedule a pass at this time instead of the one scheduled before."""
        if self._event is not None:
            self._event.cancel()
            self._event = None
        if time < math.inf:
            self._event = self._clock.schedule_pass(time)


class Reports(Handler):
    """Reports the progress at intervals of passes."""

    def __init__(
        self,
        transitions: Transitions,
        pass_times: GrowingTimes,
        departures: Departures,
        report: Callable[[Progress], None],
    ) -> None:
        super().__init__(transitions)
        self._pass_times, self._departures, self._report = pass_times, departures, report

    def on_pass(self, now: float, _n_started: int) -> None:
        """Report, if it is time."""
        if len(self._pass_times) % _PROGRESS_EVERY == 0:
            self._report(self._state.progress(now, self._departures.count))
