"""All chunk sizes of a technique in order of the scheduling steps."""

from __future__ import annotations

from typing import Literal

import numpy as np

from mlsim.application.technique_choice import WEIGHTED, Choice, canonical, choose
from mlsim.application.techniques.guided import FRACTION_WORDS, new_guide
from mlsim.application.techniques.technique_rules import (
    is_adaptive,
    needs_remaining,
    new_rule,
    recursive_size,
    remembers,
    reset_rule,
    straightforward_size,
)
from mlsim.errors import InputError
from mlsim.scenario import ParametersConfig, Statistics, split_technique

Form = Literal["recursive", "straightforward"]

_MOST_ITERATIONS = 1 << 62
_MOST_PES = (1 << 31) - 1


def sequence(
    technique: str,
    n: int,
    p: int,
    form: Form = "recursive",
    min_chunk: int = 1,
    parameters: ParametersConfig | None = None,
    seed: int = 0,
) -> list[int]:
    """List a technique's chunk sizes, as if steps claimed their iterations in order and PEs took turns.

    Parameters
    ----------
    technique
        Name of a technique, upper and lower case being the same, or ``./file.py:function``.
    n, p
        Iterations (0 to 2^62) and PEs (1 to 2^31 − 1).
    form
        ``recursive``: from what is left, as CCA does. ``straightforward``: from the step, as DCA does.
    min_chunk
        Least chunk, but for the last one.
    parameters
        What techniques are given; None: the defaults. PEs count as equally fast.
    seed
        For RND.

    Raises
    ------
    InputError
        For an unknown technique, numbers out of range, missing parameters, and techniques whose sizes follow
        measured times or the clock.

    Examples
    --------
    >>> sequence("GSS", 10, 4)
    [3, 2, 2, 1, 1, 1]
    >>> sequence("GSS", 10, 4, "straightforward")
    [3, 2, 2, 2, 1]
    """
    _check(n, p, form, min_chunk)
    given = ParametersConfig() if parameters is None else parameters
    if given.statistics is Statistics.PROFILED:
        raise InputError("statistics: profiled: there are no costs without a loop; give sigma and mu")
    name = _one(technique)
    weighed = p if name in WEIGHTED else 1
    (choice,) = choose(name, np.ones(weighed), np.zeros(1), given, 0.1, 1, seed)
    if remembers(choice.code):
        learns = is_adaptive(choice.code)
        by = "measured iteration times" if learns else "the time and the chunks under way"
        raise InputError(f"technique: {choice.name} sizes chunks by {by}; simulate a loop to see them")
    if form == "straightforward" and needs_remaining(choice.code):
        raise InputError(
            f"technique: {choice.name} reads what remains and has no straightforward form; allowed: recursive"
        )
    return _sizes(choice, n, p, form, min_chunk)


def _sizes(choice: Choice, n: int, p: int, form: Form, min_chunk: int) -> list[int]:
    settings = choice.settings()
    (rule, reals), guide = new_rule(), new_guide(FRACTION_WORDS)
    reset_rule(rule, reals, choice.code, n, p, min_chunk, settings.parameters)
    weights, unmeasured, unsummed = choice.weights, np.zeros((3, 1)), np.zeros((2, 2))
    sizes: list[int] = []
    remaining = n
    while remaining > 0:
        step, pe = len(sizes), len(sizes) % p
        if form == "recursive":
            size = recursive_size(rule, reals, weights, unmeasured, unsummed, step, remaining, pe, 0.0)
        else:
            size = min(straightforward_size(rule, reals, guide, weights, step, pe), remaining)
        if size < 1:
            settings.bad_size[:] = step, pe, size
            raise choice.wrong_size(settings, n, p)
        sizes.append(int(size))
        remaining -= size
    return sizes


def _one(technique: str) -> str:
    names = split_technique(technique)
    if len(names) != 1:
        raise InputError(f"technique: {technique} names {len(names)}; allowed: one")
    return canonical(names[0])


def _check(n: int, p: int, form: str, min_chunk: int) -> None:
    """Raise an InputError that says what is wrong."""
    if form not in ("recursive", "straightforward"):
        raise InputError(f"form: {form!r} is not known; allowed: recursive, straightforward")
    if not 0 <= n <= _MOST_ITERATIONS:
        raise InputError(f"N: {n} iterations; allowed: 0 to 2^62")
    if not 1 <= p <= _MOST_PES:
        raise InputError(f"P: {p} PEs; allowed: 1 to {_MOST_PES}")
    if not 1 <= min_chunk <= _MOST_ITERATIONS:
        raise InputError(f"min_chunk: {min_chunk}; allowed: 1 to 2^62")
