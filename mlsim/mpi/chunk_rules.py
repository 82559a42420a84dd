"""Techniques in a real loop: the simulator's compiled chunk-size rules over arrays of the ranks.

The state of a technique lies in one block of 8-byte numbers (:class:`RuleState`), so that it can be a
rank's own, lie in memory that a node shares, or travel to and from a window.
"""

import time
from collections.abc import Callable
from functools import cache, partial
from itertools import accumulate

import numpy as np

from mlsim._jit import by_numba
from mlsim._runtime.arrays import Floats, Ints
from mlsim.application.techniques import WEIGHTED, Choice
from mlsim.execution_models import technique_state
from mlsim.execution_models.technique_state import NOTHING, Done
from mlsim.techniques import TECHNIQUES, guided, rule_layout, technique_rules
from mlsim.techniques.pe_statistics import ROWS
from mlsim.techniques.rule_layout import RULE_NUMBERS, RULE_REALS

Chunk = tuple[int, int, int]  # first iteration, size, scheduling step

DONE = len(NOTHING)

_SIZES_AHEAD, _MOST_AHEAD = 16, 4096


class RuleState:
    """The state of a technique for ``p`` PEs or nodes, as columns in one block of numbers, zeros at first."""

    # Indices in ``numbers``: next scheduling step, next iteration, end of the queue, number of refills (LAST:
    # no refill follows).
    step, position, end, refills = range(4)

    def __init__(self, block: Ints, choice: Choice, p: int) -> None:
        self.block = block
        self.numbers = block[:4]
        self.rule = block[4 : 4 + RULE_NUMBERS]
        reals = block[4 + RULE_NUMBERS :].view(np.float64)
        self.reals = reals[:RULE_REALS]
        at = RULE_REALS + p
        self.weights = reals[RULE_REALS:at]
        columns, (rows, wide) = _columns(choice, p), _sums(choice, p)
        self.measured = reals[at : at + ROWS * columns].reshape(ROWS, columns)
        at += ROWS * columns
        self.sums = reals[at : at + rows * wide].reshape(rows, wide)

    @staticmethod
    def words(choice: Choice, p: int) -> int:
        """Return the length of the block, in 8-byte numbers."""
        rows, wide = _sums(choice, p)
        return 4 + RULE_NUMBERS + RULE_REALS + p + ROWS * _columns(choice, p) + rows * wide


def _columns(choice: Choice, p: int) -> int:
    return p if technique_rules.remembers(choice.code) else 1


def _sums(choice: Choice, p: int) -> tuple[int, int]:
    """Return the shape of the sum trees, or of the memory of a class of the user."""
    if choice.is_object:
        return 1, technique_rules.memory_words(int(choice.parameters[rule_layout.ADDRESS]), p)
    return 2, 2 * (1 << (_columns(choice, p) - 1).bit_length())


class RecursiveRule:
    """Sizes chunks from the remaining iterations; ranks that share ``state`` share ``clock`` [s]."""

    now: Callable[[], float]
    """Return the time, in s, where the technique needs it, else 0."""

    def __init__(
        self, choice: Choice, state: RuleState, n: int, p: int, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self.choice, self.state = choice, state
        self.now = clock if technique_rules.follows_chunks(choice.code) else lambda: 0.0
        self._n, self._p = n, p
        settings = self._settings = choice.settings()
        self._parameters = settings.min_chunk, settings.parameters
        self._address = int(settings.parameters[rule_layout.ADDRESS]) if choice.of_user else 0

    def begin(self, n: int, p: int, weights: Floats) -> None:
        """Prepare for ``n`` iterations; no refill follows, unless the caller sets ``refills`` to 0."""
        state, code = self.state, self._settings.code
        state.numbers[state.end], state.numbers[state.refills] = n, technique_state.LAST
        state.weights[:] = weights
        technique_rules.reset_rule(state.rule, state.reals, code, n, p, *self._parameters)
        self._begin_object(n, p)

    def _begin_object(self, n: int, p: int) -> None:
        """Call ``begin`` of a user-defined class if there are iterations."""
        if self.choice.is_object and n > 0:
            self.state.rule[rule_layout.MEMORY] = self.state.sums.shape[1]
            technique_rules.begin_object(self._address, self.state.sums, n, p)

    def refill(self, n: int, p: int, node: int, number: int) -> None:
        """Prepare for the ``number``-th chunk of a node, of ``n`` iterations for ``p`` PEs."""
        state, code = self.state, self._settings.code
        technique_state.refill_rule(state.rule, state.reals, code, n, p, *self._parameters, node, number)
        self._begin_object(n, p)

    def size(self, step: int, remaining: int, pe: int) -> int:
        """Size the next chunk; ``remaining`` >= 1."""
        state = self.state
        if self.choice.of_user:
            # the function lies elsewhere in every process
            state.rule[rule_layout.USERS] = self._address
        columns = state.rule, state.reals, state.weights, state.measured, state.sums
        size = int(technique_rules.recursive_size(*columns, step, remaining, pe, self.now()))
        self.check_size(size, step, pe)
        return size

    def check_size(self, size: int, step: int, pe: int) -> None:
        """Raise the error of a user-defined technique that sized a chunk below 1; step < 0: none was left."""
        if size < 1 and step >= 0:
            self._settings.bad_size[:] = step, pe, size
            raise self.choice.wrong_size(self._settings, self._n, self._p)

    def update(self, pe: int, done: Done | Floats) -> None:
        """Update an adaptive technique with an executed chunk."""
        state, took = self.state, _typed(done)
        if not self.choice.is_object:
            self._learn(pe, 1.0, took)
            return
        size, seconds, waited, _, pieces, step = took
        if size > 0:
            spread, (n, p) = technique_state.spread_of(took), self._lengths
            chunk = technique_rules.Executed(pe, step, size, pieces, seconds, waited, spread)
            technique_rules.learn_object(self._address, state.sums, n, p, chunk)

    def gather(self, node: int, done: Done | Floats, share: float) -> None:
        """Add an executed chunk, whose time counts by ``share``, to what a node has measured."""
        took = _typed(done)
        if not self.choice.is_object:
            self._learn(node, share, took)
            return
        size, seconds, waited, _, pieces, step = took
        if size > 0:
            times = seconds * share, waited * share, technique_state.spread_of(took) * share * share
            chunk = technique_rules.Executed(node, step, size, pieces, *times)
            technique_rules.gather_chunk(self.state.measured, chunk)

    def _learn(self, pe: int, share: float, done: Done) -> None:
        state = self.state
        columns = state.measured, state.sums, state.weights
        technique_state.learn_done(self.choice.code, *columns, pe, share, done)

    @property
    def _lengths(self) -> tuple[int, int]:
        """Iterations and PEs, as a class of the user gets them."""
        rule = self.state.rule
        return int(rule[rule_layout.ITERATIONS]), int(rule[rule_layout.PES])

    def publish_node(self, own: RuleState, node: int) -> None:
        """Add a node's measurements to the state."""
        known = self.state
        if self.choice.is_object:
            technique_rules.tell_of_node(self._address, own.measured, known.sums, *self._lengths, node)
            return
        technique_state.publish(own.measured, own.sums, known.measured, known.sums, known.weights, node)

    def forget_gathered(self) -> None:
        """Forget what a node has measured, once it was sent; techniques of the catalogue send all of it."""
        if self.choice.is_object:
            self.state.measured[:] = 0.0

    def taker(self, kernel: Callable[..., Chunk], memory: Ints, pe: int) -> Callable[..., Chunk]:
        """Return a function that assigns chunks to a PE, from a travelling block that holds the rule's state.

        ``kernel`` is ``take_from_copy`` or ``take_shared`` of :mod:`mlsim.execution_models.technique_state`,
        ``memory`` its first argument. The function takes a turn, the measurements of the PE's executed chunk,
        and the time [s]. Pass its result to :meth:`check_size` unless the size is ``NOT_YET`` or ``EMPTY``.
        """
        # A partial, as a call of Python's own would take as long as half of the work.
        return partial(kernel, memory, self._asker(pe))

    def refiller(self, memory: Ints, pe: int, node: int) -> Callable[[int, int, float], Chunk]:
        """Return a function that fills a node's queue, and assigns a chunk as :meth:`taker` does.

        Its arguments are first iteration and size of the node's chunk, and the time [s].
        """
        return partial(technique_state.take_refilled, memory, self._asker(pe), *self._parameters, node)

    def _asker(self, pe: int) -> technique_state.Asker:
        return len(self.state.weights), self.choice.code, pe, self._address


class StraightforwardRule:
    """Sizes chunks from the step alone, for requester ``pe`` of ``p`` PEs or nodes with weights of sum p."""

    size: Callable[[int], int]  # of the chunk of a scheduling step
    ordered: bool  # no size depends on who asks: all ranks know where a chunk begins from its step alone

    def __init__(self, choice: Choice, n: int, p: int, weights: Floats, pe: int) -> None:
        self._choice, self._n, self._p, self._pe = choice, n, p, pe
        self._settings = choice.settings(weights)
        rule, reals = technique_rules.new_rule()
        settings = self._settings
        parameters = settings.min_chunk, settings.parameters
        technique_rules.reset_rule(rule, reals, settings.code, n, p, *parameters)
        self._state = rule, reals, guided.new_guide(guided.FRACTION_WORDS), np.array(settings.weights)
        self._sizes: list[int] = []
        self._first = self._stop = 0
        self.ordered = is_ordered(choice)
        self._constant = int(rule[rule_layout.SIZE]) if rule[rule_layout.CONSTANT] else 0
        self._starts: list[int] = [0]
        self._block = min(max(_SIZES_AHEAD, p), _MOST_AHEAD)
        # Of many PEs each needs few of the next steps; a technique of the user is asked for those alone.
        self.size = self._known if 2 * p <= _SIZES_AHEAD and not choice.of_user else self._calculated

    def chunk(self, step: int) -> tuple[int, int]:
        """Return where chunk ``step`` begins, and its size before it is cut; N or more behind the loop's end.

        Only of an ``ordered`` technique, with rising steps: the sizes of all steps between are followed.
        """
        if self._constant > 0:
            return step * self._constant, self._constant
        while step >= self._stop and self._starts[-1] < self._n:
            self._sizes = self._several(self._stop, self._block)
            self._starts = list(accumulate(self._sizes, initial=self._starts[-1]))
            self._first, self._stop = self._stop, self._stop + self._block
        if step >= self._stop:
            return self._n, 0
        return self._starts[step - self._first], self._sizes[step - self._first]

    def _known(self, step: int) -> int:
        """Size chunk ``step``; sizes are calculated some steps ahead, as a call costs more than a size."""
        if not self._first <= step < self._stop:
            self._sizes = self._several(step, _SIZES_AHEAD)
            self._first, self._stop = step, step + _SIZES_AHEAD
        return self._sizes[step - self._first]

    def _several(self, step: int, count: int) -> list[int]:
        """Size chunks from ``step`` on."""
        sizes = np.empty(count, np.int64)
        technique_rules.straightforward_sizes(*self._state, step, self._pe, sizes)
        return sizes.tolist()

    def _calculated(self, step: int) -> int:
        """Size chunk ``step``."""
        size = technique_rules.straightforward_size(*self._state, step, self._pe)
        if size < 1 and self._n > 0:
            self._settings.bad_size[:] = step, self._pe, size
            raise self._choice.wrong_size(self._settings, self._n, self._p)
        return size


def is_ordered(choice: Choice) -> bool:
    """Whether a technique sizes chunks by the step alone, for any PE: one atomic is enough."""
    entry = TECHNIQUES.get(choice.name)
    if entry is None or technique_rules.needs_remaining(choice.code):
        return False
    return bool(entry.straightforward) and choice.name not in WEIGHTED


def delay(seconds: float) -> None:
    """Compute for some seconds, as ``injected_delay`` adds them to a chunk calculation."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


@cache
def warm_up() -> None:
    """Load, or compile, every kernel that a loop may call, so that none is compiled while one runs."""
    by_numba()  # a loop's calls are many, and they are timed
    parameters = np.ones(rule_layout.PARAMETERS)
    for entry in TECHNIQUES.values():
        choice = Choice(entry.name, entry.code, 1, parameters, np.ones(2))
        words = RuleState.words(choice, 2)
        state = RuleState(np.zeros(words, np.int64), choice, 2)
        rule = RecursiveRule(choice, state, 8, 2)
        rule.begin(8, 2, np.ones(2))
        rule.size(0, 8, 0)
        rule.refill(8, 2, 0, 1)
        if technique_rules.is_adaptive(choice.code):
            rule.update(0, (1, 1.0, 1.0, 0.0, 1, 0))
            rule.publish_node(state, 0)
        memory = np.zeros(words + 3, np.int64)
        block = memory[1:]
        rule.taker(technique_state.take_from_copy, block, 0)(technique_state.KNOWN, NOTHING, 0.0)
        rule.taker(technique_state.take_shared, memory, 0)(technique_state.KNOWN, NOTHING, 0.0)
        rule.refiller(memory, 0, 0)(0, 8, 0.0)
        technique_state.is_turn(block, 0)
        technique_state.seize(memory, technique_state.draw_ticket(memory))
        technique_state.release(memory)
        if not technique_rules.needs_remaining(choice.code):
            for p in (2, _SIZES_AHEAD):
                StraightforwardRule(choice, 8, p, np.ones(p), 0).size(0)


def _typed(done: Done | Floats) -> Done:
    """Return the numbers of an executed chunk as kernels take them."""
    size, seconds, waited, squares, pieces, step = done
    return int(size), float(seconds), float(waited), float(squares), int(pieces), int(step)
