"""Masters and workers with two-sided messages: CCA and hierarchical master-worker.

A request carries measurements of the worker's last chunk (``DONE`` numbers) or those of a node, a reply
first iteration, size and step of a chunk; size 0 is "no more". A rank that leaves its loop early sends a
request that begins with -1, which has no reply: in a message of the same tag, so that a single probe, and
MPICH takes in a single message at a probe, finds whatever came first.
"""

import time
from abc import abstractmethod
from collections.abc import Iterable

import numpy as np
from mpi4py import MPI

from mlsim._runtime.arrays import Floats
from mlsim.application.techniques import Choice
from mlsim.mpi.chunk_rules import DONE, Chunk, RecursiveRule, RuleState, delay
from mlsim.mpi.real_model import Model, RequestLog, Setting, two_level_weights
from mlsim.techniques.technique_rules import CYCLIC, STATIC_CODES, counts_breaks, is_adaptive

_REQUEST, _REPLY = 1, 2
_LEAVES = -1.0
_PROBES = 2
_REPLY_NUMBERS = 3
_NUMBER_BYTES = 8


class Desk:
    """Requests and replies of a master, rank 0 of ``comm``, to ``ranks`` and to itself.

    ``tag`` is added to the tags, so that two desks on one communicator do not meet. ``order`` is ``fifo`` or
    ``lowest-rank``; a request has ``words`` numbers; ``request_log`` is None if requests are not recorded.
    """

    def __init__(
        self,
        comm: MPI.Intracomm,
        tag: int,
        order: str,
        words: int,
        ranks: Iterable[int],
        request_log: RequestLog | None = None,
    ) -> None:
        self._comm, self._tag, self._lowest = comm, tag, order == "lowest-rank"
        self._words, self._request_log = words, request_log
        self._status = MPI.Status()
        self._reply = np.zeros(_REPLY_NUMBERS, np.int64)
        self.waiting: list[tuple[int, Floats]] = []
        self.to_notify = set(ranks)  # ranks that have not left and do not know yet that no chunk is left
        self.answer: Chunk | None = None  # to the master's own last request, once it ``has_answer``
        self.has_answer = False

    def ask(self, numbers: Floats) -> None:
        """Queue the master's own request."""
        self.has_answer = False
        self.waiting.append((0, numbers))

    def look(self) -> bool:
        """Receive the requests that have arrived; return whether any waits.

        It takes two probes in a row without a message: Open MPI over UCX searches the messages that it has,
        and only then receives those that have arrived.
        """
        status, comm, tag, in_vain = self._status, self._comm, self._tag + _REQUEST, 0
        while in_vain < _PROBES:
            if not comm.Iprobe(MPI.ANY_SOURCE, tag, status):
                in_vain += 1
                continue
            in_vain = 0
            numbers, source = np.empty(self._words), status.Get_source()
            comm.Recv(numbers, source, tag)
            if numbers[0] == _LEAVES:
                self.to_notify.discard(source)
                continue
            self.waiting.append((source, numbers))
            if self._request_log is not None:
                self._request_log.received.add(source)
        return bool(self.waiting)

    def next(self) -> tuple[int, Floats]:
        """Remove the request that is served next and return its rank and numbers."""
        place = 0
        if self._lowest:
            place = min(range(len(self.waiting)), key=lambda row: self.waiting[row][0])
        return self.waiting.pop(place)

    def reply(self, rank: int, chunk: Chunk | None) -> None:
        """Send a chunk, or the notice that none is left; keep the answer to the master's own request."""
        if rank == 0:
            self.answer, self.has_answer = chunk, True
            return
        self._reply[:] = chunk or 0
        self._comm.Send(self._reply, rank, self._tag + _REPLY)
        if self._request_log is not None:
            self._request_log.answered.add(rank)
        if chunk is None:
            self.to_notify.discard(rank)


class Worker:
    """Requests chunks from the desk of a master."""

    def __init__(self, comm: MPI.Intracomm, master: int, tag: int) -> None:
        self._comm, self._master, self._tag = comm, master, tag
        self._got = np.zeros(_REPLY_NUMBERS, np.int64)
        self._pending: MPI.Request | None = None

    def ask(self, numbers: Floats) -> None:
        """Post the receive of the reply and send a request."""
        self._pending = self._comm.Irecv(self._got, self._master, self._tag + _REPLY)
        self._comm.Send(numbers, self._master, self._tag + _REQUEST)

    @property
    def asks(self) -> bool:
        """Whether a request is without its reply."""
        return self._pending is not None

    def has_reply(self) -> bool:
        """Return whether the reply has arrived."""
        return self._pending is not None and bool(self._pending.Test())

    def reply(self) -> Chunk | None:
        """Return the chunk of the reply; None if no chunk is left."""
        self._pending = None
        first, size, step = self._got.tolist()
        return (first, size, step) if size else None

    def leave(self, words: int) -> None:
        """Notify the master that this rank sends no more requests."""
        self._comm.Send(np.full(words, _LEAVES), self._master, self._tag + _REQUEST)


class MasterQueue:
    """The loop's iterations at a master, which sizes chunks from the remaining ones, for ``p`` PEs or nodes.

    First sizes of LB4MPI, which sends first chunks unasked, are kept for the PEs in their order.
    """

    def __init__(self, setting: Setting, p: int, weights: Floats) -> None:
        self._n, self._p = setting.options.n, p
        self._delay = setting.options.injected_delay
        self.position = self._earlier = self._step = 0
        self._set_to_work(setting.outer, weights)
        self._keeps_first = setting.outer.of_lb4mpi and self._share < 0
        self._firsts: list[Chunk | None] = []

    def _set_to_work(self, choice: Choice, weights: Floats) -> None:
        """Begin a technique with what is left."""
        left, p = self._n - self.position, self._p
        self.state = RuleState(np.zeros(RuleState.words(choice, p), np.int64), choice, p)
        self.rule = RecursiveRule(choice, self.state, left, p)
        self.rule.begin(left, p, weights)
        self._begun, self._share = self.position, -1
        if choice.code in STATIC_CODES:
            self._share = self.rule.size(0, left, 0) if left else 0
        self._had_one: set[int] = set()

    def switch(self, choice: Choice, weights: Floats) -> None:
        """Size the remaining iterations by another technique, as a loop of its own; step numbers continue."""
        self._earlier, self._step = self._earlier + self._step, 0
        self._set_to_work(choice, weights)

    @property
    def can_choose(self) -> bool:
        """Whether there is something left for another technique: static ones have assigned all."""
        return self._share < 0 and self.position < self._n

    def assign(self, pe: int) -> Chunk | None:
        """Size and assign a chunk; None if nothing is left."""
        if self._keeps_first:
            if not self._firsts:
                self._firsts = [self._next(each) for each in range(self._p)]
            if pe not in self._had_one:
                self._had_one.add(pe)
                return self._firsts[pe]
        return self._next(pe)

    def _next(self, pe: int) -> Chunk | None:
        first, step = self.position, self._step
        if self._share >= 0:
            first, step = (self._n if pe in self._had_one else self._begun + pe * self._share), pe
            self._had_one.add(pe)
        if first >= self._n:
            return None
        size = min(self._share, self._n - first)
        if self._share < 0:
            size = self.rule.size(step, self._n - first, pe)
        if self._delay:
            delay(self._delay)
        self.position, self._step = first + size, self._step + 1
        return first, size, self._earlier + step


class MasterModel(Model):
    """One rank under a model with masters: a worker, or a master that may execute chunks as well."""

    _worker: Worker | None = None
    _desk: Desk  # of a master

    @abstractmethod
    def serve(self) -> bool:
        """Serve all requests that have arrived; True."""

    @property
    def _all_notified(self) -> bool:
        """Whether all ranks that this master serves know that no chunk is left."""
        return not self._desk.to_notify

    def claim(self) -> Chunk | None:
        """Request a chunk and wait; a master serves meanwhile, and after its own work to the end."""
        until = self.setting.patience.until
        if self._worker is not None:
            if not self._worker.asks:
                self.ask()
            until(self._worker.has_reply)
            chunk = self._worker.reply()
            if chunk is None:
                self._note_end()
            return chunk
        if not self.only_serves and not np.isfinite(self.told):
            self._desk.ask(np.array(self.done))
            until(lambda: self.serve() and self._desk.has_answer)
            if self._desk.answer is not None:
                return self._desk.answer
            self._note_end()
        until(lambda: self.serve() and self._all_notified)
        if not np.isfinite(self.told):
            self._note_end()
        return None

    def ask(self) -> None:
        """Ask the master for a chunk, as a worker, with what the last executed one took."""
        assert self._worker is not None, "a master's own request needs no message"
        self._worker.ask(np.array(self.done))
        if self.request_log is not None:
            self.request_log.sent.add(0)

    def leave(self) -> Chunk | None:
        """Notify the master; a master serves until all others are notified."""
        until, chunk = self.setting.patience.until, None
        if self._worker is None:
            self._note_end()
            until(lambda: self.serve() and self._all_notified)
            return None
        is_told = False
        if self._worker.asks:
            until(self._worker.has_reply)
            chunk = self._worker.reply()
            is_told = chunk is None
        if not is_told:
            self._worker.leave(DONE)
        self._note_end()
        return chunk


class CentralizedModel(MasterModel):
    """One rank under CCA: the master, rank 0, or a worker."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        comm, options = setting.layout.comm, setting.options
        self._choice, self._watch = setting.outer, setting.watch
        # A master that chooses needs reports of all chunks.
        self.learns = is_adaptive(setting.outer.code) or setting.watch is not None
        self.counts_breaks = counts_breaks(setting.outer.code)
        dedicated = options.dedicated and comm.size > 1
        self.only_serves = comm.rank == 0 and dedicated
        self._base = 1 if dedicated else 0
        if setting.record:
            self.request_log = RequestLog(DONE * _NUMBER_BYTES, _REPLY_NUMBERS * _NUMBER_BYTES)
        if comm.rank > 0:
            self._worker = Worker(comm, 0, setting.tag)
            self.ahead = 0 if setting.outer.code == CYCLIC else options.request_ahead
            return
        self.answers = True
        ranks = range(1, comm.size)
        self._desk = Desk(comm, setting.tag, options.service_order, DONE, ranks, self.request_log)
        self._queue = MasterQueue(setting, comm.size - self._base, setting.outer.weights[self._base :])
        if not dedicated and comm.size > 1:
            self.piece, self.paces = options.break_after or 1, options.break_after is None

    def claim(self) -> Chunk | None:
        """Request a chunk, or take the next of the rank's own under CYCLIC."""
        workers = self.setting.layout.comm.size - self._base
        return self._in_cycle(self.setting.outer, workers, super().claim)

    def serve(self) -> bool:
        """Serve all requests that have arrived."""
        if self._worker is None and self._desk.look():
            begin = time.perf_counter()
            while self._desk.look():
                self._serve_one(*self._desk.next())
            self.serving += time.perf_counter() - begin
        return True

    def _serve_one(self, rank: int, done: Floats) -> None:
        pe = rank - self._base
        if is_adaptive(self._choice.code):
            self._queue.rule.update(pe, done)
        watch, queue = self._watch, self._queue
        if watch is not None and watch.ended(rank, done) and queue.can_choose:
            choice = watch.choose(queue.position)
            if choice.name != self._choice.name:
                self._choice, self.counts_breaks = choice, counts_breaks(choice.code)
                queue.switch(choice, choice.weights[self._base :])
        chunk = queue.assign(pe)
        if watch is not None and chunk is not None:
            watch.assigned(rank, *chunk[:2])
        self._desk.reply(rank, chunk)


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
