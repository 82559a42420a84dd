"""All chunk sizes of a technique in order of the scheduling steps, for tests, docs and the curious."""

from __future__ import annotations

from typing import Literal

import numpy as np

from mlsim.application.catalogue import TECHNIQUES
from mlsim.application.techniques.guided import FRACTION_WORDS, new_guide
from mlsim.application.techniques.rules import AF, new_rule, recursive_size, straightforward_size
from mlsim.errors import InputError

__all__ = ["Form", "sequence"]

Form = Literal["recursive", "straightforward"]

_MOST_ITERATIONS = 1 << 62
_MOST_PES = (1 << 31) - 1


def sequence(technique: str, n: int, p: int, form: Form = "recursive", min_chunk: int = 1) -> list[int]:
    """List a technique's chunk sizes, as if steps claimed their iterations in order.

    Parameters
    ----------
    technique
        Name of a technique; upper and lower case are the same.
    n, p
        Iterations (0 to 2^62) and PEs (1 to 2^31 − 1).
    form
        ``recursive``: from what is left, as CCA does. ``straightforward``: from the step, as DCA does.
    min_chunk
        Least chunk, but for the last one.

    Raises
    ------
    InputError
        For an unknown technique, numbers out of range, and AF, whose sizes follow measured times.

    Examples
    --------
    >>> sequence("GSS", 10, 4)
    [3, 2, 2, 1, 1, 1]
    >>> sequence("GSS", 10, 4, "straightforward")
    [3, 2, 2, 2, 1]
    """
    _check(technique, n, p, form, min_chunk)
    code = TECHNIQUES[technique.upper()].code
    rule, guide = new_rule(code, n, p, min_chunk, 1), new_guide(FRACTION_WORDS)
    unmeasured, unsummed = np.zeros((3, 1)), np.zeros((2, 2))
    sizes: list[int] = []
    remaining = n
    while remaining > 0:
        step = len(sizes)
        if form == "recursive":
            size = recursive_size(rule, unmeasured, unsummed, step, remaining, 0)
        else:
            size = min(straightforward_size(rule, guide, step), remaining)
        sizes.append(int(size))
        remaining -= size
    return sizes


def _check(technique: str, n: int, p: int, form: str, min_chunk: int) -> None:
    """Raise an InputError that says what is wrong."""
    name = technique.upper()
    if name not in TECHNIQUES:
        raise InputError(f"technique: {technique!r} is not known; allowed: {', '.join(TECHNIQUES)}")
    if TECHNIQUES[name].code == AF:
        raise InputError(
            "technique: AF sizes chunks by measured iteration times; simulate a loop to see them"
        )
    if form not in ("recursive", "straightforward"):
        raise InputError(f"form: {form!r} is not known; allowed: recursive, straightforward")
    if not 0 <= n <= _MOST_ITERATIONS:
        raise InputError(f"N: {n} iterations; allowed: 0 to 2^62")
    if not 1 <= p <= _MOST_PES:
        raise InputError(f"P: {p} PEs; allowed: 1 to {_MOST_PES}")
    if not 1 <= min_chunk <= _MOST_ITERATIONS:
        raise InputError(f"min_chunk: {min_chunk}; allowed: 1 to 2^62")
