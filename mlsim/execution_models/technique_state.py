"""The state of a technique at one queue, or at the queues of all nodes."""

from typing import NamedTuple, Protocol

import numpy as np

from mlsim._jit import inlined, inner_kernel, kernel, leaf_kernel, zeros
from mlsim._runtime.arrays import Floats, Ints
from mlsim.execution_models.rma_state import (
    END,
    KNOWN,
    NOTHING,
    POSITION,
    REALS,
    REFILLS,
    RULE,
    STEP,
    Asker,
    learn_done,
    spread_of,
    take_shared,
)
from mlsim.techniques.fixed import random_key
from mlsim.techniques.guided import FRACTION_WORDS, new_guide
from mlsim.techniques.pe_statistics import (
    RATE,
    RISK,
    ROWS,
    SimulatedChunk,
    new_measurements,
    put,
    spread_of_parts,
    timed_length,
)
from mlsim.techniques.technique_entry import (
    ADDRESS,
    ITERATIONS,
    KEY,
    MEMORY,
    PES,
    PIECES,
    RULE_REALS,
    USER_OBJECT,
    USERS,
    RuleSettings,
)
from mlsim.techniques.technique_rules import (
    Executed,
    begin_object,
    counts_overhead,
    gather_chunk,
    is_adaptive,
    learn,
    learn_object,
    needs_remaining,
    new_memory,
    new_rule,
    recursive_size,
    remembers,
    reset_rule,
    tell_of_node,
    times_iterations,
)

_NUMBERS = 32


class Executor(Protocol):
    """The executor of a chunk: its speed, its last chunk, and the times of that in s."""

    pace: float
    spent: float
    waited: float
    last_first: int
    last_size: int
    last_step: int
    last_part: int
    parts: int
    squares: float


class Technique(NamedTuple):
    """A technique; the arrays of ``rules``, ``reals``, ``measured``, ``sums`` have an entry per queue."""

    code: int  # this and the next three as in ``RuleSettings``
    min_chunk: int
    parameters: Floats
    bad_size: Ints
    locks: bool  # reads the remaining iterations
    learns: bool  # within a loop
    remembers: bool  # has numbers for every PE
    whole: bool  # learns from the time since the request
    rules: Ints  # this and the next two: see ``reset_rule``
    reals: Floats
    guide: Ints
    weights: Floats  # of the executors
    measured: Floats  # statistics known at a queue
    sums: Floats
    own_measured: Floats  # those that nodes have measured but not yet published; without nodes the same
    own_sums: Floats


@inner_kernel
def open_technique(settings: RuleSettings, n: int, queues: int, most: int, by_nodes: bool) -> Technique:
    """Initialise a technique at queues of n iterations with at most ``most`` executors."""
    code, knows = settings.code, remembers(settings.code)
    rule, reals = new_rule()
    one_measured, one_sums = new_measurements(most if knows else 1)
    if code == USER_OBJECT:
        one_measured, one_sums = new_memory(int(settings.parameters[ADDRESS]), most)
    kept = queues if knows else 1
    measured = zeros((kept, one_measured.shape[0], one_measured.shape[1]), np.float64)
    sums = zeros((kept, one_sums.shape[0], one_sums.shape[1]), np.float64)
    rules, all_reals = zeros((queues, len(rule)), np.int64), zeros((queues, len(reals)), np.float64)
    reset_rule(rules[0], all_reals[0], code, n, most, settings.min_chunk, settings.parameters)
    if code == USER_OBJECT and n > 0:
        begin_object(rules[0, USERS], sums[0], n, most)
    return Technique(
        code,
        settings.min_chunk,
        settings.parameters,
        settings.bad_size,
        needs_remaining(code),
        is_adaptive(code),
        knows,
        counts_overhead(code),
        rules,
        all_reals,
        new_guide(FRACTION_WORDS),
        settings.weights.copy(),
        measured,
        sums,
        zeros(measured.shape, np.float64) if by_nodes else measured,
        zeros(sums.shape, np.float64) if by_nodes else sums,
    )


@inlined
def size_from_rest(
    t: Technique, queue: int, weights: Floats, step: int, remaining: int, executor: int, now: float
) -> int:
    """Size the next chunk of a queue from the remaining iterations; below 1: a wrong user-defined size."""
    known = queue if t.remembers else 0
    rule, reals, measured, sums = t.rules[queue], t.reals[queue], t.measured[known], t.sums[known]
    return recursive_size(rule, reals, weights, measured, sums, step, remaining, executor, now)


class Learned(NamedTuple):
    """The statistics of a technique at one queue that a chunk changes."""

    measured: Floats
    sums: Floats
    weights: Floats
    rule: Ints
    gathers: bool  # whether a node gathers chunks for its next report, so that a class learns later


@leaf_kernel
def learn_chunk(
    t: Technique,
    known: Learned,
    executor: int,
    me: Executor,
    prefix: Floats,
    each: float,
    share: float,
    seconds: float,
) -> None:
    """Learn from a PE's last chunk, as from one of an executor ``share`` times as fast.

    ``each``: time per part of the chunk besides its iterations, in s at speed 1; 0: parts were not recorded.
    """
    pieces, size, rule = int(t.parameters[PIECES]), me.last_size, known.rule
    done = size, me.spent, me.waited, me.squares, me.parts, me.last_step
    if me.parts > 0 and pieces > 0 and times_iterations(t.code):
        learn_done(t.code, known.measured, known.sums, known.weights, executor, 1.0 / share, done)
        return
    length = me.last_part if each > 0.0 else timed_length(size, pieces)
    if t.code != USER_OBJECT:
        pace = me.pace * share
        chunk = SimulatedChunk(prefix, pace, me.last_first, size, seconds / share, pieces, length, each)
        learn(t.code, known.measured, known.sums, known.weights, executor, chunk)
        return
    if me.parts > 0:
        parts, spread, pace = me.parts, spread_of(done), share
    else:
        parts, spread = spread_of_parts(prefix, me.last_first, size, length, each)
        pace = me.pace * share
    spread /= pace * pace
    executed = Executed(executor, me.last_step, size, parts, me.spent / share, me.waited / share, spread)
    if known.gathers:
        gather_chunk(known.measured, executed)
    else:
        learn_object(rule[USERS], known.sums, rule[ITERATIONS], rule[PES], executed)


@leaf_kernel
def note_bad_size(t: Technique, step: int, executor: int, size: int) -> None:
    """Record where a user-defined technique returned a size below 1."""
    t.bad_size[0], t.bad_size[1], t.bad_size[2] = step, executor, size


@leaf_kernel
def publish_gathered(t: Technique, node: int) -> None:
    """Report to a user-defined class between nodes the chunks that a node has gathered."""
    rule = t.rules[0]
    tell_of_node(rule[USERS], t.own_measured[0], t.sums[0], rule[ITERATIONS], rule[PES], node)


@kernel
def publish(
    own: Floats, own_sums: Floats, measured: Floats, sums: Floats, weights: Floats, node: int
) -> None:
    """Publish the measurements (``own``) of a node."""
    leaf = sums.shape[1] // 2 + node
    if own_sums[RATE, leaf] > 0.0:
        if sums[RATE, leaf] == 0.0:
            sums[0, 0] += 1.0
            sums[1, 0] += weights[node]
        put(sums, RATE, node, own_sums[RATE, leaf])
        put(sums, RISK, node, own_sums[RISK, leaf])
    for row in range(len(measured)):
        measured[row, node] = own[row, node]


@kernel
def refill_rule(
    rule: Ints,
    reals: Floats,
    code: int,
    n: int,
    p: int,
    min_chunk: int,
    parameters: Floats,
    node: int,
    number: int,
) -> None:
    """Prepare the inside technique for the ``number``-th chunk of a node, of n iterations.

    RND gets its own random numbers for each chunk.
    """
    reset_rule(rule, reals, code, n, p, min_chunk, parameters)
    rule[KEY] = random_key(rule[KEY], (node << _NUMBERS) + number)


@kernel
def take_refilled(
    memory: Ints,
    asker: Asker,
    min_chunk: int,
    parameters: Floats,
    node: int,
    first: int,
    size: int,
    now: float,
) -> tuple[int, int, int]:
    """Refill the queue of a block in shared memory with a chunk of the node, and take a chunk for a PE.

    The PE must hold the block, and releases it; see ``take_shared``.
    """
    p, code, _, address = asker
    block = memory[1:]
    block[STEP], block[POSITION], block[END] = 0, first, first + size
    block[REFILLS] += 1
    rule, reals = block[RULE:REALS], block[REALS : len(block) - 1].view(np.float64)
    refill_rule(rule, reals[:RULE_REALS], code, size, p, min_chunk, parameters, node, block[REFILLS])
    if code == USER_OBJECT:
        kept = reals[RULE_REALS + p + ROWS * (p if remembers(code) else 1) :]
        rule[MEMORY] = len(kept)
        begin_object(address, kept.reshape(1, len(kept)), size, p)
    return take_shared(memory, asker, KNOWN, NOTHING, now)
