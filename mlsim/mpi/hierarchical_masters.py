"""Hierarchical master-worker for real."""

import time

import numpy as np

from mlsim._runtime.arrays import Floats
from mlsim.mpi.chunk_rules import DONE, Chunk, RecursiveRule, RuleState, delay
from mlsim.mpi.masters import Desk, MasterModel, MasterQueue, Worker
from mlsim.mpi.real_model import Model, Setting, two_level_weights
from mlsim.techniques.technique_rules import is_adaptive

_GLOBAL_TAG = 10


class HierarchicalMasterModel(MasterModel):
    """One rank under hierarchical master-worker: a worker, or a master and perhaps a worker as well."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        layout, options = setting.layout, setting.options
        self.learns = is_adaptive(setting.outer.code) or is_adaptive(setting.inner.code)
        counts = layout.counts
        works = np.ones(layout.comm.size, np.bool_)
        if options.dedicated:
            works[layout.leaders[counts > 1]] = False
        self.only_serves = not works[layout.comm.rank]
        between, within = two_level_weights(setting, works)
        self._local: _LocalMaster | None = None
        if layout.local.rank > 0:
            self._worker = Worker(layout.local, 0, setting.tag)
            return
        self.answers = True
        self._top = _GlobalMaster(setting, between) if layout.comm.rank == 0 else None
        self._local = _LocalMaster(self, within[layout.node], between, self._top)
        self._desk = self._local.desk
        if not self.only_serves and layout.comm.size > 1:
            self.piece, self.paces = options.break_after or 1, options.break_after is None

    def serve(self) -> bool:
        """Serve all requests that can be served."""
        if self._local is not None:
            self.serving += self._local.serve()
        return True

    @property
    def _all_notified(self) -> bool:
        return super()._all_notified and (self._top is None or not self._top.desk.to_notify)

    def leave(self) -> Chunk | None:
        """Notify the master; masters serve until all others are notified."""
        chunk = super().leave()
        if self._local is not None:
            self._local.leave()
        return chunk


class _GlobalMaster:
    """Assigns chunks to nodes."""

    def __init__(self, setting: Setting, weights: Floats) -> None:
        layout, options = setting.layout, setting.options
        self._learns = is_adaptive(setting.outer.code)
        self._node_of = {int(rank): node for node, rank in enumerate(layout.leaders)}
        self._counted, self._choice = len(weights), setting.outer  # nodes or, with global_p: pes, ranks
        self._queue = MasterQueue(setting, self._counted, weights)
        words, ranks = RuleState.words(setting.outer, self._counted), layout.leaders[1:].tolist()
        self.desk = Desk(layout.comm, setting.tag + _GLOBAL_TAG, options.service_order, words, ranks)

    def serve(self) -> None:
        """Serve all requests of other nodes."""
        while self.desk.look():
            rank, numbers = self.desk.next()
            self.desk.reply(rank, self.assign(self._node_of[rank], numbers))

    def assign(self, node: int, numbers: Floats) -> Chunk | None:
        """Update the technique with a node's measurements, then assign the node a chunk."""
        if self._learns:
            own = RuleState(numbers.view(np.int64), self._choice, self._counted)
            self._queue.rule.publish_node(own, node)
        return self._queue.assign(node)


class _LocalMaster:
    """Assigns sub-chunks of a node's chunks to its ranks."""

    def __init__(self, model: Model, within: Floats, between: Floats, top: _GlobalMaster | None) -> None:
        setting = model.setting
        layout, options = setting.layout, setting.options
        self._top = top
        self._node, self._members, self._pes = layout.node, layout.local.size, len(within)
        self._delay = options.injected_delay
        self._outer_learns, self._inner_learns = map(is_adaptive, (setting.outer.code, setting.inner.code))
        block = np.zeros(RuleState.words(setting.inner, self._pes), np.int64)
        state = RuleState(block, setting.inner, self._pes)
        self._inner = RecursiveRule(setting.inner, state, options.n, layout.comm.size)
        self._inner.begin(0, self._pes, within)
        counted = len(between)
        self._numbers = np.zeros(RuleState.words(setting.outer, counted))
        self._own = RuleState(self._numbers.view(np.int64), setting.outer, counted)
        self._own.weights[:] = between
        self._measured = RecursiveRule(setting.outer, self._own, options.n, counted)
        ranks = range(1, self._members)
        self.desk = Desk(layout.local, setting.tag, options.service_order, DONE, ranks)
        self._upwards = Worker(layout.comm, 0, setting.tag + _GLOBAL_TAG)
        self._exhausted = False
        self._position = self._end = self._step = self._refills = 0
        self._served = 0

    def leave(self) -> None:
        """Notify the global master that all ranks of the node have left, though iterations may remain."""
        if self._top is None and not self._exhausted:
            self._upwards.leave(len(self._numbers))

    def serve(self) -> float:
        """Serve all requests that can be served now; return the seconds spent, 0 if there were none."""
        begin, served = time.perf_counter(), self._served
        if self._top is not None:
            self._top.serve()
        if self._upwards.asks and self._upwards.has_reply():
            self._refill(self._upwards.reply())
        while self.desk.look() and not self._upwards.asks:
            if self._position < self._end or self._exhausted:
                self._serve_one(*self.desk.next())
                continue
            for waiting in self.desk.waiting:
                self._update_techniques(*waiting)
            if self._top is not None:
                self._refill(self._top.assign(self._node, self._numbers))
            else:
                self._upwards.ask(self._numbers)
                self._measured.forget_gathered()
        return time.perf_counter() - begin if self._served > served else 0.0

    def _refill(self, chunk: Chunk | None) -> None:
        if chunk is None:
            self._exhausted = True
            return
        first, size, _ = chunk
        self._position, self._end, self._step = first, first + size, 0
        self._refills += 1
        self._inner.refill(size, self._pes, self._node, self._refills)

    def _update_techniques(self, rank: int, done: Floats) -> None:
        if self._inner_learns:
            self._inner.update(rank - self._members + self._pes, done)
        if self._outer_learns:
            self._measured.gather(self._node, done, 1.0 / self._pes)
        done[0] = 0.0  # once

    def _serve_one(self, rank: int, done: Floats) -> None:
        self._served += 1
        self._update_techniques(rank, done)
        chunk: Chunk | None = None
        if self._position < self._end:
            pe = rank - self._members + self._pes
            first, step = self._position, self._step
            size = self._inner.size(step, self._end - first, pe)
            if self._delay:
                delay(self._delay)
            self._position, self._step = first + size, step + 1
            chunk = first, size, step
        self.desk.reply(rank, chunk)
