"""What the closed sets of words have in common."""

from __future__ import annotations

from enum import StrEnum
from typing import Self

__all__ = ["Choice"]


class Choice(StrEnum):
    """Base of all word sets: ``Policy("saf")`` is ``Policy.SAF``; upper and lower case are the same."""

    @classmethod
    def aliases(cls) -> dict[str, str]:
        """Other spellings that are understood, and the word each stands for."""
        return {}

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        if not isinstance(value, str):
            return None
        wanted = value.casefold()
        others = {alias.casefold(): word for alias, word in cls.aliases().items()}
        wanted = others.get(wanted, wanted).casefold()
        return next((member for member in cls if member.value.casefold() == wanted), None)
