"""Speed and bandwidth of processors, for logs that count operations and bytes."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Rates"]


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates that convert operations and bytes to seconds."""

    speed: float
    """FLOP/s of a processor of the log."""
    bandwidth: float
    """bit/s of the link of a processor."""
