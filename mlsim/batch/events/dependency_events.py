"""Jobs that wait for other jobs."""

from array import array
from collections.abc import Iterable
from dataclasses import replace
from heapq import heappop, heappush

import numpy as np

from mlsim._runtime.arrays import Floats, Ints, Mask
from mlsim.batch.clock.event_clock import Event, Order
from mlsim.batch.columns.job_columns import NUMBER, SUBMIT, WITHDRAWAL
from mlsim.batch.events.handler import Handler, Transitions
from mlsim.record import Jobs
from mlsim.record.column_types import zeros
from mlsim.workload.workload_dependencies import Dependencies
from mlsim.workload.workload_jobs import JobBlock

NEVER_SATISFIED = "depends on a job that did not complete"  # reason of a rejection
NEVER_ENDED = "depends on a job that never ended"  # reason of a rejection at the end of a run


class Dependants(Handler):
    """Holds jobs until the jobs that they depend on have ended.

    With ``feedback`` dependencies alone determine when a job is submitted, whatever its submit time.
    """

    def __init__(
        self, transitions: Transitions, plan: Dependencies, feedback: bool, submissions_first: bool
    ) -> None:
        super().__init__(transitions)
        self._feedback = feedback
        self._order = Order.ELIGIBLE if submissions_first else Order.HELD
        self._plan = plan
        self._jobs, self._missing = np.unique(plan.job, return_counts=True)  # numbers; predecessors that run
        self._place = np.searchsorted(self._jobs, plan.job)
        self._ready = np.full(len(self._jobs), -np.inf)  # when the last think time so far is over [s]
        self._never = np.zeros(len(self._jobs), np.bool_)  # whether a predecessor did not complete
        self._places = np.empty(0, np.int64)  # of the jobs of the block, -1 for those that depend on none
        self._held: dict[int, int] = {}  # place -> slot, of jobs that wait for others, in order of submission
        self._moved, self._submits = array("q"), array("d")  # numbers and submit times of jobs that were held
        self._rejected, self._withdrawn = array("q"), array("q")  # numbers, of jobs that were held
        self._pending: dict[int, Event] = {}  # place -> the event that makes the job eligible, or rejects it
        # Ends of jobs that were rejected as soon as the log was read, noted when these are submitted.
        # A heap: those of a block come by reason, not by time.
        self._announced: list[tuple[float, int, bool]] = []
        self._reached = -1  # number of the job that was submitted last
        self._state.to_come += [self._pending, self._announced]

    def on_admission(self, _block: JobBlock, slots: Ints, accepted: Mask) -> None:
        """Note the next jobs that will be submitted; with feedback, some may become eligible before that."""
        slots = slots[accepted]
        self._places = self._places_of(slots)
        if self._feedback:
            for k in np.flatnonzero(self._places >= 0).tolist():
                self._hold(int(self._places[k]), int(slots[k]))

    def _places_of(self, slots: Ints) -> Ints:
        """Return the places of jobs among those that depend on others; -1 for jobs that do not."""
        numbers = self._state.table.ints[NUMBER, slots]
        places = np.searchsorted(self._jobs, numbers)
        known = places < len(self._jobs)
        known[known] = self._jobs[places[known]] == numbers[known]
        return np.where(known, places, -1)

    def depend(self, slots: Ints) -> Mask:
        """Return which jobs depend on others."""
        return self._places_of(slots) >= 0

    def submit(self, slots: Ints, first: int, last: int) -> Ints:
        """Return the eligible jobs among the admitted ``slots[first:last]``, which are submitted now."""
        places, here = self._places[first:last], slots[first:last]
        self._reached = self._state.number(int(slots[last - 1]))
        if (places < 0).all():
            return here
        eligible = places < 0
        if self._feedback:
            return here[eligible]
        now = self._clock.time
        for k in np.flatnonzero(~eligible).tolist():
            place = int(places[k])
            self._note_announced(self._state.number(int(here[k])))
            eligible[k] = self._missing[place] == 0 and self._ready[place] <= now and not self._never[place]
            if not eligible[k]:
                self._hold(place, int(here[k]))
        return here[eligible]

    def drop(self, slot: int) -> bool:
        """Drop a withdrawn job; return whether it was held."""
        number = self._state.number(slot)
        place = int(self._places_of(np.array([slot]))[0])
        if place < 0:
            return False
        if place in self._pending:
            self._pending.pop(place).cancel()
        elif self._held.pop(place, None) is None:
            return False
        self._withdrawn.append(number)
        return True

    def _hold(self, place: int, slot: int) -> None:
        self._held[place] = slot
        self._schedule_if_ready(place)

    def on_outcome(self, numbers: Iterable[int], times: Iterable[float], completed: bool) -> None:
        """Note jobs that end for good; a time is later than now for jobs rejected before their submission."""
        for number, at in zip(numbers, times, strict=True):
            is_to_come = not self._feedback and number > self._reached
            if at > self._clock.time or is_to_come:
                heappush(self._announced, (at, number, completed))
                self._clock.at(at, self._order, lambda _: self._note_announced(None), None)
            else:
                self._note_end(number, at, completed)

    def _note_end(self, number: int, at: float, completed: bool) -> None:
        first, last = np.searchsorted(self._plan.predecessor, (number, number + 1))
        for row in range(int(first), int(last)):
            place = int(self._place[row])
            if self._plan.completed[row] and not completed:
                if not self._never[place]:
                    self._never[place] = True
                    self._ready[place] = at
                    self._schedule_if_ready(place)
                continue
            self._missing[place] -= 1
            if not self._never[place]:
                self._ready[place] = max(self._ready[place], at + self._plan.think[row])
                self._schedule_if_ready(place)

    def _note_announced(self, number: int | None) -> None:
        """Note announced ends whose time has come: of jobs before another one, or of all."""
        while self._announced and self._announced[0][0] <= self._clock.time:
            if number is not None and self._announced[0][1] > number:
                break
            at, rejected, completed = heappop(self._announced)
            self._note_end(rejected, at, completed)

    def _schedule_if_ready(self, place: int) -> None:
        """Schedule the arrival, or the rejection, of a held job that waits for no job any more."""
        if place not in self._held or (self._missing[place] > 0 and not self._never[place]):
            return
        slot = self._held.pop(place)
        at = max(self._clock.time, float(self._ready[place]))
        handler = self._reject_unsatisfied if self._never[place] else self._become_eligible
        self._pending[place] = self._clock.at(at, self._order, handler, (place, slot))

    def _become_eligible(self, event: Event) -> None:
        place, slot = event.subject
        del self._pending[place]
        now, table = self._clock.time, self._state.table
        self._moved.append(self._state.number(slot))
        self._submits.append(float(table.floats[SUBMIT, slot]))
        if self._feedback:
            table.floats[WITHDRAWAL, slot] += now - table.floats[SUBMIT, slot]
        table.floats[SUBMIT, slot] = now
        self._transitions.queue_up(np.array([slot], np.int64))

    def _reject_unsatisfied(self, event: Event) -> None:
        place, slot = event.subject
        del self._pending[place]
        self._reject([slot], NEVER_SATISFIED)

    def _reject(self, slots: list[int], reason: str) -> None:
        self._rejected.extend(self._state.table.ints[NUMBER, slots].tolist())
        self._transitions.reject_unseen(slots, self._clock.time, reason)

    def on_finish(self) -> None:
        """Reject the jobs that are still held: those that they wait for never started."""
        slots = list(self._held.values())
        self._held.clear()
        self._reject(slots, NEVER_ENDED)

    def ready_times(self, n_jobs: int) -> tuple[Floats, Mask]:
        """Return when the last think time of each job's predecessors was over [s], and whether all ended.

        Without predecessors it is minus infinity, as if all ended.
        """
        ready, settled = np.full(n_jobs, -np.inf), np.ones(n_jobs, np.bool_)
        ready[self._jobs] = self._ready
        settled[self._jobs] = (self._missing <= 0) & ~self._never
        return ready, settled

    def add_columns(self, jobs: Jobs) -> Jobs:
        """Return the jobs with their eligible times, and the submit times of the workload."""
        eligible, submit = zeros(len(jobs.job_id)), zeros(len(jobs.job_id))
        eligible[:] = submit[:] = jobs.submit_time
        eligible[np.array(self._withdrawn, np.int64)] = np.nan
        eligible[np.array(self._rejected, np.int64)] = np.nan
        submit[np.array(self._moved, np.int64)] = self._submits
        return replace(jobs, submit_time=submit, eligible_time=eligible)
