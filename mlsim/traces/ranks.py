"""Ranks of locations in communicators."""

from __future__ import annotations

from typing import Any

__all__ = ["RankTable"]


class RankTable:
    """The ranks of a trace's locations, of which several may have one: any thread of a process may send."""

    def __init__(self) -> None:
        self._ranks: dict[int, dict[tuple[str, int], int]] = {}

    def of(self, communicator: Any, location: Any) -> int:
        """Return a location's own rank in a communicator, or that of its process; -1: it has none."""
        ranks = self._ranks.get(communicator._ref)
        if ranks is None:
            ranks = self._ranks[communicator._ref] = _ranks_of(communicator)
        return ranks.get(("location", location._ref), ranks.get(("process", location.group._ref), -1))


def _ranks_of(communicator: Any) -> dict[tuple[str, int], int]:
    members = list(enumerate(communicator.group.members))
    ranks = {("location", getattr(member, "_ref", member)): rank for rank, member in members}
    processes = ((member.group._ref, rank) for rank, member in members if hasattr(member, "group"))
    return ranks | {("process", process): rank for process, rank in processes}
