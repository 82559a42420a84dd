"""The kernels' switch over techniques, made of the records: from a code to the size of the next chunk.

``_prepare``, ``_size`` and the others are kernels whose source :func:`_switch` writes: one branch per
function of the records, which is called with the arguments that it names. LLVM makes a jump table of them.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from inspect import unwrap
from typing import Any

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim._jit import inlined, inner_kernel, kernel, zeros
from mlsim.techniques import TECHNIQUES
from mlsim.techniques.fixed import ceil_div
from mlsim.techniques.prefix_costs import cost_between
from mlsim.techniques.technique_entry import (
    ADDRESS,
    CODE,
    CONSTANT,
    ITERATIONS,
    LB4MPI,
    MIN_CHUNK,
    OF_LB4MPI,
    OWN,
    PES,
    RULE_NUMBERS,
    RULE_REALS,
    SIZE,
    USER,
    USER_BY_STEP,
    USER_OBJECT,
    USERS,
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
_TIMING_OVERHEAD = tuple(code for code in _TIMING if RULES[code].counts_overhead)
_COUNTING_BREAKS = tuple(code for code, rule in RULES.items() if rule.counts_breaks)


def _switch(attribute: str, arguments: str, otherwise: str, *, constant: bool) -> Any:
    """Write the kernel that calls the function of the rules with a code, by the names of its parameters.

    Parameters
    ----------
    attribute
        Of :class:`Rule`.
    arguments
        Of the kernel after ``code``, and what the functions can name.
    otherwise
        The result where a rule has no function; empty: none is returned.
    constant
        Whether it is for the rules of one size, or for the others.
    """
    codes: dict[Callable[..., Any], list[int]] = {}
    for code, rule in RULES.items():
        function = getattr(rule, attribute)
        if function is not None and rule.constant == constant:
            codes.setdefault(function, []).append(code)
    allowed = [name.strip() for name in arguments.split(",")]
    names: dict[str, Any] = {"__name__": __name__}
    lines = [f"def {attribute}_of(code, {arguments}):"]
    for number, (function, members) in enumerate(codes.items()):
        body = unwrap(getattr(function, "py_func", function)).__code__
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
    return inlined(names[f"{attribute}_of"])  # a call of its own would cost as much as a chunk


_prepare = _switch("prepare", "rule, n, p, parameters", "", constant=False)
_constant = _switch("size", "n, p, reals", "1", constant=True)
_size = _switch(
    "size",
    "rule, reals, weights, measured, sums, i, remaining, pe, now, n, p, min_chunk, address",
    "0",
    constant=False,
)
_size_by_step = _switch(
    "size_by_step", "rule, reals, guide, weights, i, remaining, pe, n, p, address", "0", constant=False
)
_learn = _switch(
    "learn",
    "measured, sums, weights, pe, prefix, speed, first, size, seconds, waited, pieces, length, each",
    "",
    constant=False,
)
learn_measured = _switch(
    "learn_measured",
    "measured, sums, weights, pe, size, pieces, seconds, mean, between",
    "",
    constant=False,
)
"""Updates an adaptive technique with a timed chunk of ``seconds``, the ``mean`` of its iterations [s], and
``between``, Σ n_j·(x_j − mean)² over its pieces [s²]; seconds and mean include the wait for the chunk where
the technique counts overhead.
"""


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
    """Prepare a technique for a loop of n iterations (0 to 2^62) on p PEs (1 to 2^31 − 1), with a new guide.

    ``rule`` and ``reals`` are those of ``new_rule``, ``parameters`` of ``RuleSettings``.
    """
    rule[:] = 0
    rule[CODE] = code
    rule[ITERATIONS] = n
    rule[PES] = p
    rule[MIN_CHUNK] = min_chunk
    rule[CONSTANT] = 1 if code in _CONSTANT else 0
    rule[USERS] = int(parameters[ADDRESS])
    for k in range(RULE_REALS):
        reals[k] = parameters[OWN + k]
    _prepare(code, rule, n, p, parameters)
    if rule[CONSTANT] != 0:
        rule[SIZE] = _constant(code, n, p, reals)
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
    """Update an adaptive technique with a chunk, size >= 1, that a PE has executed.

    ``prefix`` and ``speed`` are for AF, which measures every iteration (``pieces`` 0) or parts of ``length``
    iterations, each of which takes ``each`` [s at speed 1] besides them. ``seconds`` are for AWF and mAF:
    from the request to the chunk's end where the technique counts overhead.
    """
    waited = 0.0
    if code in _TIMING_OVERHEAD:
        spent = cost_between(prefix, first, first + size) + each * ceil_div(size, length)
        waited = seconds - spent / speed
    _learn(
        code, measured, sums, weights, pe, prefix, speed, first, size, seconds, waited, pieces, length, each
    )


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
    """Size the next chunk from the remaining iterations, 1 or more, in the order of the steps ``i`` from 0.

    ``weights`` float64[P] are changed by AWF-B and AWF-D. ``measured`` and ``sums`` are the statistics of
    adaptive techniques, the chunks that a technique follows, or the memory of a user-defined class; others
    do not read them. ``now`` [s] is for techniques that follow chunks. From 1 to ``remaining``; below 1 only
    if a user-defined technique returned that.
    """
    if rule[CONSTANT] != 0:
        return min(int(rule[SIZE]), remaining)
    code, n, p, least = int(rule[CODE]), int(rule[ITERATIONS]), int(rule[PES]), int(rule[MIN_CHUNK])
    size: int = _size(
        code, rule, reals, weights, measured, sums, i, remaining, pe, now, n, p, least, rule[USERS]
    )
    if code >= USER and size < 1:
        return size
    return min(max(size, least), remaining)


@kernel
def straightforward_size(rule: Ints, reals: Floats, guide: Ints, weights: Floats, i: int, pe: int) -> int:
    """Size chunk ``i`` for a PE from ``i`` alone, from ``min_chunk`` to N (to 0 if N = 0).

    Sizes in the order of the steps are found fastest, but any order gives the same. Below 1 only if a
    user-defined technique returned that.
    """
    if rule[CONSTANT] != 0:
        return int(rule[SIZE])
    code, n, p, least = int(rule[CODE]), int(rule[ITERATIONS]), int(rule[PES]), int(rule[MIN_CHUNK])
    size: int = _size_by_step(code, rule, reals, guide, weights, i, -1, pe, n, p, rule[USERS])
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
