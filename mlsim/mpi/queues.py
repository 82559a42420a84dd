"""The loop's queue of distributed models: a window at rank 0 that every rank reaches by itself."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mlsim.application.choice import Choice
from mlsim.mpi.model import Chunk, Setting
from mlsim.mpi.rules import (
    RecursiveRule,
    RuleState,
    StraightforwardRule,
    delay,
    is_static,
    learns,
    needs_lock,
)
from mlsim.mpi.window import TicketLock, make_lock

__all__ = ["LockedQueue", "LoopQueue", "StepQueue", "loop_queue"]

Floats = NDArray[np.float64]

_STEP, _POSITION = 0, 1


class StepQueue:
    """For techniques with a straightforward form: two atomics, no lock.

    Parameters
    ----------
    setting
        Options and communicators.
    choice, p, pe, weights
        The technique, how many take chunks, which one this is, and the weights of all.
    """

    def __init__(self, setting: Setting, choice: Choice, p: int, pe: int, weights: Floats) -> None:
        self._n, self._delay = setting.options.n, setting.options.injected_delay
        self._window = setting.context.window(2)
        self._fetch_add = self._window.fetch_add
        self._size = StraightforwardRule(choice, self._n, p, weights, pe).size
        # STATIC: chunk j is PE j's, whenever it claims.
        self._own = pe if is_static(choice) else -1
        self._context = setting.context

    def free(self) -> None:
        """Give the window back."""
        self._context.put_back(self._window)

    def take(self, tell: Callable[[RecursiveRule], None], had_one: bool) -> Chunk | None:  # noqa: ARG002
        """Fetch a step, size its chunk, claim it; None if nothing is left.

        Parameters
        ----------
        tell
            Not called: the technique learns nothing.
        had_one
            Whether this PE, or node, had a chunk before.
        """
        step = self._fetch_add(_STEP, 1)
        size = self._size(step)
        if self._delay:
            delay(self._delay)
        first = self._fetch_add(_POSITION, size)
        n = self._n
        if self._own >= 0:
            first, step = (n if had_one else self._own * size), self._own
        if first >= n:
            return None
        return first, (size if first + size <= n else n - first), step


class LockedQueue:
    """For techniques that need what is left, or what others measured.

    All that the technique remembers is in the window; whoever takes a chunk holds the lock from reading it to
    writing it back.
    """

    def __init__(self, setting: Setting, choice: Choice, p: int, pe: int, weights: Floats) -> None:
        comm = setting.layout.comm
        self._n, self._delay, self._pe = setting.options.n, setting.options.injected_delay, pe
        words = RuleState.words(p, learns(choice))
        self._window = setting.context.window(TicketLock.WORDS + words)
        self._lock = make_lock(setting.options.lock, self._window, 0, setting.patience)
        self._state = RuleState(np.zeros(words, np.int64), p, learns(choice))
        self._rule = RecursiveRule(choice, self._state, self._n, p)
        self._rule.begin(self._n, p, weights)
        if comm.rank == 0:
            self._window.write(TicketLock.WORDS, self._state.block)
        self._context = setting.context

    def free(self) -> None:
        """Give the window back."""
        self._context.put_back(self._window)

    def take(self, tell: Callable[[RecursiveRule], None], had_one: bool) -> Chunk | None:  # noqa: ARG002
        """Read, size and claim under the lock; None if nothing is left.

        Parameters
        ----------
        tell
            Called under the lock, to let the technique know what has been measured.
        had_one
            Not read: chunks are in order of the claims.
        """
        state, numbers = self._state, self._state.numbers
        self._lock.acquire()
        try:
            self._window.read(TicketLock.WORDS, state.block)
            first, step = int(numbers[state.position]), int(numbers[state.step])
            if first >= self._n:
                return None
            tell(self._rule)
            size = self._rule.size(step, self._n - first, self._pe)
            if self._delay:
                delay(self._delay)
            numbers[state.position], numbers[state.step] = first + size, step + 1
            self._window.write(TicketLock.WORDS, state.block)
        finally:
            self._lock.release()
        return first, size, step


LoopQueue = StepQueue | LockedQueue


def loop_queue(setting: Setting, choice: Choice, p: int, pe: int, weights: Floats) -> LoopQueue:
    """Make the queue that a technique needs; all ranks must call this."""
    kind = LockedQueue if needs_lock(choice) else StepQueue
    return kind(setting, choice, p, pe, weights)
