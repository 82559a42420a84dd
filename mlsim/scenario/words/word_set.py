"""What the closed sets of words have in common."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar, Self


class _Aliased:
    """A set that is declared with its other spellings."""

    _other_spellings: ClassVar[dict[str, str]] = {}

    def __init_subclass__(cls, aliases: Mapping[str, str] | None = None) -> None:
        """Keep the other spellings of a set."""
        super().__init_subclass__()
        cls._other_spellings = dict(aliases or {})

    @classmethod
    def aliases(cls) -> dict[str, str]:
        """Return other spellings that are understood, and the word each stands for."""
        return dict(cls._other_spellings)


class Choice(_Aliased, StrEnum):
    """Base of all word sets: ``Policy("saf")`` is ``Policy.SAF``; upper and lower case are the same.

    A set is declared with its other spellings: ``class Policy(Choice, aliases={"SJF": "SPF"})``.
    """

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        if not isinstance(value, str):
            return None
        wanted = value.casefold()
        others = {alias.casefold(): word for alias, word in cls.aliases().items()}
        wanted = others.get(wanted, wanted).casefold()
        return next((member for member in cls if member.value.casefold() == wanted), None)
