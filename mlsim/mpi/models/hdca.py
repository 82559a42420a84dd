"""HDCA, hierarchical distributed chunk calculation, MPI+MPI (Eleliemy 2021, ch. 5).

Every node has a queue in memory that its ranks share. A rank takes a sub-chunk from it by the inside
technique, under the queue's lock. The rank that finds the queue empty keeps the lock, takes a chunk for the
node from the window at rank 0 as under DCA, with the nodes as PEs, and refills the queue.
"""

from __future__ import annotations

import numpy as np

from mlsim.mpi.loop.chunk_rules import NOTHING, RecursiveRule, RuleState, delay, learns
from mlsim.mpi.models.model import Chunk, Model, Setting, two_level_weights
from mlsim.mpi.models.queues import loop_queue
from mlsim.mpi.transport.window import TicketLock, make_lock

__all__ = ["HierarchicalModel"]

_EXHAUSTED = TicketLock.WORDS
_QUEUE = TicketLock.WORDS + 1


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
        # In the node's memory: lock, flag, queue with the inside technique, measurements for the outer one.
        inside = RuleState.words(setting.inner, members)
        counted = len(between)  # nodes or, with global_p: pes, ranks
        own = RuleState.words(setting.outer, counted)
        self._shared = setting.context.shared_window(_QUEUE + inside + own)
        memory = self._shared.memory
        self._lock = make_lock(options.lock, self._shared, 0, setting.patience)
        self._flags = memory[:_QUEUE]
        self._state = RuleState(memory[_QUEUE : _QUEUE + inside], setting.inner, members)
        self._inner = RecursiveRule(setting.inner, self._state, options.n, layout.comm.size)
        self._own = RuleState(memory[_QUEUE + inside : _QUEUE + inside + own], setting.outer, counted)
        self._measured = RecursiveRule(setting.outer, self._own, options.n, counted)
        if self._pe == 0:
            self._inner.begin(0, members, within[layout.node])
            self._own.weights[:] = between
            self._shared.sync()
        self._queue = loop_queue(setting, setting.outer, counted, layout.node, between)

    def claim(self) -> Chunk | None:
        """Claim a sub-chunk of the node's queue, refilled if it is empty."""
        state, numbers = self._state, self._state.numbers
        self._lock.acquire()
        self._shared.sync()
        try:
            self._update_techniques()
            if numbers[state.position] == numbers[state.end] and not self._refill():
                self._note_end()
                return None
            first, end, step = (int(numbers[k]) for k in (state.position, state.end, state.step))
            size = self._inner.size(step, end - first, self._pe)
            if self._delay:
                delay(self._delay)
            numbers[state.position], numbers[state.step] = first + size, step + 1
        finally:
            self._shared.sync()
            self._lock.release()
        return first, size, step

    def _update_techniques(self) -> None:
        if self._inner_learns:
            self._inner.update(self._pe, self.done)
        if self._outer_learns:
            self._measured.gather(self._node, self.done, 1.0 / self._members)

    def _refill(self) -> bool:
        """Refill the node's queue with a chunk; return whether there was one."""
        if self._flags[_EXHAUSTED]:
            return False
        state, numbers = self._state, self._state.numbers
        publish = self._publish if self._outer_learns else None
        chunk = self._queue.claim(NOTHING, publish, bool(numbers[state.refills]))
        if chunk is None:
            self._flags[_EXHAUSTED] = 1
            return False
        first, size, _ = chunk
        numbers[state.refills] += 1
        numbers[state.position], numbers[state.end], numbers[state.step] = first, first + size, 0
        self._inner.refill(size, self._members, self._node, int(numbers[state.refills]))
        return True

    def _publish(self, known: RecursiveRule) -> None:
        known.publish_node(self._own, self._node)

    def serve(self) -> None:
        """Progress MPI, so that it serves RMA of other ranks where the network does not."""
        self.setting.layout.comm.Iprobe()

    def free(self) -> None:
        """Return the windows to the context."""
        self._queue.free()
        self.setting.context.put_back(self._shared)
