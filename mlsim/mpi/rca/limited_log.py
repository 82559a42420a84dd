"""A log that cannot be flooded: of each kind of event some lines in a while, the others are counted."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["LimitedLog"]


@dataclass
class _Window:
    """Events of one kind since a time: lines logged, and events without a line."""

    began: float
    lines: int = 0
    left_out: int = 0


class LimitedLog:
    """Writes to a logger, of each kind no more than some lines in a stretch of time.

    Parameters
    ----------
    logger
        Where lines go.
    most
        Lines of one kind in a stretch.
    seconds
        Length of a stretch.
    clock
        Returns the time in s; for tests.

    Examples
    --------
    >>> log = LimitedLog(logging.getLogger("example"), most=2, seconds=10.0)
    >>> for row in range(5):
    ...     log.add(logging.INFO, "refused", f"line {row}")
    >>> log.left_out("refused")
    3
    """

    def __init__(
        self,
        logger: logging.Logger,
        most: int = 20,
        seconds: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._logger, self._most, self._seconds, self._clock = logger, most, seconds, clock
        self._windows: dict[str, _Window] = {}

    def add(self, level: int, kind: str, text: str) -> None:
        """Write or count one event of a kind; kinds are few and our own words."""
        now = self._clock()
        window = self._windows.setdefault(kind, _Window(now))
        if now - window.began >= self._seconds:
            self._log_left_out(kind)
            window.began, window.lines = now, 0
        if window.lines < self._most:
            window.lines += 1
            self._logger.log(level, "%s: %s", kind, text)
        else:
            window.left_out += 1

    def now(self, level: int, text: str) -> None:
        """Write a line whatever the limit is."""
        self._logger.log(level, "%s", text)

    def left_out(self, kind: str) -> int:
        """Return how many events of a kind have been counted and not yet logged."""
        return self._windows[kind].left_out if kind in self._windows else 0

    def close(self) -> None:
        """Log the counts of events that have not been logged."""
        for kind in self._windows:
            self._log_left_out(kind)

    def _log_left_out(self, kind: str) -> None:
        window = self._windows[kind]
        if window.left_out:
            self._logger.warning("%s: %d more, not listed", kind, window.left_out)
            window.left_out = 0
