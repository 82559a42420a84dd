"""Small pieces of error messages: how a value is shown, and what may have been meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["nearest", "shown"]

_LONGEST = 60


def shown(value: object) -> str:
    r"""Show a value the user gave, on one line and not too long.

    Examples
    --------
    >>> shown("a\nb"), shown(True), shown([1, 2])
    ("'a\\nb'", 'true', 'a list')
    """
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if value is None:
        return "nothing"
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 4] + "..." + text[0] * isinstance(value, str)


def nearest(word: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """Ask whether a similar word was meant: ``" did you mean 'policy'?"``, or nothing.

    Words that differ in upper and lower case only are all named. ``likeness`` is how close another word must
    be, from 0 to 1.
    """
    words = list(dict.fromkeys(map(str, known)))
    close = [candidate for candidate in words if candidate.casefold() == word.casefold()]
    if not close:
        folded = {candidate.casefold(): candidate for candidate in words}
        found = difflib.get_close_matches(word.casefold(), folded, n=5, cutoff=likeness)
        # Swapped letters are the likelier mistake: SFA was meant to be SAF and not SRF.
        found.sort(key=lambda match: sorted(match) != sorted(word.casefold()))
        close = [folded[match] for match in found[:1]]
    return f" did you mean {' or '.join(map(repr, close))}?" if close else ""
