"""How fast a processor computes and sends, for logs that count operations and bytes."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Rates"]


@dataclass(frozen=True, slots=True)
class Rates:
    """What turns amounts of computation and communication into seconds.

    Attributes
    ----------
    speed
        FLOP/s of a processor of the log.
    bandwidth
        bit/s of the link of a processor.
    """

    speed: float
    bandwidth: float
