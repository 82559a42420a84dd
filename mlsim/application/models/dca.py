"""DCA, distributed chunk calculation: every PE sizes its own chunks (Eleliemy 2021, §4.3)."""

from __future__ import annotations

import numpy as np

from mlsim._jit import inlined, kernel, shared
from mlsim.application.event_queue import move, stays_first
from mlsim.application.models.execution import FAR, WRONG, execute, message, notify, report
from mlsim.application.models.levels import ask_first, next_request
from mlsim.application.models.state import Inputs, State, close_state, open_state
from mlsim.application.models.window import BAD, CALCULATES, NOBODY, claim, enter

__all__ = ["run"]

_FEW = 64
"""PEs, of whom one often claims before another comes, so that looking first is faster than queueing."""


@kernel
def run(inputs: Inputs) -> int:
    """Simulate one loop; return how many chunks have rows, −1 if a technique is wrong."""
    owned = open_state(inputs)
    s = shared(owned)
    window = s.queues[0]
    ask_first(s, window)
    while True:
        pe = enter(s, window)
        if pe == NOBODY:
            break
        arrival = s.matches[window.tree + 1].time
        following = arrival
        # An event that leads to another of the same PE at the same moment is followed by that one.
        while following == arrival or _claims_next(s, pe, following):
            arrival = following
            following = _serve(s, pe, arrival)
            if following == WRONG:
                return -1
        move(s.matches, window.tree, window.width, pe, following)
    return close_state(owned.pes, owned.written, inputs.until, inputs.stats)


@inlined
def _claims_next(s: State, pe: int, following: float) -> bool:
    """Whether a PE that has calculated a size claims a chunk before anything else happens, if PEs are few."""
    window = s.queues[0]
    if window.width > _FEW or s.seats[np.uint64(pe)].claim == 0 or s.costs.polling:
        return False
    return stays_first(s.matches, window.tree, window.width, pe, following)


@inlined
def _serve(s: State, pe: int, arrival: float) -> float:
    """Serve an atomic of a PE; return when its next one arrives, in s."""
    place = np.uint64(pe)  # so that compiled code need not ask whether it counts from the end
    window, me, seat = s.queues[0], s.pes[place], s.seats[place]
    report(s, window, me, pe)
    size = claim(s, window, s.outer, seat, pe, arrival, me.thinking)
    if size == BAD:
        return WRONG
    if size == CALCULATES:
        return window.free + me.thinking
    start = window.free + message(me, FAR)
    if size == 0 or start >= s.until:
        notify(s, me, start)
        return np.inf
    end = execute(s, me, pe, seat.step, window.first, size, start)
    return next_request(s, me, pe, end) + message(me, FAR)
