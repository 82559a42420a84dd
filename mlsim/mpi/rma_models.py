"""DCA and HDCA for real: queues in windows that ranks access one-sidedly."""

from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable

import numpy as np
from mpi4py import MPI

from mlsim._runtime.arrays import Floats
from mlsim.application.techniques import Choice
from mlsim.execution_models import technique_state
from mlsim.execution_models.technique_state import ANY, EMPTY, KNOWN, LAST, NOT_YET, NOTHING, Done
from mlsim.mpi.chunk_rules import Chunk, RecursiveRule, RuleState, StraightforwardRule, delay
from mlsim.mpi.loop_context import SharedWindow, Window
from mlsim.mpi.rank_waiting import SPINS, Patience
from mlsim.mpi.real_model import Model, Setting, two_level_weights
from mlsim.scenario.words import LockOrder
from mlsim.techniques.technique_rules import STATIC_CODES, is_adaptive, needs_remaining

Publish = Callable[[RecursiveRule], None]
Take = Callable[[int, Done, float], Chunk]

_STEP, _POSITION = 0, 1


class PollingLock:
    """A polled lock: the first rank that finds it free acquires it (Eleliemy 2021, §4.4, of Intel MPI)."""

    WORDS = 2

    def __init__(self, window: Window, place: int, patience: Patience) -> None:
        self._window, self._place, self._patience = window, place, patience

    def acquire(self) -> None:
        """Try until it is free."""
        tries = 0
        while self._window.fetch_replace(self._place, 1) == 1:
            self._patience.pause(tries)
            tries += 1

    def release(self) -> None:
        """Mark it as free."""
        self._window.fetch_replace(self._place, 0)


RELAY_WORDS = 3  # ticket, turn and seal

_SHORT = 128
_OVERTAKEN = 500
"""Waits after which a rank draws a ticket for numbers in shared memory: about 1 ms, if it has a core."""


class Relay:
    """One rank's part in passing a block of numbers, the first of ``window``, from rank to rank.

    ``block``, int64[words + 2], is turn, the numbers, seal; ``memory``: the first argument of :attr:`kernel`.
    """

    kernel = staticmethod(technique_state.take_from_copy)

    def __init__(self, window: Window, words: int, patience: Patience) -> None:
        self._patience, self._window = patience, window
        self._win, self._holder = window.handle, window.holder
        self.memory = self.block = np.zeros(words + 2, np.int64)
        self._one, self._ticket = array("q", [1]), array("q", [0])
        self._buffers = [[place, 1, MPI.INT64_T] for place in (self._one, self._ticket)]
        self._whole = [self.block, len(self.block), MPI.INT64_T]
        self._is_long = words > _SHORT
        self._head = [self.block[:1], 1, MPI.INT64_T]

    def begin(self) -> None:
        """Write the block for the first turn, on one rank, before any request."""
        technique_state.seal(self.block, 0)
        self.hand_on()

    def ask(self) -> int:
        """Draw a ticket and read the block; return the ticket, whose turn may not have come yet."""
        one, ticket = self._buffers
        self._win.Fetch_and_op(one, ticket, self._holder, 0, MPI.SUM)
        self._win.Get(self._whole, self._holder, 1)
        self._win.Flush(self._holder)
        return self._ticket[0]

    def has_turn(self, ticket: int) -> bool:
        """Return whether the block read is that of a ticket's turn."""
        return technique_state.is_turn(self.block, ticket)

    def wait(self, ticket: int, tries: int) -> int:
        """Wait until the block may be that of the ticket, which is returned, and read it."""
        self._pause(ticket, tries)
        while self._is_long and int(self.block[technique_state.TURN]) < ticket:
            tries += 1
            self._win.Get(self._head, self._holder, 1)
            self._win.Flush(self._holder)
            self._pause(ticket, tries)
        self._win.Get(self._whole, self._holder, 1)
        self._win.Flush(self._holder)
        return ticket

    def _pause(self, ticket: int, tries: int) -> None:
        """Pause between polls; tickets further behind poll less often."""
        for _ in range(min(max(ticket - int(self.block[technique_state.TURN]), 1), 64)):
            self._patience.pause(tries)

    def hand_on(self) -> None:
        """Write the block, sealed for the next turn."""
        self._win.Put(self._whole, self._holder, 1)
        self._win.Flush(self._holder)


class SharedRelay:
    """A :class:`Relay` in shared memory; under ``order`` ``polling`` no rank draws a ticket.

    Only the rank that holds ``block`` may change it; ``memory`` is the number of the next ticket, and the
    block.
    """

    kernel = staticmethod(technique_state.take_shared)

    def __init__(
        self, window: SharedWindow, words: int, patience: Patience, order: str = LockOrder.FIFO
    ) -> None:
        self._window, self._patience = window, patience
        self._draws_at = _OVERTAKEN if order == LockOrder.FIFO else -1
        self.memory = window.memory[: words + RELAY_WORDS]
        self.block = self.memory[1:]

    def begin(self) -> None:
        """Synchronize the block, on one rank, before any request; it is free, as it was cleared."""
        self._window.sync()

    def ask(self) -> int:
        """Return the code by which the kernel takes the block when it is free."""
        return technique_state.ANY

    def has_turn(self, turn: int) -> bool:
        """Acquire the block, with a ticket or ``ANY``; return whether it was acquired."""
        return technique_state.seize(self.memory, turn)

    def wait(self, turn: int, tries: int) -> int:
        """Pause until the block may be free; return the turn to go on with, which may be a ticket now."""
        # The kernel has looked for longer than a rank with a core needs: one without it may hold the block.
        self._patience.pause(SPINS + tries)
        return technique_state.draw_ticket(self.memory) if tries == self._draws_at else turn

    def hand_on(self) -> None:
        """No-op: the kernel has released the block."""

    def release(self) -> None:
        """Release the block, where the kernel will not."""
        technique_state.release(self.memory)


class LoopQueue(ABC):
    """A queue of a loop, whose state is ``words`` numbers in a window that the context lends."""

    def __init__(self, setting: Setting, words: int, pe: int) -> None:
        self._context, self._window = setting.context, setting.context.window(words)
        self._n, self._delay, self._pe = setting.options.n, setting.options.injected_delay, pe

    @abstractmethod
    def claim(self, done: Done, publish: Publish | None, had_one: bool) -> Chunk | None:
        """Size and claim a chunk; None if nothing is left.

        ``done``: measurements of this rank's last chunk; ``publish``: called in its turn, for those of a
        node; ``had_one``: not the first claim.
        """

    def free(self) -> None:
        """Return the window to the context."""
        self._context.put_back(self._window)


class StepQueue(LoopQueue):
    """Queue of a technique with a straightforward form: one or two atomics, no lock.

    If no size depends on the requesting PE, fetching the step is enough. Otherwise a second atomic fetches
    the chunk's begin; a rank that loses its core between the two then receives a later chunk.
    """

    def __init__(self, setting: Setting, choice: Choice, p: int, pe: int, weights: Floats) -> None:
        super().__init__(setting, 2, pe)
        self._fetch_add = self._window.fetch_add
        rule = StraightforwardRule(choice, self._n, p, weights, pe)
        self._size, self._chunk, self._ordered = rule.size, rule.chunk, rule.ordered
        # Static: chunk j is PE j's, whenever it claims.
        self._own = pe if choice.code in STATIC_CODES else -1

    def claim(self, done: Done, publish: Publish | None, had_one: bool) -> Chunk | None:  # noqa: ARG002
        """Fetch a step, size its chunk, claim it."""
        step = self._fetch_add(_STEP, 1)
        if self._ordered:
            first, size = self._chunk(step)
        else:
            size = self._size(step)
        if self._delay:
            delay(self._delay)
        if not self._ordered:
            first = self._fetch_add(_POSITION, size)
        n = self._n
        if self._own >= 0:
            first, step = (n if had_one else self._own * size), self._own
        if first >= n:
            return None
        return first, (size if first + size <= n else n - first), step


def take_in_turn(
    relay: Relay | SharedRelay, take: Take, turn: int, done: Done, now: Callable[[], float]
) -> Chunk:
    """Wait for a rank's turn, which has not come yet, and take a chunk."""
    chunk, tries = (turn, NOT_YET, 0), 0
    while chunk[1] == NOT_YET:
        turn = relay.wait(turn, tries)
        tries += 1
        chunk = take(turn, done, now())
    return chunk


def enter(relay: Relay | SharedRelay) -> None:
    """Wait until it is this rank's turn."""
    turn, tries = relay.ask(), 0
    while not relay.has_turn(turn):
        turn = relay.wait(turn, tries)
        tries += 1


class RelayQueue(LoopQueue):
    """For techniques that need the remaining iterations, or measurements of other PEs.

    The technique's state goes from rank to rank (see :class:`Relay`). An injected delay precedes a rank's
    turn, so that ranks delay at the same time (Eleliemy 2021, ch. 4: all PEs calculate AF's D and E
    simultaneously).
    """

    def __init__(self, setting: Setting, choice: Choice, p: int, pe: int, weights: Floats) -> None:
        words = RuleState.words(choice, p)
        super().__init__(setting, words + RELAY_WORDS, pe)
        window, patience = self._window, setting.patience
        self._relay = (
            SharedRelay(window, words, patience)
            if isinstance(window, SharedWindow)
            else Relay(window, words, patience)
        )
        state = RuleState(self._relay.block[1:-1], choice, p)
        self._rule = RecursiveRule(choice, state, self._n, p, setting.clock.now)
        self._now = self._rule.now
        self._take = self._rule.taker(self._relay.kernel, self._relay.memory, pe)
        if setting.layout.comm.rank == 0:
            self._rule.begin(self._n, p, weights)
            self._relay.begin()

    def claim(self, done: Done, publish: Publish | None, had_one: bool) -> Chunk | None:  # noqa: ARG002
        """Wait for this rank's turn, size and claim."""
        relay, take, now = self._relay, self._take, self._now
        if self._delay:
            delay(self._delay)
        if publish is None:
            turn = relay.ask()
        else:
            enter(relay)
            publish(self._rule)
            turn = KNOWN
        chunk = take(turn, done, now())
        if chunk[1] == NOT_YET:
            chunk = take_in_turn(relay, take, chunk[0], done, now)
        relay.hand_on()
        if chunk[1] > 0:
            return chunk
        self._rule.check_size(*chunk[1:], self._pe)
        return None


class LockedQueue(LoopQueue):
    """As :class:`RelayQueue`, under a polled lock: the first rank that finds it free acquires it."""

    def __init__(self, setting: Setting, choice: Choice, p: int, pe: int, weights: Floats) -> None:
        words = RuleState.words(choice, p)
        super().__init__(setting, PollingLock.WORDS + words, pe)
        self._learns = is_adaptive(choice.code)
        self._lock = PollingLock(self._window, 0, setting.patience)
        self._state = RuleState(np.zeros(words, np.int64), choice, p)
        self._rule = RecursiveRule(choice, self._state, self._n, p, setting.clock.now)
        self._rule.begin(self._n, p, weights)
        if setting.layout.comm.rank == 0:
            self._window.write(PollingLock.WORDS, self._state.block)

    def claim(self, done: Done, publish: Publish | None, had_one: bool) -> Chunk | None:  # noqa: ARG002
        """Read, size and claim under the lock."""
        state, numbers = self._state, self._state.numbers
        if self._delay:
            delay(self._delay)
        self._lock.acquire()
        try:
            self._window.read(PollingLock.WORDS, state.block)
            first, step = int(numbers[state.position]), int(numbers[state.step])
            if first >= self._n:
                return None
            if publish is not None:
                publish(self._rule)
            elif self._learns:
                self._rule.update(self._pe, done)
            size = self._rule.size(step, self._n - first, self._pe)
            numbers[state.position], numbers[state.step] = first + size, step + 1
            self._window.write(PollingLock.WORDS, state.block)
        finally:
            self._lock.release()
        return first, size, step


def loop_queue(setting: Setting, choice: Choice, p: int, pe: int, weights: Floats) -> LoopQueue:
    """Return the queue that a technique needs; all ranks must call this."""
    if not needs_remaining(choice.code):
        return StepQueue(setting, choice, p, pe, weights)
    kind = LockedQueue if setting.options.lock == LockOrder.POLLING else RelayQueue
    return kind(setting, choice, p, pe, weights)


class _WindowModel(Model):
    """One rank of a model whose queues lie in windows."""

    _queue: LoopQueue

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.piece = (setting.options.break_after or 0) if setting.layout.comm.rank == 0 else 0

    def serve(self) -> None:
        """Progress MPI, so that it serves RMA of other ranks where the network does not."""
        self.setting.layout.comm.Iprobe()

    def free(self) -> None:
        """Return the windows to the context."""
        self._queue.free()


class DistributedModel(_WindowModel):
    """One rank under DCA."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        comm, choice = setting.layout.comm, setting.outer
        self._had_one = False
        self.learns = is_adaptive(choice.code)
        self._queue = loop_queue(setting, choice, comm.size, comm.rank, choice.weights)
        self._claim = self._queue.claim

    def claim(self) -> Chunk | None:
        """Claim a chunk of the loop's queue."""
        layout, choice = self.setting.layout, self.setting.outer
        chunk = self._in_cycle(choice, layout.comm.size, self._claim_next)
        if chunk is None:
            self._note_end()
        else:
            self._had_one = True
        return chunk

    def _claim_next(self) -> Chunk | None:
        return self._claim(self.done, None, self._had_one)


class HierarchicalModel(_WindowModel):
    """One rank under HDCA."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        layout, options = setting.layout, setting.options
        members = layout.local.size
        self._node, self._members, self._pe = layout.node, members, layout.local.rank
        self._outer_learns, self._inner_learns = map(is_adaptive, (setting.outer.code, setting.inner.code))
        self.learns = self._outer_learns or self._inner_learns
        between, within = two_level_weights(setting, np.ones(layout.comm.size, np.bool_))
        # In the node's memory: queue with the inside technique, measurements for the outer one.
        inside = RuleState.words(setting.inner, members)
        counted = len(between)  # nodes or, with global_p: pes, ranks
        own = RuleState.words(setting.outer, counted)
        self._shared = setting.context.shared_window(inside + RELAY_WORDS + own)
        self._relay = SharedRelay(self._shared, inside, setting.patience, options.lock)
        self._state = RuleState(self._relay.block[1:-1], setting.inner, members)
        self._inner = RecursiveRule(setting.inner, self._state, options.n, layout.comm.size)
        measured = self._shared.memory[inside + RELAY_WORDS :][:own]
        self._own = RuleState(measured, setting.outer, counted)
        self._measured = RecursiveRule(setting.outer, self._own, options.n, counted)
        if self._pe == 0:
            self._inner.begin(0, members, within[layout.node])
            self._state.numbers[self._state.refills] = 0
            self._own.weights[:] = between
            self._relay.begin()
        self._take = self._inner.taker(self._relay.kernel, self._relay.memory, self._pe)
        self._take_refilled = self._inner.refiller(self._relay.memory, self._pe, self._node)
        self._now = self._inner.now
        # The compiled call neither measures for the node nor delays.
        self._in_steps = self._outer_learns or self._delay > 0.0
        self._queue = loop_queue(setting, setting.outer, counted, layout.node, between)

    def claim(self) -> Chunk | None:
        """Claim a sub-chunk of the node's queue, refilled if it is empty."""
        take = self._take
        if self._in_steps:
            enter(self._relay)
            chunk = self._take_in_steps(self.done)
        else:
            done, now = self.done, self._now
            chunk = take(ANY, done, now())
            if chunk[1] == NOT_YET:
                chunk = take_in_turn(self._relay, take, chunk[0], done, now)
            if chunk[1] == EMPTY:
                chunk = self._take_in_steps(done)
        if chunk[1] > 0:
            return chunk
        self._inner.check_size(*chunk[1:], self._pe)
        self._note_end()
        return None

    def _take_in_steps(self, done: Done) -> Chunk:
        """Learn, refill the node's queue if it is empty, and claim a sub-chunk; this rank holds the queue."""
        try:
            if self._inner_learns:
                self._inner.update(self._pe, done)
            if self._outer_learns:
                self._measured.gather(self._node, done, 1.0 / self._members)
            got = self._refill()
            state, numbers = self._state, self._state.numbers
            if self._delay and (got is not None or numbers[state.position] < numbers[state.end]):
                delay(self._delay)
        except BaseException:
            self._relay.release()
            raise
        if got is None:
            return self._take(KNOWN, NOTHING, self._now())
        return self._take_refilled(got[0], got[1], self._now())

    def _refill(self) -> Chunk | None:
        """Claim a chunk for the node if its queue is empty; note it if none is left."""
        state, numbers = self._state, self._state.numbers
        refills = int(numbers[state.refills])
        if refills == LAST or numbers[state.position] != numbers[state.end]:
            return None
        chunk = self._queue.claim(NOTHING, self._publish if self._outer_learns else None, refills > 0)
        if chunk is None:
            numbers[state.refills] = LAST
        return chunk

    def _publish(self, known: RecursiveRule) -> None:
        known.publish_node(self._own, self._node)

    def free(self) -> None:
        """Return the windows to the context."""
        super().free()
        self.setting.context.put_back(self._shared)
