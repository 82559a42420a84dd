"""Waiting that yields the core to ranks that compute, and serves requests meanwhile.

Waiting ranks poll, and call :meth:`Patience.pause` between polls. In a pause every master of this
process serves: with two loops at once, a rank that waits for one may be the master of the
other. Where a node has more ranks than cores, pauses soon become short sleeps.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Literal

from mlsim.mpi.transport.alarm import Alarm, Waiting

__all__ = ["SPINS", "Patience", "WaitStyle", "serve_while_waiting", "stop_serving"]

WaitStyle = Literal["auto", "spin", "sleep"]

_LOOK_EVERY = 512
"""Polls between two looks at what takes so long: about 0.1 s, where ranks sleep."""
SPINS = 50
"""Polls before the first pause in which a rank yields its core."""
_YIELDS = 200
_FIRST_SLEEP = 10e-6
_LONGEST_SLEEP = 200e-6
_REST_AFTER, _REST_SHARE, _LONGEST_REST, _HOLDERS_REST = 2e-3, 0.05, 20e-3, 8e-3

_services: list[Callable[[], object]] = []


def serve_while_waiting(service: Callable[[], object]) -> None:
    """Register a function to be called at every pause of this process; it must not wait itself."""
    _services.append(service)


def stop_serving(service: Callable[[], object]) -> None:
    """Remove a function registered with :func:`serve_while_waiting`."""
    if service in _services:
        _services.remove(service)


class Patience:
    """How one rank waits.

    Parameters
    ----------
    style
        ``spin``: poll all the time. ``sleep``: poll some times, then yield the core, then sleep for up to
        0.2 ms between two polls. ``auto``: sleep if the node has more ranks than cores, else spin.
    ranks_on_node
        Ranks that share the node's cores.
    alarm
        Says why a wait takes long; None: nothing is said.
    """

    def __init__(self, style: WaitStyle, ranks_on_node: int, alarm: Alarm | None = None) -> None:
        self.sleeps = style == "sleep" or (style == "auto" and ranks_on_node > cores_here())
        self._alarm = alarm

    def until(self, ready: Callable[[], object], meeting: str = "") -> None:
        """Poll until a function returns something true.

        Parameters
        ----------
        ready
            The function.
        meeting
            What all ranks have to do now, if they meet here: said where one does not come.
        """
        tries = 0
        waiting: Waiting | None = None
        while not ready():
            self.pause(tries)
            tries += 1
            if self._alarm is not None and tries % _LOOK_EVERY == 0:
                waiting = waiting or Waiting(self._alarm, meeting)
                waiting.look()

    def rest_until(self, ready: Callable[[], object], holds: bool = False) -> None:
        """Poll until a function returns something true, as a rank that has no more work.

        After 2 ms, pauses grow with the time waited, to 20 ms: such a rank leaves its core to others. A rank
        that has to answer requests of others meanwhile waits as :meth:`until` does. ``holds``: others may
        still reach what this rank holds, and MPI may need its help for that; then pauses grow to 8 ms.
        """
        tries, begin, longest = 0, time.monotonic(), _HOLDERS_REST if holds else _LONGEST_REST
        waiting = None if self._alarm is None else Waiting(self._alarm, "")
        while not ready():
            waited = time.monotonic() - begin
            if waiting is not None:
                waiting.look()
            if _services or waited < _REST_AFTER:
                self.pause(tries)
                tries += 1
            else:
                time.sleep(min(waited * _REST_SHARE, longest))

    def pause(self, tries: int) -> None:
        """Serve requests, then yield the core or sleep; ``tries`` is the number of polls so far."""
        for service in _services:
            service()
        if tries < SPINS:
            return
        if not self.sleeps or tries < _YIELDS:
            os.sched_yield()
        else:
            time.sleep(min(_FIRST_SLEEP * (tries - _YIELDS + 1), _LONGEST_SLEEP))


def cores_here() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
