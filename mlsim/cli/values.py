"""Values of options, read as a scenario file would read them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from mlsim.scenario.values.units import Dimension


__all__ = ["amount", "code_from_here", "listed", "settings", "word_of"]

Word = TypeVar("Word", bound=StrEnum)


def listed(text: str | None) -> list[str]:
    """Return the words that an option lists with commas; none if it is not given."""
    return [word.strip() for word in text.split(",") if word.strip()] if text else []


_CODE = re.compile(r"""[^\s,:;+={}\[\]'"#&]+\.py(?=:[^\W\d])""")
_WITH_CODE = re.compile(r"(batch|application|workload|output)\b")
_PLAIN = re.compile(r"[\w./ -]*[\w./-]")
"""A path that stays what it is inside a value of YAML, and inside a sum of techniques."""


def settings(texts: Iterable[str] | None, file: Path | None) -> list[str]:
    """Return what ``--set`` gives, files of code in the current directory by their whole path."""
    return [code_from_here(text, file) if _WITH_CODE.match(text.strip()) else text for text in texts or ()]


def code_from_here(text: str, file: Path | None) -> str:
    """Return a text of the command line in which files of code are found from the current directory as well.

    What a scenario names is looked up beside it alone, as it must not depend on where a command is given.
    What is typed with a command is seen from where it is typed. A file beside the scenario goes first.

    Parameters
    ----------
    text
        Such as ``batch.policy=./mine.py:Mine``.
    file
        The scenario's; None: there is none, and names are seen from the current directory anyhow.
    """

    def whole(found: re.Match[str]) -> str:
        path = Path(found[0])
        if file is None or path.is_absolute() or found[0].startswith("~") or (file.parent / path).is_file():
            return found[0]
        here = Path.cwd() / path
        return str(here) if here.is_file() and _PLAIN.fullmatch(str(here)) else found[0]

    return _CODE.sub(whole, text)


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
