"""Jobs that wait for other jobs, and corrections of outlived predictions."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, replace
from heapq import heappop, heappush

import numpy as np

from mlsim._arrays import Ints
from mlsim.batch.clock.event_clock import Event, Order
from mlsim.batch.columns.job_table import EXPECTED, NUMBER, START, SUBMIT, WITHDRAWAL
from mlsim.batch.events.event_context import System
from mlsim.batch.predictors.estimates import LearnedEstimates, cut
from mlsim.batch.predictors.predictor import CorrectingPredictor
from mlsim.record import Jobs
from mlsim.record.growing_arrays import zeros
from mlsim.workload.workload_dependencies import Dependencies

NEVER_SATISFIED = "depends on a job that did not complete"
"""Why a job is turned away."""
NEVER_ENDED = "depends on a job that never ended"
"""Why a job is turned away at the end of a run."""


class Dependants:
    """Holds jobs back until the jobs that they depend on have ended.

    Parameters
    ----------
    system
        The batch system.
    plan
        Which job waits for which.
    feedback
        Whether a job that depends on others is submitted when these allow it, whatever its submit time.
    """

    def __init__(self, system: System, plan: Dependencies, feedback: bool) -> None:
        self._system = system
        self._feedback = feedback
        self._plan = plan
        self._jobs, self._missing = np.unique(plan.job, return_counts=True)  # numbers; predecessors that run
        self._place = np.searchsorted(self._jobs, plan.job)
        self._ready = np.full(len(self._jobs), -np.inf)  # when the last think time so far is over [s]
        self._never = np.zeros(len(self._jobs), np.bool_)  # whether a predecessor did not complete
        self._places = np.empty(0, np.int64)  # where the jobs of the block are among those, -1: they are not
        self._held: dict[int, int] = {}  # place -> slot, of jobs that wait for others, in order of submission
        self._moved, self._submits = array("q"), array("d")  # numbers and submit times of jobs that were held
        self._rejected, self._withdrawn = array("q"), array("q")  # numbers, of jobs that were held
        self._pending: dict[int, Event] = {}  # place -> what will become of a job at a known time
        # Ends of jobs that were rejected as soon as the log was read: others learn of them when they come.
        # A heap: those of a block come by reason, not by time.
        self._unheard: list[tuple[float, int, bool]] = []
        self._reached = -1  # number of the job that was submitted last

    @property
    def is_pending(self) -> bool:
        """Whether a job will become eligible at a known time."""
        return bool(self._pending or self._unheard)

    def admit(self, slots: Ints) -> None:
        """Take note of the next jobs that will be submitted; with feedback, some may come before that."""
        numbers = self._system.state.table.ints[NUMBER, slots]
        places = np.searchsorted(self._jobs, numbers)
        known = places < len(self._jobs)
        known[known] = self._jobs[places[known]] == numbers[known]
        self._places = np.where(known, places, -1)
        if self._feedback:
            for k in np.flatnonzero(known).tolist():
                self._hold(int(places[k]), int(slots[k]))

    def submit(self, slots: Ints, first: int, last: int) -> Ints:
        """Return the eligible jobs among the admitted ``slots[first:last]``, which are submitted now."""
        places, here = self._places[first:last], slots[first:last]
        self._reached = self._system.state.number(int(slots[last - 1]))
        if (places < 0).all():
            return here
        eligible = places < 0
        if self._feedback:
            return here[eligible]
        now = self._system.clock.time
        for k in np.flatnonzero(~eligible).tolist():
            place = int(places[k])
            self._hear_before(self._system.state.number(int(here[k])))
            eligible[k] = self._missing[place] == 0 and self._ready[place] <= now and not self._never[place]
            if not eligible[k]:
                self._hold(place, int(here[k]))
        return here[eligible]

    def forget(self, slot: int) -> bool:
        """Take note that a job is withdrawn; return whether it was held back."""
        number = self._system.state.number(slot)
        place = int(np.searchsorted(self._jobs, number))
        if place == len(self._jobs) or self._jobs[place] != number:
            return False
        if place in self._pending:
            self._pending.pop(place).cancel()
        elif self._held.pop(place, None) is None:
            return False
        self._withdrawn.append(number)
        return True

    def independent(self, slots: Ints) -> Ints:
        """Return those of the jobs that were admitted last that depend on no other."""
        return slots[self._places < 0]

    def _hold(self, place: int, slot: int) -> None:
        self._held[place] = slot
        self._let_go_if_ready(place)

    def ended(self, number: int, at: float, completed: bool) -> None:
        """Take note that a job ends for good.

        Parameters
        ----------
        number
            The job.
        at
            When; later than now for one that is rejected before its submission.
        completed
            Whether it has done its work.
        """
        is_to_come = not self._feedback and number > self._reached
        if at > self._system.clock.time or is_to_come:
            heappush(self._unheard, (at, number, completed))
            self._system.clock.at(at, self._order, lambda _: self._hear_before(None), None)
            return
        self._note_end(number, at, completed)

    def _note_end(self, number: int, at: float, completed: bool) -> None:
        first, last = np.searchsorted(self._plan.predecessor, (number, number + 1))
        for row in range(int(first), int(last)):
            place = int(self._place[row])
            if self._plan.completed[row] and not completed:
                if not self._never[place]:
                    self._never[place] = True
                    self._ready[place] = at
                    self._let_go_if_ready(place)
                continue
            self._missing[place] -= 1
            if not self._never[place]:
                self._ready[place] = max(self._ready[place], at + self._plan.think[row])
                self._let_go_if_ready(place)

    def _hear_before(self, number: int | None) -> None:
        """Take note that jobs are submitted now, before another one or all, that were rejected at once."""
        while self._unheard and self._unheard[0][0] <= self._system.clock.time:
            if number is not None and self._unheard[0][1] > number:
                break
            at, rejected, completed = heappop(self._unheard)
            self._note_end(rejected, at, completed)

    @property
    def _order(self) -> Order:
        """When, of the events of a time, jobs become eligible."""
        return Order.ELIGIBLE if self._system.submissions_first else Order.HELD

    def _let_go_if_ready(self, place: int) -> None:
        """Plan what becomes of a held job for which nothing is missing any more."""
        if place not in self._held or (self._missing[place] > 0 and not self._never[place]):
            return
        slot, clock = self._held.pop(place), self._system.clock
        at = max(clock.time, float(self._ready[place]))
        handler = self._turn_away if self._never[place] else self._become_eligible
        self._pending[place] = clock.at(at, self._order, handler, (place, slot))

    def _become_eligible(self, event: Event) -> None:
        place, slot = event.subject
        del self._pending[place]
        now = self._system.clock.time
        table = self._system.state.table
        self._moved.append(self._system.state.number(slot))
        self._submits.append(float(table.floats[SUBMIT, slot]))
        if self._feedback:
            table.floats[WITHDRAWAL, slot] += now - table.floats[SUBMIT, slot]
            self._system.await_withdrawals(np.array([slot], np.int64))
        table.floats[SUBMIT, slot] = now
        self._system.queue_up(np.array([slot], np.int64))

    def _turn_away(self, event: Event) -> None:
        place, slot = event.subject
        del self._pending[place]
        self._reject([slot], NEVER_SATISFIED)

    def _reject(self, slots: list[int], reason: str) -> None:
        self._rejected.extend(self._system.state.table.ints[NUMBER, slots].tolist())
        self._system.reject_unseen(slots, self._system.clock.time, reason)

    def reject_rest(self) -> None:
        """Turn away, at the end of a run, the jobs that are still held: what they wait for never started."""
        slots = list(self._held.values())
        self._held.clear()
        self._reject(slots, NEVER_ENDED)

    def added_to(self, jobs: Jobs) -> Jobs:
        """Return the jobs with their eligible times, and the submit times of the workload."""
        eligible, submit = zeros(len(jobs.job_id)), zeros(len(jobs.job_id))
        eligible[:] = submit[:] = jobs.submit_time
        eligible[np.array(self._withdrawn, np.int64)] = np.nan
        eligible[np.array(self._rejected, np.int64)] = np.nan
        submit[np.array(self._moved, np.int64)] = self._submits
        return replace(jobs, submit_time=submit, eligible_time=eligible)


@dataclass(slots=True)
class _Watched:
    """A running job: its planned end, how often it was corrected, what will happen when its time is up."""

    end: float
    corrections: int = 0
    event: Event | None = None


class Corrections:
    """Raises the expected ends of jobs that outlive their predictions.

    A correction is followed by a pass, because it moves reservations.

    Parameters
    ----------
    system
        The batch system.
    estimates, predictor
        Who knows the jobs, and who corrects.
    """

    def __init__(self, system: System, estimates: LearnedEstimates, predictor: CorrectingPredictor) -> None:
        self._system = system
        self._estimates = estimates
        self._predictor = predictor
        self._watched: dict[int, _Watched] = {}

    def plan(self, slot: int, end: float) -> None:
        """Watch a job that will run until ``end``, as far as is known now."""
        watched = self._watched.get(slot)
        if watched is None:
            watched = self._watched[slot] = _Watched(end)
        watched.end = end
        self._wait(slot, watched)

    def forget(self, slot: int) -> None:
        """Take note that a job has ended."""
        watched = self._watched.pop(slot)
        if watched.event is not None:
            watched.event.cancel()

    def _wait(self, slot: int, watched: _Watched) -> None:
        clock, expected = self._system.clock, float(self._system.state.table.floats[EXPECTED, slot])
        if watched.event is None and expected < watched.end:
            at = max(expected, clock.time)
            watched.event = clock.at(at, Order.CORRECTION, self._correct, slot)

    def _correct(self, event: Event) -> None:
        slot: int = event.subject
        watched, job = self._watched[slot], self._estimates.job(slot)
        floats = self._system.state.table.floats
        expired = float(floats[EXPECTED, slot] - floats[START, slot])
        seconds = cut(self._predictor.correct(job, expired, watched.corrections), job.walltime)
        expected = float(floats[START, slot]) + seconds
        if expected <= self._system.clock.time:
            return  # keeps its event, so that it is not asked about again
        watched.event = None
        watched.corrections += 1
        self._system.state.expect(slot, expected)
        self._system.clock.ask_to_close()
        self._wait(slot, watched)
