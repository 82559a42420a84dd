"""The kernels' switch over techniques, made of the records: from a code to the size of the next chunk.

Each of :func:`_prepare`, :func:`_size`, :func:`_size_by_step`, :func:`_learn`, :func:`_learn_measured` is a
kernel whose source is written here: one branch per function of the records, which is called with the
arguments that it names. LLVM makes a jump table of the branches.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim._jit import inner_kernel, kernel, zeros
from mlsim.techniques import TECHNIQUES
from mlsim.techniques.technique_entry import (
    CODE,
    CONSTANT,
    ITERATIONS,
    LB4MPI,
    MIN_CHUNK,
    OF_LB4MPI,
    PES,
    RULE_NUMBERS,
    RULE_REALS,
    SIZE,
    USER,
    USER_BY_STEP,
    USER_OBJECT,
    Rule,
)
from mlsim.techniques.user_calls import USER_BY_STEP_RULE, USER_OBJECT_RULE, USER_RULE

STATIC = TECHNIQUES["STATIC"].code
SS = TECHNIQUES["SS"].code
GSS = TECHNIQUES["GSS"].code

RULES: dict[int, Rule] = {
    **{entry.code: entry.rule for entry in TECHNIQUES.values()},
    **{
        LB4MPI + entry.code: entry.lb4mpi
        for entry in TECHNIQUES.values()
        if entry.lb4mpi not in (None, entry.rule)
    },
    USER: USER_RULE,
    USER_BY_STEP: USER_BY_STEP_RULE,
    USER_OBJECT: USER_OBJECT_RULE,
}
"""Every rule by the code under which kernels know it."""

_CONSTANT = tuple(code for code, rule in RULES.items() if rule.constant)
_ADAPTIVE = (*(code for code, rule in RULES.items() if rule.adaptive), USER_OBJECT)
_WITHOUT_STEP = tuple(code for code, rule in RULES.items() if rule.size_by_step is None and not rule.constant)
_TIMING = tuple(code for code, rule in RULES.items() if rule.times_iterations)
_FOLLOWING = tuple(code for code, rule in RULES.items() if rule.follows_chunks)
_COUNTING_OVERHEAD = tuple(code for code, rule in RULES.items() if rule.counts_overhead)
_COUNTING_BREAKS = tuple(code for code, rule in RULES.items() if rule.counts_breaks)


def _switch(attribute: str, arguments: str, otherwise: str) -> Any:
    """Write the kernel that calls the function of the rules with a code, by the names of its parameters.

    Parameters
    ----------
    attribute
        Of :class:`Rule`.
    arguments
        Of the kernel after ``code``, and what the functions can name.
    otherwise
        The result where a rule has no function; empty: none is returned.
    """
    codes: dict[Callable[..., Any], list[int]] = {}
    for code, rule in RULES.items():
        function = getattr(rule, attribute)
        if function is not None:
            codes.setdefault(function, []).append(code)
    allowed = [name.strip() for name in arguments.split(",")]
    names: dict[str, Any] = {"__name__": __name__}
    lines = [f"def {attribute}_of(code, {arguments}):"]
    for number, (function, members) in enumerate(codes.items()):
        body = getattr(function, "py_func", function).__code__
        wanted = body.co_varnames[: body.co_argcount]
        unknown = sorted(set(wanted) - set(allowed))
        if unknown:
            raise TypeError(
                f"{body.co_filename}:{body.co_firstlineno}: {body.co_name} takes {', '.join(unknown)}; "
                f"allowed for {attribute}: {', '.join(allowed)}"
            )
        names[f"{attribute}_{number}"] = function
        test = " or ".join(f"code == {code}" for code in members)
        call = f"{attribute}_{number}({', '.join(wanted)})"
        lines += [f"    if {test}:", f"        return {call}" if otherwise else f"        {call}"]
        lines += [] if otherwise else ["        return"]
    lines += [f"    return {otherwise}"] if otherwise else []
    source, file = "\n".join(lines) + "\n", f"<{__name__}.{attribute}>"
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file  # for debuggers
    exec(compile(source, file, "exec"), names)
    return inner_kernel(names[f"{attribute}_of"])


_prepare = _switch("prepare", "rule, reals, n, p, parameters", "")
_size = _switch("size", "rule, reals, weights, measured, sums, i, remaining, pe, now, n, p, min_chunk", "0")
_size_by_step = _switch("size_by_step", "rule, reals, guide, weights, i, pe, n, p", "0")
_learn = _switch(
    "learn", "measured, sums, weights, pe, prefix, speed, first, size, seconds, pieces, length, each", ""
)
_learn_measured = _switch(
    "learn_measured", "measured, sums, weights, pe, size, pieces, seconds, between, share", ""
)


@kernel
def needs_remaining(code: int) -> bool:
    """Whether a technique has no straightforward form: it needs what is left, or what others measured.

    Under a distributed model, the lock is then held from reading to assigning.
    """
    return code in _WITHOUT_STEP


@kernel
def is_adaptive(code: int) -> bool:
    """Whether a technique learns within a loop, by :func:`learn`."""
    return code in _ADAPTIVE


@kernel
def times_iterations(code: int) -> bool:
    """Whether a technique learns the times of iterations, or of few: AF and its kin."""
    return code in _TIMING


@kernel
def follows_chunks(code: int) -> bool:
    """Whether a technique sizes chunks by the time, and by who has got what and when."""
    return code in _FOLLOWING


@kernel
def remembers(code: int) -> bool:
    """Whether a technique has numbers for every PE: ``measured`` and ``sums`` of :func:`recursive_size`."""
    return is_adaptive(code) or follows_chunks(code)


@kernel
def counts_overhead(code: int) -> bool:
    """Whether a technique learns from the time between the request for a chunk and its end."""
    return code in _COUNTING_OVERHEAD


@kernel
def counts_breaks(code: int) -> bool:
    """Whether a technique learns from the time between a chunk's begin and its end, breaks included."""
    return code in _COUNTING_BREAKS


@kernel
def new_rule() -> tuple[Ints, Floats]:
    """Return the memory of a rule: whole numbers (int64[13]) and real ones (float64[3]); see reset_rule."""
    return zeros(RULE_NUMBERS, np.int64), zeros(RULE_REALS, np.float64)


@kernel
def reset_rule(
    rule: Ints, reals: Floats, code: int, n: int, p: int, min_chunk: int, parameters: Floats
) -> None:
    """Prepare a technique for one loop, or for another one; a guide is to be made anew.

    Parameters
    ----------
    rule, reals
        From ``new_rule``.
    code
        Which technique.
    n, p
        Iterations (0 to 2^62) and PEs (1 to 2^31 − 1).
    min_chunk
        Least chunk, 1 or more.
    parameters
        See ``RuleSettings``.
    """
    rule[:] = 0
    rule[CODE] = code
    rule[ITERATIONS] = n
    rule[PES] = p
    rule[MIN_CHUNK] = min_chunk
    rule[CONSTANT] = 1 if code in _CONSTANT else 0
    _prepare(code, rule, reals, n, p, parameters)
    if rule[CONSTANT] != 0:
        if parameters[OF_LB4MPI] != 0.0:
            rule[MIN_CHUNK] = 1  # the library does not look at it
        rule[SIZE] = min(max(rule[SIZE], rule[MIN_CHUNK]), max(n, 1))


@inner_kernel
def constant_size(rule: Ints) -> int:
    """Return the size of all chunks where a technique has but one, else 0.

    Event loops ask once and then do without a call for every chunk, which takes as long as an event.
    """
    return int(rule[SIZE]) if rule[CONSTANT] != 0 else 0


@inner_kernel
def learn(
    code: int,
    measured: Floats,
    sums: Floats,
    weights: Floats,
    pe: int,
    prefix: Floats,
    speed: float,
    first: int,
    size: int,
    seconds: float,
    pieces: int,
    length: int,
    each: float,
) -> None:
    """Update an adaptive technique with a chunk that a PE has executed.

    Parameters
    ----------
    code
        A technique that is adaptive.
    measured, sums, weights
        What is known; changed.
    pe, first, size
        Who executed which iterations; size >= 1.
    prefix, speed
        Costs and relative speed, for AF, which measures every iteration.
    seconds
        Time the chunk took, for AWF and mAF; from asking to its end where the technique counts overhead.
    pieces
        In how many parts AF times a chunk; 0: each iteration.
    length, each
        How many iterations these parts have, all but the last, and what a part takes besides them, in s at
        speed 1.
    """
    _learn(code, measured, sums, weights, pe, prefix, speed, first, size, seconds, pieces, length, each)


@inner_kernel
def learn_measured(
    code: int,
    measured: Floats,
    sums: Floats,
    weights: Floats,
    pe: int,
    size: int,
    pieces: int,
    seconds: float,
    between: float,
    share: float,
) -> None:
    """Update an adaptive technique with a timed chunk, of whose times a ``share`` counts.

    ``seconds`` include the wait for the chunk where the technique counts overhead; ``between`` is
    Σ n_j·(x_j − mean)² over its pieces, in s².
    """
    _learn_measured(code, measured, sums, weights, pe, size, pieces, seconds, between, share)


@kernel
def recursive_size(
    rule: Ints,
    reals: Floats,
    weights: Floats,
    measured: Floats,
    sums: Floats,
    i: int,
    remaining: int,
    pe: int,
    now: float,
) -> int:
    """Size the next chunk from what is left.

    Parameters
    ----------
    rule, reals
        Of the technique; sizes must be asked for in the order of the steps.
    weights
        float64[P]; AWF-B and AWF-D change them.
    measured, sums
        Statistics of adaptive techniques, the chunks under way where a technique follows them, or the memory
        of a class of the user; others do not look at them.
    i, remaining, pe
        Scheduling step from 0, iterations left (1 or more), PE that asks.
    now
        Time, in s, where the technique follows chunks.

    Returns
    -------
    int
        From 1 to ``remaining``; below 1 only where a technique of the user gave that.
    """
    if rule[CONSTANT] != 0:
        return min(int(rule[SIZE]), remaining)
    code, n, p, least = int(rule[CODE]), int(rule[ITERATIONS]), int(rule[PES]), int(rule[MIN_CHUNK])
    size: int = _size(code, rule, reals, weights, measured, sums, i, remaining, pe, now, n, p, least)
    if code >= USER and size < 1:
        return size
    return min(max(size, least), remaining)


@kernel
def straightforward_size(rule: Ints, reals: Floats, guide: Ints, weights: Floats, i: int, pe: int) -> int:
    """Size chunk ``i`` for a PE from ``i`` alone, for techniques that do not need what is left.

    Parameters
    ----------
    rule, reals, guide
        Of the technique; sizes asked for in the order of the steps are found fastest, but any order gives
        the same.
    weights
        float64[P].
    i, pe
        Scheduling step from 0, PE that asks.

    Returns
    -------
    int
        From ``min_chunk`` to N; below 1 only where a technique of the user gave that, or N = 0.
    """
    if rule[CONSTANT] != 0:
        return int(rule[SIZE])
    code, n, p, least = int(rule[CODE]), int(rule[ITERATIONS]), int(rule[PES]), int(rule[MIN_CHUNK])
    size: int = _size_by_step(code, rule, reals, guide, weights, i, pe, n, p)
    if code >= USER and size < 1:
        return size
    return min(max(size, least), n)


@kernel
def straightforward_sizes(
    rule: Ints, reals: Floats, guide: Ints, weights: Floats, i: int, pe: int, sizes: Ints
) -> None:
    """Size the chunks from ``i`` on, as many as ``sizes`` has places."""
    for k in range(len(sizes)):
        sizes[k] = straightforward_size(rule, reals, guide, weights, i + k, pe)
