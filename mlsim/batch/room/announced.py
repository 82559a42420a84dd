"""Drains that dispatchers know of beforehand."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["AnnouncedDrain"]


@dataclass(frozen=True, slots=True)
class AnnouncedDrain:
    """A drain that dispatchers know of.

    Attributes
    ----------
    start, end
        From when and until when the nodes are promised to maintenance, in s; infinity: for good.
    nodes
        Numbers of the nodes, ascending.
    has_begun
        Whether the nodes are out of use for it.
    """

    start: float
    end: float
    nodes: tuple[int, ...]
    has_begun: bool = False
