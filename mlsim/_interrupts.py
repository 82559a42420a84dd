"""Signals that wait while a C library calls back: such libraries print or drop what is raised in between."""

from __future__ import annotations

import signal
from types import TracebackType

__all__ = ["Postponed", "postponed"]


class Postponed:
    """A block in which a signal that asks the command to stop raises nothing; it is sent again at the end.

    Blocks are to be short: a command that does not stop soon is ended from outside of them.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._waiting: int | None = None

    def __enter__(self) -> None:
        self._depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if self._waiting is not None and not self._depth:
            number, self._waiting = self._waiting, None
            signal.raise_signal(number)

    def takes(self, number: int) -> bool:
        """Return whether a signal waits for the end of the block; asked by its handler."""
        if self._depth:
            self._waiting = number
        return self._depth > 0


postponed = Postponed()
"""Of the main thread, where signals are handled."""
