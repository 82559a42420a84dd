"""Loops that stop for a choice: their first requests, at any time, and another technique for the rest."""

from __future__ import annotations

import numpy as np

from mlsim._arrays import Floats
from mlsim._jit import kernel, shared
from mlsim.application.event_queue import move, play
from mlsim.application.models.levels import ask_first
from mlsim.application.models.state import PEStats, State, close_state
from mlsim.application.settings import RuleSettings
from mlsim.application.techniques.at_work import open_technique
from mlsim.application.techniques.rules import constant_size

__all__ = ["begin", "end", "switch"]


@kernel
def begin(owned: State, asks: Floats) -> None:
    """Schedule the first requests to the loop's queue: of each PE at a time of ``asks`` (s), if there are."""
    s = shared(owned)
    q = s.queues[0]
    if len(asks) == 0:
        ask_first(s, q)
        return
    for pe in range(q.members):
        me = s.pes[pe]
        me.asked, me.since = asks[pe], asks[pe]
        s.matches[q.tree + q.width + pe].time = asks[pe] + me.near
    play(s.matches, q.tree, q.width, q.members)
    if q.masters > 0:
        move(s.matches, q.tree, q.width, 0, np.inf)


@kernel
def end(owned: State, stats: PEStats) -> int:
    """Fill the results of a loop that has come to its end; return how many chunks have rows."""
    return close_state(owned.pes, owned.written, owned.until, stats)


@kernel
def switch(s: State, settings: RuleSettings) -> State:
    """Return the state with another technique for what is left, as for a loop of its own.

    Who has a size of the technique before, but has not claimed it yet, will find that and begin anew.
    """
    q = s.queues[0]
    outer = open_technique(settings, q.end - q.position, 1, q.members - q.masters, False)
    q.begun, q.earlier, q.step = q.position, q.earlier + q.step, 0
    q.constant = constant_size(outer.rules[0])
    for rank in range(q.members):
        seat = s.seats[q.seats + rank]
        seat.claim, seat.taken = 0, 0
    return State(
        s.prefix,
        s.pes,
        s.queues,
        s.seats,
        s.matches,
        outer,
        outer,
        s.costs,
        s.perturbation,
        s.pe_unavailability,
        s.until,
        s.rows,
        s.written,
        s.before,
        True,
    )
