"""One rank's part in a real loop: the base of the execution models, its times, requests and RCA reports."""

import re
import time
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from mlsim._runtime.arrays import Floats, Ints, Mask
from mlsim.application.techniques import Choice, scaled
from mlsim.execution_models.technique_state import NOTHING, Done
from mlsim.mpi.chunk_rules import Chunk
from mlsim.mpi.loop_context import Clock, Context, Layout, node_name
from mlsim.mpi.loop_options import LoopOptions
from mlsim.mpi.loop_selection import Watch
from mlsim.mpi.rank_waiting import Patience
from mlsim.mpi.rca import rank_reports
from mlsim.scenario.words import GlobalP
from mlsim.techniques.technique_rules import CYCLIC

COLUMNS = ("chunks", "executed", "busy", "overhead", "begin", "finish", "told")


class RankTimes:
    """Times of one rank (s); rows of its chunks if it ``keeps_rows``."""

    def __init__(self, begin: float, record: bool) -> None:
        self.chunks = self.executed = 0
        self.busy = 0.0  # executing chunks
        # From requests to starts of chunks, or to the notice that none is left, and serving others.
        self.overhead = 0.0
        # Readings of the clock: first request, end of the last chunk, notice that no chunk is left.
        self.begin = self.finish = self.told = begin
        self.keeps_rows = record
        self._numbers, self._times = array("q"), array("d")

    def add(
        self, chunk: tuple[int, int, int], requested: float, start: float, end: float, busy: float
    ) -> None:
        """Record an executed chunk, of which ``busy`` seconds were not spent at breaks."""
        self.add_up(1, chunk[1], busy, end)
        if self.keeps_rows:
            self.keep(chunk, requested, start, end)

    def add_up(self, chunks: int, executed: int, busy: float, finish: float) -> None:
        """Record a number of executed chunks, the last of which ended at ``finish``."""
        self.chunks += chunks
        self.executed += executed
        self.busy += busy
        self.finish = max(self.finish, finish)

    def close(self, rest: float) -> None:
        """Sum up the overhead: what was not work until the last chunk ended, and ``rest`` after it."""
        self.overhead = self.finish - self.begin - self.busy + rest

    def keep(self, chunk: tuple[int, int, int], requested: float, start: float, end: float) -> None:
        """Keep the row of a chunk."""
        self._numbers.extend(chunk)
        self._times.extend((requested, start, end))

    def totals(self) -> Floats:
        """Return the rank's totals, one for each of ``COLUMNS``."""
        return np.array([getattr(self, name) for name in COLUMNS], np.float64)

    def rows(self) -> tuple[Ints, Floats]:
        """Return first, size, step and requested, start, end of all chunks: int64[n, 3] and float64[n, 3]."""
        numbers, times = (np.array(column).reshape(-1, 3) for column in (self._numbers, self._times))
        return numbers, times


class Moments:
    """Times by a rank's own clock (s), each with a number."""

    def __init__(self) -> None:
        self._times, self._numbers = array("d"), array("q")

    def add(self, number: int, moment: float | None = None) -> None:
        """Record a moment, by default now."""
        self._times.append(time.perf_counter() if moment is None else moment)
        self._numbers.append(number)

    def columns(self) -> tuple[Floats, Ints]:
        """Return the times and the numbers."""
        return np.array(self._times), np.array(self._numbers, np.int64)


class RequestLog:
    """Requests that one rank sent, or that a master received and answered, and the pieces it began.

    Numbers are the ranks of requests and replies, and the iterations of pieces.
    """

    def __init__(self, request_bytes: int, reply_bytes: int) -> None:
        self.request_bytes, self.reply_bytes = request_bytes, reply_bytes
        self.sent, self.received, self.answered, self.begun = (Moments() for _ in range(4))


@dataclass(frozen=True)
class Setting:
    """Everything that a model is made from."""

    options: LoopOptions
    context: Context
    clock: Clock
    tag: int
    outer: Choice
    inner: Choice
    patience: Patience
    record: bool
    watch: Watch | None = None  # None: no technique is chosen amid the loop

    @property
    def layout(self) -> Layout:
        """Communicators and nodes."""
        return self.context.layout


class Model(ABC):
    """Chunk acquisition of one rank."""

    learns = False  # a technique of the model is adaptive: the scheduler sets ``done``
    piece = 0  # iterations after which the rank's own chunks have a break; 0: none
    paces = False  # only the first piece has that length, later ones take about ``BREAK_EVERY``
    counts_breaks = False  # the chunk times that its technique learns from include breaks
    only_serves = False  # the rank executes no chunks
    ahead = 0  # iterations before the end of its chunk at which the rank is to call ``ask``; 0: it need not
    answers = False  # the rank replies to requests of others
    serving = 0.0  # s spent on that
    request_log: RequestLog | None = None  # if the loop is recorded and its model is CCA
    done: Done = NOTHING  # measurements of the rank's last chunk
    told = float("nan")  # when the rank was notified that no chunk is left, by its own clock; NaN before

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self._delay = setting.options.injected_delay
        self._cycle: Iterator[Chunk] = iter(())  # further chunks of the rank under CYCLIC

    @abstractmethod
    def claim(self) -> Chunk | None:
        """Claim a chunk; None if none is left and this rank need serve no others."""

    def serve(self) -> object:  # noqa: B027 - most ranks serve no others
        """Serve requests of others at a break, without waiting."""

    def ask(self) -> None:  # noqa: B027 - most ranks ask when they claim
        """Ask for the chunk that will be claimed next."""

    def leave(self) -> Chunk | None:
        """Leave the loop early, though iterations may remain; return a chunk that was asked for ahead."""
        return None

    def free(self) -> None:  # noqa: B027 - some have no window
        """Return the windows to the context; all ranks must call this."""

    def _in_cycle(self, choice: Choice, p: int, claim: Callable[[], Chunk | None]) -> Chunk | None:
        """Return the rank's next chunk under CYCLIC, every P-th, or the chunk that ``claim`` obtains."""
        if choice.code != CYCLIC:
            return claim()
        self.serve()
        chunk = next(self._cycle, None)
        if chunk is None and (chunk := claim()) is not None:
            (first, size, step), n = chunk, self.setting.options.n
            begins = range(first + p * size, n, p * size)
            self._cycle = ((k, min(size, n - k), step + p * i) for i, k in enumerate(begins, 1))
        return chunk

    def _note_end(self) -> None:
        """Record the time at which this rank is notified that no chunk is left."""
        self.told = time.perf_counter()


def two_level_weights(setting: Setting, works: Mask) -> tuple[Floats, list[Floats]]:
    """Return the weights of the nodes and, per node, the weights of its ranks scaled to their number.

    There are as many as the technique between nodes uses for P: ranks beyond the nodes have weight 1. Ranks
    that execute nothing (``works``, bool[P], is False) have weight 0.
    """
    nodes = setting.layout.nodes
    outer = np.zeros(len(setting.layout.leaders))
    np.add.at(outer, nodes, np.where(works, setting.outer.weights, 0.0))
    inner = [scaled(setting.inner.weights[(nodes == v) & works]) for v in range(len(outer))]
    others = len(nodes) - len(outer) if setting.options.global_p == GlobalP.PES else 0
    return np.concatenate([scaled(outer), np.ones(others)]), inner


_ENDED, _LEAVES = 0, 1


class Reporter:
    """One rank's part in reporting idle nodes: the last rank of a node that ends sends ``NodeIdle``.

    No rank waits for this: the ranks of a node count, by an atomic in memory that they share, how many have
    ended, and nodes do, by one at rank 0. ``active``: there is an agent; ``last``: no loop follows on these
    ranks; ``yields``: the loop could continue on fewer nodes, so that the batch level may request some.
    """

    def __init__(self, context: Context, loop: str, active: bool, last: bool, yields: bool) -> None:
        layout = self._layout = context.layout
        self._context = context
        self._loop = re.sub(r"[^\w.:/-]", "_", loop, flags=re.ASCII).lstrip("-") or "loop"
        self._window = context.shared_window(1) if active else None
        self._nodes = context.window(_LEAVES + len(layout.leaders)) if active else None
        self._last = last
        self._ended = False
        names: list[str] = layout.comm.allgather(node_name()) if active and last else []
        self._answering = rank_reports.Answering(names, yields) if names and layout.comm.rank == 0 else None
        self._asked, self._node = active and last, node_name()

    def claiming(self, model: Model, n: int) -> Callable[[], Chunk | None]:
        """Return this rank's function to claim chunks, which first reads requests for nodes, if any."""
        if not self._asked:
            return model.claim

        def claim() -> Chunk | None:
            if self._leaves():
                model.told = time.perf_counter()
                return None
            chunk = model.claim()
            if chunk is not None and self._answering is not None:
                self._answering.left = 1.0 - (chunk[0] + chunk[1]) / n
            return chunk

        return claim

    def _leaves(self) -> bool:
        """Whether this rank's node was promised to others; rank 0 answers requests instead."""
        assert self._nodes is not None, "there is an agent, which may ask"
        if self._answering is None:
            return self._nodes.fetch(_LEAVES + self._layout.node) != 0
        for node in self._answering.promised(self._layout.counts):
            self._nodes.fetch_replace(_LEAVES + node, 1)
        return False

    def release(self) -> None:
        """Report that no loop follows on these ranks."""
        self._last = True
        if self._ended:
            self._count()

    def rank_ended(self) -> None:
        """Count this rank as notified that no chunk is left."""
        self._ended = True
        if self._answering is not None:
            self._answering.end()
        if self._last:
            self._count()

    def _count(self) -> None:
        if self._window is None or self._nodes is None:
            return
        layout = self._layout
        if self._window.fetch_add(0, 1) + 1 < layout.local.size:
            return
        if self._nodes.fetch_add(_ENDED, 1) + 1 < len(layout.leaders):
            whole = self._context.ranks_per_node is None or layout.local.size == layout.machine.size
            node = self._node if whole else f"{self._node}/{layout.node}"
            rank_reports.send_idle(node, layout.node, layout.local.size, self._loop)

    def loop_closed(self) -> None:
        """Report the end of the last loop, on rank 0 and after all ranks have ended it."""
        if self._window is not None and self._last and self._layout.comm.rank == 0:
            rank_reports.send_completed()

    def free(self) -> None:
        """Return the windows to the context."""
        for window in (self._window, self._nodes):
            if window is not None:
                self._context.put_back(window)
        if self._answering is not None:
            self._answering.close()
