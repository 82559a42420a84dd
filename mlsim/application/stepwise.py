"""A loop simulated in pieces: its event loop stops where a technique is to be chosen for the rest.

What is simulated is what one call simulates: the state is kept as it is, a choice takes its time, and the
technique begins anew with what is left, if it is another one.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Floats
from mlsim.application.choice import Choice
from mlsim.application.models.choosing import begin, end, switch
from mlsim.application.models.master import BAD_SIZE, CHOOSE
from mlsim.application.models.state import Inputs, State, open_state
from mlsim.application.selection.facts import ExecutedChunks, Progress
from mlsim.application.selection.plan import ChooseWithin
from mlsim.application.settings import RuleSettings

__all__ = ["follow"]


def follow(
    inputs: Inputs,
    model: ModuleType,
    by_master: bool,
    choice: Choice,
    asks: Floats,
    choose_within: ChooseWithin | None,
) -> tuple[int, Choice, RuleSettings]:
    """Simulate a loop.

    Parameters
    ----------
    inputs
        Of the model's event loop.
    model
        Its module, with a kernel ``resume``.
    by_master
        Whether a master chooses; otherwise the PE whose request makes a choice due.
    choice
        The first technique, as in ``inputs``.
    asks
        When each PE asks first, in s; empty: at 0.
    choose_within
        Chooses; None: nobody does.

    Returns
    -------
    int
        How many chunks there are, -1 if a technique is wrong.
    Choice, RuleSettings
        The last technique.
    """
    state: State = open_state(inputs)
    begin(state, asks)
    settings = inputs.outer
    while True:
        doing = model.resume(state)
        if doing != CHOOSE:
            break
        assert choose_within is not None, "nothing else lets an event loop stop"
        stop = _Stop(state, by_master)
        another, spent = choose_within(stop.progress())
        stop.spend(spent)
        if another.name != choice.name:
            choice = another
            settings = choice.settings(choice.weights[stop.masters :])
            state = switch(state, settings)
    if doing == BAD_SIZE:
        return -1, choice, settings
    return end(state, inputs.stats), choice, settings


class _Stop:
    """A loop at a stop, as whoever chooses sees it.

    Parameters
    ----------
    state
        Of the event loop.
    by_master
        As above.
    """

    def __init__(self, state: State, by_master: bool) -> None:
        self._state, self._by_master = state, by_master
        self._pes: NDArray[Any] = np.asarray(state.pes)
        self._queue: NDArray[Any] = np.asarray(state.queues)[:1]
        self.masters = int(self._queue["masters"][0])
        self._comer, self._now = 0, float(self._queue["clock"][0])
        if not by_master:
            match = np.asarray(state.matches)[int(self._queue["tree"][0]) + 1]
            self._comer = int(match["rank"])
            served = max(float(match["time"]), float(self._queue["free"][0])) + state.costs.atomic
            self._now = served + float(self._pes["latency"][self._comer])

    def spend(self, spent: float) -> None:
        """Let the time of a choice pass: the master's, or the PE's that holds the window until it is written.

        The next choice is due when as many iterations more are executed.
        """
        queue, costs = self._queue, self._state.costs
        queue["choose_at"] = queue["executed"] + costs.choose_after
        if not self._by_master:
            queue["free"] = self._now + spent + float(self._pes["latency"][self._comer]) + costs.atomic
            return
        if self.masters > 0 or queue["own_begun"][0] != 0:
            until = max(self._state.until, self._now)
            self._pes["overhead"][0] += min(self._now + spent, until) - self._now
        queue["clock"] = self._now + spent

    def progress(self) -> Progress:
        """Return what whoever chooses knows.

        A chunk is known to have ended once the request that follows it is there. The master knows of its own,
        and the PE that chooses under a distributed model of those that have come to the window.
        """
        rows, now = self._state.rows, self._now
        n_rows = int(self._state.written[1])
        pe = rows.pe[:n_rows].astype(np.int64)
        (_, first, size), (_, start, ends) = rows.numbers[:, :n_rows], rows.times[:, :n_rows]
        known = ends + self._pes["latency"][pe] <= now
        executed = ExecutedChunks(pe[known], first[known], size[known], (ends - start)[known])
        return Progress(now, int(self._queue["position"][0]), executed, self._running())

    def _running(self) -> ExecutedChunks:
        pes = self._pes
        running = (pes["chunks"] > 0) & (pes["finish"] + pes["latency"] > self._now)
        if self._queue["own_begun"][0] != 0:
            running[0] = True
        who = np.flatnonzero(running)
        since = np.maximum(self._now - pes["last_start"][who], 0.0)
        return ExecutedChunks(who, pes["last_first"][who].copy(), pes["last_size"][who].copy(), since)
