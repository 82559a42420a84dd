"""DCA, distributed chunk calculation: every PE sizes its own chunks (Eleliemy 2021, §4.3)."""

from __future__ import annotations

import numpy as np

from mlsim._jit import inlined, inner_kernel, kernel, shared
from mlsim.application.event_queue import move, stays_first
from mlsim.application.models.execution import FAR, WRONG, execute, message, notify, report
from mlsim.application.models.levels import ask_first, next_request
from mlsim.application.models.master import BAD_SIZE, CHOOSE, DONE
from mlsim.application.models.state import Inputs, State, close_state, open_state
from mlsim.application.models.window import BAD, CALCULATES, NOBODY, claim, enter

__all__ = ["resume", "run"]

_FEW = 64
"""PEs, of whom one often claims before another comes, so that looking first is faster than queueing."""
_CHOOSES = -2.0
"""In place of a time: before the PE is served, a technique is to be chosen."""


@kernel
def run(inputs: Inputs) -> int:
    """Simulate one loop; return how many chunks have rows, −1 if a technique is wrong."""
    owned = open_state(inputs)
    s = shared(owned)
    ask_first(s, s.queues[0])
    if _follow(s) == BAD_SIZE:
        return -1
    return close_state(owned.pes, owned.written, inputs.until, inputs.stats)


@kernel
def resume(owned: State) -> int:
    """Simulate until a technique is to be chosen, ``CHOOSE``, or to the end, ``DONE`` or ``BAD_SIZE``."""
    s = shared(owned)
    return _follow(s)


@inner_kernel
def _follow(s: State) -> int:
    """Follow who comes to the window until nobody does, or a technique is wrong or to be chosen."""
    window = s.queues[0]
    while True:
        pe = enter(s, window)
        if pe == NOBODY:
            return DONE
        arrival = s.matches[window.tree + 1].time
        following = arrival
        # An event that leads to another of the same PE at the same moment is followed by that one.
        while following == arrival or _claims_next(s, pe, following):
            arrival = following
            following = _serve(s, pe, arrival)
            if following == WRONG:
                return BAD_SIZE
            if following == _CHOOSES:
                move(s.matches, window.tree, window.width, pe, arrival)
                return CHOOSE
        move(s.matches, window.tree, window.width, pe, following)


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
    if report(s, window, me, pe):
        return _CHOOSES
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
