"""The clock of the batch level: SimPy's, with a fixed order inside one timestamp."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from heapq import heappop, heappush
from typing import Any

import simpy


class Order(IntEnum):
    """What goes first when two events have the same time."""

    FIRST = -2  # submissions, where there is a pass after every event
    ELIGIBLE = -1  # jobs that depended on others, there
    END = 0
    RELEASE = 1  # of a node by a job that goes on: a job that ends now has no node to release
    FAILURE = 2
    MESSAGE = 3
    CORRECTION = 4
    SUBMISSION = 5
    HELD = 6  # jobs that depended on others, elsewhere
    WITHDRAWAL = 7


class Event(simpy.Event):
    """Something that happens at a fixed time.

    Parameters
    ----------
    env
        The clock.
    callbacks
        Called with this event when its time has come.
    subject
        Which job or row it is about; its meaning is the callbacks'.
    """

    def __init__(self, env: Clock, callbacks: list[Callable[[Any], None]], subject: Any = None) -> None:
        # A SimPy event that has already been triggered; set up by hand, because there is one a job.
        self.env = env
        self.callbacks = callbacks
        self._ok = True
        self._value = None
        self.subject = subject

    def cancel(self) -> None:
        """Drop the callbacks, so that the event has no effect."""
        self.callbacks = []


class Clock(simpy.Environment):
    """A SimPy environment whose events are set at absolute times, and that knows when a time is over.

    SimPy schedules by delay; adding a delay to the current time rounds, and two events meant for one
    moment would then fall apart by a last digit.

    Parameters
    ----------
    close
        Called when a time for which :meth:`ask_to_close` was called is over: when every event at
        that time has been handled.
    """

    def __init__(self, close: Callable[[], None]) -> None:
        super().__init__(0.0)
        self._close = close
        self._asked = False

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

    def ask_to_close(self) -> None:
        """Have ``close`` called once, when the current time is over."""
        self._asked = True

    def run(self) -> None:  # type: ignore[override]  # nothing here stops at a time
        """Handle all events, closing a time when its last has been handled if somebody asked for that.

        Does what SimPy's ``run`` and ``step`` do, in one loop: with two calls for each event that is as much
        work as all that events do.
        """
        queue = self._queue
        while queue:
            now, _, _, event = heappop(queue)
            # None marks an event as handled, to SimPy; its stubs say that there always is a list.
            callbacks, event.callbacks = event.callbacks, None  # type: ignore[assignment]
            if callbacks:  # a cancelled event moves no time
                self._now = now
            for callback in callbacks:
                callback(event)
            if not event._ok and not hasattr(event, "_defused"):
                raise event._value  # a process has failed
            if self._asked and (not queue or queue[0][0] > self._now):
                self._asked = False
                self._close()

    @property
    def time(self) -> float:
        """The current simulated time in seconds."""
        return float(self._now)
