"""HDCA, hierarchical distributed chunk calculation, MPI+MPI (Eleliemy 2021, ch. 5).

Every node has a queue in memory that its ranks share. A rank takes a sub-chunk from it by the inside
technique, in one compiled call that holds the queue. The rank that finds the queue empty continues to hold
it, takes a chunk for the node from the window at rank 0 as under DCA, with the nodes as PEs, and refills it.
"""

from __future__ import annotations

import numpy as np

from mlsim.mpi.loop.chunk_rules import (
    ANY,
    EMPTY,
    KNOWN,
    LAST,
    NOT_YET,
    NOTHING,
    Done,
    RecursiveRule,
    RuleState,
    delay,
    learns,
)
from mlsim.mpi.models.model import Chunk, Model, Setting, two_level_weights
from mlsim.mpi.models.queues import enter, loop_queue, take_in_turn
from mlsim.mpi.transport.relay import RELAY_WORDS, SharedRelay

__all__ = ["HierarchicalModel"]


class HierarchicalModel(Model):
    """One rank under HDCA."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        layout, options = setting.layout, setting.options
        members = layout.local.size
        self._node, self._members, self._pe = layout.node, members, layout.local.rank
        self._outer_learns, self._inner_learns = learns(setting.outer), learns(setting.inner)
        self.learns = self._outer_learns or self._inner_learns
        self.piece = (options.break_after or 0) if layout.comm.rank == 0 else 0
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
        self._inner.check_nothing(*chunk[1:], self._pe)
        self._note_end()
        return None

    def _take_in_steps(self, done: Done) -> Chunk:
        """Learn, refill the node's queue if it is empty, and claim a sub-chunk; this rank holds the queue."""
        try:
            self._update_techniques(done)
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

    def _update_techniques(self, done: Done) -> None:
        if self._inner_learns:
            self._inner.update(self._pe, done)
        if self._outer_learns:
            self._measured.gather(self._node, done, 1.0 / self._members)

    def _refill(self) -> Chunk | None:
        """Claim a chunk for the node if its queue is empty; note it if none is left."""
        state, numbers = self._state, self._state.numbers
        refills = int(numbers[state.refills])
        if refills == LAST or numbers[state.position] != numbers[state.end]:
            return None
        publish = self._publish if self._outer_learns else None
        chunk = self._queue.claim(NOTHING, publish, refills > 0)
        if chunk is None:
            numbers[state.refills] = LAST
        return chunk

    def _publish(self, known: RecursiveRule) -> None:
        known.publish_node(self._own, self._node)

    def serve(self) -> None:
        """Progress MPI, so that it serves RMA of other ranks where the network does not."""
        self.setting.layout.comm.Iprobe()

    def free(self) -> None:
        """Return the windows to the context."""
        self._queue.free()
        self.setting.context.put_back(self._shared)
