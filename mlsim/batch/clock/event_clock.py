"""The clock of the batch level: SimPy's, with a fixed order inside one timestamp."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import IntEnum
from heapq import heappop, heappush
from typing import Any

import simpy


class Order(IntEnum):
    """The order of events at one time.

    Ends come first, so that their units are free for all else; nodes fail before messages arrive that would
    count on them; submissions come late, so that predictors have learned from all ends of the time. With ties
    per event, a pass follows each event, and submissions come before the ends of their time.
    """

    FIRST = -2  # submissions, where there is a pass after every event
    ELIGIBLE = -1  # jobs that depended on others, there
    END = 0
    RELEASE = 1  # of a node by a job that continues: a job that ends now has no node to release
    FAILURE = 2
    MESSAGE = 3
    CORRECTION = 4
    SUBMISSION = 5
    HELD = 6  # jobs that depended on others, elsewhere
    WITHDRAWAL = 7


class Event(simpy.Event):
    """An event at a fixed time; ``subject`` is the job or row, as its callback defines it."""

    def __init__(self, env: Clock, callbacks: list[Callable[[Any], None]], subject: Any = None) -> None:
        # A SimPy event that has already been triggered; set up by hand, because there is one per job.
        self.env = env
        self.callbacks = callbacks
        self._ok = True
        self._value = None
        self.subject = subject

    def cancel(self) -> None:
        """Drop the callbacks, so that the event has no effect."""
        self.callbacks = []


class Clock(simpy.Environment):
    """A SimPy environment whose events are set at absolute times, and that knows when a pass is due.

    SimPy schedules by delay; adding a delay to the current time rounds, and two events meant for one moment
    would then fall apart by a last digit. With ``pass_per_event`` a pass follows each submission and end,
    rather than the last event of a timestamp.
    """

    def __init__(self, pass_per_event: bool = False) -> None:
        super().__init__(0.0)
        self._pass_per_event = pass_per_event
        self._pass_at_once = self._pass_requested = False

    def at(self, time: float, order: int, callback: Callable[[Any], None], subject: Any) -> Event:
        """Call ``callback(event)`` at ``time``."""
        event = Event(self, [callback], subject)
        # SimPy's stubs know no priorities but its own two.
        heappush(self._queue, (time, order, next(self._eid), event))  # type: ignore[misc]
        return event

    def until(self, time: float, order: int) -> simpy.Event:
        """Return an event that a process yields to wait until ``time``."""
        event = Event(self, [])
        # SimPy's stubs know no priorities but its own two.
        heappush(self._queue, (time, order, next(self._eid), event))  # type: ignore[misc]
        return event

    def schedule_pass(self, time: float) -> Event:
        """Request a pass at a time at which perhaps nothing else happens."""
        return self.at(time, Order.SUBMISSION, lambda _: self.request_pass(), None)

    def request_pass(self) -> None:
        """Request a pass when the current time is over."""
        self._pass_requested = True

    def event_over(self) -> None:
        """Request the pass that belongs to this event: at once with ties per event, else as above."""
        if self._pass_per_event:
            self._pass_at_once = True
        else:
            self._pass_requested = True

    def times(self) -> Iterator[float]:
        """Handle all events in order; yield the current time whenever a pass is due.

        Does what SimPy's ``run`` and ``step`` do, in one loop: with two calls for each event that is as much
        work as all that events do.
        """
        queue = self._queue
        while queue:
            now, _, _, event = heappop(queue)
            # None marks an event as handled, to SimPy; its stubs declare that there always is a list.
            callbacks, event.callbacks = event.callbacks, None  # type: ignore[assignment]
            if callbacks:  # a cancelled event moves no time
                self._now = now
            for callback in callbacks:
                callback(event)
            if not event._ok and not hasattr(event, "_defused"):
                raise event._value  # a process has failed
            if self._pass_at_once:
                self._pass_at_once = False
                yield self._now
            if self._pass_requested and (not queue or queue[0][0] > self._now):
                self._pass_requested = False
                yield self._now

    @property
    def time(self) -> float:
        """The current simulated time in seconds."""
        return float(self._now)
