"""The kernels' switch over techniques, generated from the records: code to size of the next chunk.

User-defined techniques are compiled functions that kernels call through their addresses.
:func:`_switch` writes the source of the kernels ``_prepare``, ``_size`` and the others: one branch per
function of the records, called with the arguments that it names. LLVM compiles them to a jump table.
"""

import linecache
from collections.abc import Callable
from inspect import unwrap
from typing import Any, NamedTuple

import numpy as np

from mlsim._jit import c_function, inlined, inner_kernel, kernel, zeros
from mlsim._runtime.arrays import Floats, Ints
from mlsim.techniques import TECHNIQUES
from mlsim.techniques import rule_layout as layout
from mlsim.techniques.fixed import ceil_div
from mlsim.techniques.pe_statistics import SimulatedChunk, cost_between
from mlsim.techniques.rule_layout import CODE, CONSTANT, ITERATIONS, MIN_CHUNK, PES, USERS
from mlsim.techniques.technique_entry import Rule

# Purpose of a call of the function of a user-defined class; rows of a node's gathered times.
NUMBERS, BEGIN, SIZE_OF, LEARN = range(4)
GATHERED = 5
SIZE, SECONDS, WAITED, SPREAD, PIECES = range(GATHERED)
MOST_NUMBERS = 1 << 27

_call = c_function("int64", *["int64"] * 5)
_call_object = c_function("int64", "int64", "intp", *["int64"] * 7, *["float64"] * 3)


class Executed(NamedTuple):
    """An executed chunk, from which a technique learns; times in s.

    Between nodes the executor is a node: it reports everything that its PEs executed since its last request
    as one chunk, with times divided by the number of its PEs.
    """

    pe: int
    """The executor: a PE, or a node."""
    step: int
    """Its scheduling step; −1 for a node, which reports several chunks as one."""
    size: int
    """Iterations, 1 or more."""
    pieces: int
    """Number of timed parts, see ``times_pieces``; in simulations one per iteration unless
    ``parameters.pieces`` is set."""
    seconds: float
    """Execution time."""
    overhead: float
    """Time from its request to its start; for a master's own chunk also the time of its breaks."""
    spread: float
    """Σ n_j·(x_j − x̄)² over the pieces of n_j iterations that took x_j each, x̄ being seconds / size."""


@inner_kernel
def user_size(address: int, n: int, p: int, remaining: int, i: int, pe: int) -> int:
    """Size a chunk by the function at an address; below 1 if the function is wrong."""
    return _call(address, n, p, remaining, i, pe)


@kernel
def memory_words(address: int, p: int) -> int:
    """Return the length of the memory of a class, including the element that marks a failure."""
    wanted = _call_object(address, NUMBERS, 0, 0, 0, p, 0, 0, 0, 0, 0.0, 0.0, 0.0)
    return wanted + 1 if 0 <= wanted <= MOST_NUMBERS else 1


@inner_kernel
def new_memory(address: int, p: int) -> tuple[Floats, Floats]:
    """Return the nodes' gathered times, and the memory of a class at a queue of up to ``p`` PEs or nodes."""
    return zeros((GATHERED, p), np.float64), zeros((1, memory_words(address, p)), np.float64)


@kernel
def begin_object(address: int, memory: Floats, n: int, p: int) -> None:
    """Call ``begin(n, p)`` of a user-defined class: its queue has new iterations."""
    words = memory.shape[1] - 1
    wanted = _call_object(address, NUMBERS, 0, 0, 0, p, 0, 0, 0, 0, 0.0, 0.0, 0.0)
    if not 0 <= wanted <= words:
        memory[0, words] = 1.0
        return
    if _call_object(address, BEGIN, memory.ctypes.data, words, n, p, 0, 0, 0, 0, 0.0, 0.0, 0.0) != 0:
        memory[0, words] = 1.0


@inner_kernel
def object_size(address: int, sums: Floats, n: int, p: int, remaining: int, i: int, pe: int) -> int:
    """Size a chunk by a class, whose memory is passed as ``sums``; below 1 if the class is wrong."""
    words = sums.shape[1] - 1
    if sums[0, words] != 0.0:
        return layout.RAISED
    place = sums.ctypes.data
    return _call_object(address, SIZE_OF, place, words, n, p, remaining, i, pe, 0, 0.0, 0.0, 0.0)


@kernel
def learn_object(address: int, memory: Floats, n: int, p: int, chunk: Executed) -> None:
    """Call ``learn`` of a class with an executed chunk, or with a node's."""
    pe, step, size, pieces, seconds, waited, spread = chunk
    words, place = memory.shape[1] - 1, memory.ctypes.data
    failed = _call_object(address, LEARN, place, words, n, p, size, step, pe, pieces, seconds, waited, spread)
    if failed != 0:
        memory[0, words] = 1.0


@kernel
def gather_chunk(gathered: Floats, chunk: Executed) -> None:
    """Add a chunk to the gathered times of a node, which is its ``pe``."""
    node, _, size, pieces, seconds, waited, spread = chunk
    before, both = gathered[SIZE, node], gathered[SIZE, node] + size
    if before > 0.0:
        shift = seconds / size - gathered[SECONDS, node] / before
        gathered[SPREAD, node] += shift * shift * before * (size / both)
    gathered[SIZE, node] = both
    gathered[SECONDS, node] += seconds
    gathered[WAITED, node] += waited
    gathered[SPREAD, node] += spread
    gathered[PIECES, node] += pieces


@kernel
def tell_of_node(address: int, gathered: Floats, memory: Floats, n: int, p: int, node: int) -> None:
    """Call ``learn`` of a class between nodes with a node's gathered times, and clear them."""
    size, pieces = int(gathered[SIZE, node]), int(gathered[PIECES, node])
    if size > 0:
        times = gathered[SECONDS, node], gathered[WAITED, node], gathered[SPREAD, node]
        chunk = Executed(node, -1, size, pieces, times[0], times[1], times[2])
        learn_object(address, memory, n, p, chunk)
        gathered[:, node] = 0.0


USER_RULE = Rule(size=user_size)
USER_BY_STEP_RULE = Rule(size=user_size, size_by_step=user_size)
USER_OBJECT_RULE = Rule(size=object_size)  # learns by learn_object, not by the rule

STATIC = TECHNIQUES["STATIC"].code
CYCLIC = TECHNIQUES["CYCLIC"].code
STATIC_CODES = (STATIC, CYCLIC)
"""Chunk j is executed by PE j mod P, so that a PE requests its first chunk only."""
SS = TECHNIQUES["SS"].code
GSS = TECHNIQUES["GSS"].code

RULES: dict[int, Rule] = {
    **{entry.code: entry.rule for entry in TECHNIQUES.values()},
    **{
        layout.LB4MPI + entry.code: entry.lb4mpi
        for entry in TECHNIQUES.values()
        if entry.lb4mpi not in (None, entry.rule)
    },
    layout.USER: USER_RULE,
    layout.USER_BY_STEP: USER_BY_STEP_RULE,
    layout.USER_OBJECT: USER_OBJECT_RULE,
}
"""Every rule by the code under which kernels know it."""

_CONSTANT = tuple(code for code, rule in RULES.items() if rule.constant)
_ADAPTIVE = (*(code for code, rule in RULES.items() if rule.learn is not None), layout.USER_OBJECT)
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
_learn = _switch("learn", "measured, sums, weights, pe, chunk, size, seconds, waited", "", constant=False)
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
    return zeros(layout.RULE_NUMBERS, np.int64), zeros(layout.RULE_REALS, np.float64)


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
    rule[USERS] = int(parameters[layout.ADDRESS])
    for k in range(layout.RULE_REALS):
        reals[k] = parameters[layout.OWN + k]
    _prepare(code, rule, n, p, parameters)
    if rule[CONSTANT] != 0:
        rule[layout.SIZE] = _constant(code, n, p, reals)
        if parameters[layout.OF_LB4MPI] != 0.0:
            rule[MIN_CHUNK] = 1  # the library ignores it here
        rule[layout.SIZE] = min(max(rule[layout.SIZE], rule[MIN_CHUNK]), max(n, 1))


@inner_kernel
def constant_size(rule: Ints) -> int:
    """Return the size of all chunks if a technique has only one, else 0.

    Event loops read it once: a call per chunk would take as long as an event.
    """
    return int(rule[layout.SIZE]) if rule[CONSTANT] != 0 else 0


@inner_kernel
def learn(code: int, measured: Floats, sums: Floats, weights: Floats, pe: int, chunk: SimulatedChunk) -> None:
    """Update an adaptive technique with an executed chunk."""
    waited, first, size = 0.0, chunk.first, chunk.size
    if code in _TIMING_OVERHEAD:
        spent = cost_between(chunk.prefix, first, first + size) + chunk.each * ceil_div(size, chunk.length)
        waited = chunk.seconds - spent / chunk.speed
    _learn(code, measured, sums, weights, pe, chunk, size, chunk.seconds, waited)


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
    techniques, the chunks that BOLD follows, or the memory of a user-defined class. A size below 1 is the
    wrong one of a user-defined technique.
    """
    if rule[CONSTANT] != 0:
        return min(int(rule[layout.SIZE]), remaining)
    code, n, p, least = int(rule[CODE]), int(rule[ITERATIONS]), int(rule[PES]), int(rule[MIN_CHUNK])
    size: int = _size(
        code, rule, reals, weights, measured, sums, i, remaining, pe, now, n, p, least, rule[USERS]
    )
    if code >= layout.USER and size < 1:
        return size
    return min(max(size, least), remaining)


@kernel
def straightforward_size(rule: Ints, reals: Floats, guide: Ints, weights: Floats, i: int, pe: int) -> int:
    """Size chunk ``i`` for a PE from ``i`` alone: ``min_chunk`` … N, or 0 if N = 0.

    The order of the calls does not change the sizes; ascending steps are the fastest. A size below 1 is the
    wrong one of a user-defined technique.
    """
    if rule[CONSTANT] != 0:
        return int(rule[layout.SIZE])
    code, n, p, least = int(rule[CODE]), int(rule[ITERATIONS]), int(rule[PES]), int(rule[MIN_CHUNK])
    size: int = _size_by_step(code, rule, reals, guide, weights, i, -1, pe, n, p, rule[USERS])
    if code >= layout.USER and size < 1:
        return size
    return min(max(size, least), n)


@kernel
def straightforward_sizes(
    rule: Ints, reals: Floats, guide: Ints, weights: Floats, i: int, pe: int, sizes: Ints
) -> None:
    """Fill ``sizes`` with the sizes of the chunks from step ``i`` on."""
    for k in range(len(sizes)):
        sizes[k] = straightforward_size(rule, reals, guide, weights, i + k, pe)
