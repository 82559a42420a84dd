"""The kernels' switch over techniques, generated from the records: code to size of the next chunk.

:func:`_switch` writes the source of the kernels ``_prepare``, ``_size`` and the others: one branch per
function of the records, called with the arguments that it names. LLVM compiles them to a jump table.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from inspect import unwrap
from typing import Any

import numpy as np

from mlsim._jit import inlined, inner_kernel, kernel, zeros
from mlsim._runtime.arrays import Floats, Ints
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
    """Generate the kernel that calls, for a code, the function in an ``attribute`` of its :class:`Rule`.

    ``arguments`` are the kernel's after ``code``; each function takes those that its parameters name. The
    kernel returns ``otherwise`` for rules without the function (empty: nothing). ``constant`` selects the
    rules with one size for all chunks, or the others.
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
    return inlined(names[f"{attribute}_of"])  # a call would cost as much as an event


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
    "learn_measured", "measured, sums, weights, pe, size, pieces, seconds, mean, between", "", constant=False
)
"""Updates an adaptive technique with a timed chunk of ``seconds``, the ``mean`` of its iterations [s], and
``between``, Σ n_j·(x_j − mean)² over its pieces [s²]; seconds and mean include the wait for the chunk where
the technique counts overhead.
"""


@kernel
def needs_remaining(code: int) -> bool:
    """Whether a technique has no straightforward form: distributed models then calculate under the lock."""
    return code in _WITHOUT_STEP


@kernel
def is_adaptive(code: int) -> bool:
    """Whether a technique learns within a loop, by :func:`learn`."""
    return code in _ADAPTIVE


@kernel
def times_iterations(code: int) -> bool:
    """Whether a technique learns from the times of iterations or of parts of chunks (AF, mAF)."""
    return code in _TIMING


@kernel
def follows_chunks(code: int) -> bool:
    """Whether a technique reads the clock and the chunks under execution (BOLD)."""
    return code in _FOLLOWING


@kernel
def remembers(code: int) -> bool:
    """Whether a technique keeps ``measured`` and ``sums`` per PE, see :func:`recursive_size`."""
    return is_adaptive(code) or follows_chunks(code)


@kernel
def counts_overhead(code: int) -> bool:
    """Whether a technique learns from the time from the request for a chunk to its end."""
    return code in _COUNTING_OVERHEAD


@kernel
def counts_breaks(code: int) -> bool:
    """Whether a technique learns from the time from a chunk's start to its end, breaks included."""
    return code in _COUNTING_BREAKS


@kernel
def new_rule() -> tuple[Ints, Floats]:
    """Return a rule's integers (int64[13]) and reals (float64[3]), to be set by :func:`reset_rule`."""
    return zeros(RULE_NUMBERS, np.int64), zeros(RULE_REALS, np.float64)


@kernel
def reset_rule(
    rule: Ints, reals: Floats, code: int, n: int, p: int, min_chunk: int, parameters: Floats
) -> None:
    """Prepare a technique for a loop of n iterations (0 to 2^62) on p PEs (1 to 2^31 − 1).

    ``rule`` and ``reals`` are those of ``new_rule``, ``parameters`` of ``RuleSettings``; a guide must be new.
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
            rule[MIN_CHUNK] = 1  # the library ignores it here
        rule[SIZE] = min(max(rule[SIZE], rule[MIN_CHUNK]), max(n, 1))


@inner_kernel
def constant_size(rule: Ints) -> int:
    """Return the size of all chunks if a technique has only one, else 0.

    Event loops read it once: a call per chunk would take as long as an event.
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
    """Update an adaptive technique with an executed chunk (size >= 1).

    AF reads ``prefix`` and ``speed``: it measures every iteration (``pieces`` 0) or parts of ``length``
    iterations with an overhead of ``each`` [s at speed 1]. AWF and mAF read ``seconds``, which start at the
    request if the technique counts overhead.
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
    """Size the next chunk from the ``remaining`` (>= 1) iterations; steps ``i`` come in order from 0.

    AWF-B and AWF-D change ``weights`` float64[P]. ``measured`` and ``sums`` hold the statistics of adaptive
    techniques, the chunks that BOLD follows, or the memory of a user-defined class. ``now`` [s] is for BOLD.
    The size is in 1 … ``remaining``, or the wrong one (below 1) of a user-defined technique.
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
    """Size chunk ``i`` for a PE from ``i`` alone: ``min_chunk`` … N, or 0 if N = 0.

    The order of the calls does not change the sizes; ascending steps are the fastest. A size below 1 is the
    wrong one of a user-defined technique.
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
    """Fill ``sizes`` with the sizes of the chunks from step ``i`` on."""
    for k in range(len(sizes)):
        sizes[k] = straightforward_size(rule, reals, guide, weights, i + k, pe)
