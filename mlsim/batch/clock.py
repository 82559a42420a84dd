"""The clock of the batch level: SimPy's, with a fixed order inside one timestamp.

Events are totally ordered by (time, order, sequence): what ends comes before what is submitted, and
the pass comes last, once, however many events led to it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from heapq import heappush
from typing import Any

import simpy

__all__ = ["Clock", "Event", "Order"]


class Order(IntEnum):
    """What goes first when two events have the same time."""

    END = 0
    SUBMISSION = 1
    PASS = 2


class Event(simpy.Event):
    """Something that happens at a fixed time.

    Parameters
    ----------
    env
        The clock.
    callback
        Called with this event when its time has come.
    subject
        Which job or row it is about; its meaning is the callback's.
    """

    def __init__(self, env: Clock, callback: Callable[[Any], None], subject: Any = None) -> None:
        # A SimPy event that has already been triggered; set up by hand, because there is one a job.
        self.env = env
        self.callbacks = [callback]
        self._ok = True
        self._value = None
        self.subject = subject


class Clock(simpy.Environment):
    """A SimPy environment whose events are set at absolute times.

    SimPy schedules by delay; adding a delay to the current time rounds, and two events meant for one
    moment would then fall apart by a last digit.
    """

    def at(self, time: float, order: int, callback: Callable[[Any], None], subject: Any = None) -> None:
        """Call ``callback(event)`` at ``time``."""
        heappush(self._queue, (time, order, next(self._eid), Event(self, callback, subject)))  # type: ignore[misc]

    def until(self, time: float, order: int) -> simpy.Event:
        """Give an event for a process to wait on until ``time``."""
        event = simpy.Event(self)
        event._ok, event._value = True, None
        heappush(self._queue, (time, order, next(self._eid), event))  # type: ignore[misc]
        return event

    @property
    def time(self) -> float:
        """The current simulated time in seconds."""
        return float(self._now)
