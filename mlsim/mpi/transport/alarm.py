"""Says why a rank waits for long: another one has not come, or has been stopped."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from pathlib import Path

__all__ = ["Alarm", "Waiting"]

_EVERY = 1.0
_STOPPED = ("T", "t")


class Alarm:
    """Warns, once for each wait, when it has taken long.

    Only a rank of the same machine can be seen to be stopped. A rank that executes a long chunk keeps others
    waiting as well, and that is no reason to warn.

    Parameters
    ----------
    rank, ranks
        This rank, and how many there are.
    processes
        Rank and process of those on this machine, as far as they are known.
    seconds
        How long a wait may take.
    """

    def __init__(
        self, rank: int, ranks: int, seconds: float, processes: Sequence[tuple[int, int]] = ()
    ) -> None:
        self._rank, self._ranks, self._processes = rank, ranks, processes
        self.seconds = seconds

    def reason(self, meeting: str) -> str:
        """Return why this rank waits, as far as that is known; empty if it is not."""
        for rank, process in self._processes:
            if _is_stopped(process):
                return f"rank {rank} of {self._ranks}, process {process}, has been stopped, and others wait"
        # Were all to say it, nobody would find the rank that is missing among the lines.
        if meeting and self._rank in (0, 1):
            return f"rank {self._rank} of {self._ranks} waits for others: {meeting}"
        return ""


class Waiting:
    """One wait; :meth:`look` is called now and then.

    Parameters
    ----------
    alarm
        Knows the reasons.
    meeting
        What all ranks have to do, where they meet; empty where others may rightly be late.
    """

    def __init__(self, alarm: Alarm, meeting: str) -> None:
        self._alarm, self._meeting = alarm, meeting
        self._begin = time.monotonic()
        self._next = self._begin + alarm.seconds

    def look(self) -> None:
        """Warn if it is time, and there is a reason; then never again."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _EVERY
        reason = self._alarm.reason(self._meeting)
        if reason:
            self._next = float("inf")
            text = f"mlsim: after {now - self._begin:.0f} s: {reason}"
            warnings.warn(text, RuntimeWarning, stacklevel=2)


def _is_stopped(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):  # no Linux, or it has ended, which the launcher sees
        return False
    return state in _STOPPED
