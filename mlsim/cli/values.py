"""Values of options, read as a scenario file would read them."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from mlsim.scenario.values.units import Dimension


__all__ = ["amount", "listed", "word_of"]

Word = TypeVar("Word", bound=StrEnum)


def listed(text: str | None) -> list[str]:
    """Return the words that an option lists with commas; none if it is not given."""
    return [word.strip() for word in text.split(",") if word.strip()] if text else []


def amount(option: str, text: str, dimension: Dimension, *, positive: bool = False) -> float:
    """Read a number with a unit.

    Raises
    ------
    InputError
        If it is none; the message names the option.
    """
    from mlsim.errors import InputError
    from mlsim.scenario import parse_override
    from mlsim.scenario.values.amounts import Amount

    try:
        return Amount(dimension, positive=positive).parse(parse_override(f"value={text}")[1])
    except ValueError as error:
        raise InputError(f"{option}: {error}") from error


def word_of(kind: type[Word], text: str, option: str) -> Word:
    """Read a word of a closed set.

    Raises
    ------
    InputError
        If it is none; the message names the option, and what is allowed.
    """
    from mlsim.errors import InputError
    from mlsim.scenario.values.hints import nearest

    try:
        return kind(text)
    except ValueError:
        allowed = [str(word) for word in kind]
        hint = nearest(text, allowed)
        raise InputError(f"{option} {text}:{hint} allowed: {', '.join(allowed)}") from None
