"""Times and requests of ranks, and the report of a real loop from those of all ranks."""

import time
from array import array
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mlsim._runtime.arrays import Floats, Ints
from mlsim.application.selection.selector import percent_imbalance
from mlsim.mpi.loop_context import Clock, Context, allgather
from mlsim.mpi.loop_options import LoopOptions
from mlsim.mpi.rank_waiting import Patience
from mlsim.record.record_tables import RankRequests

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

    def rows(self) -> tuple[NDArray[np.int64], Floats]:
        """Return first, size, step and requested, start, end of all chunks: int64[n, 3] and float64[n, 3]."""
        numbers, times = (np.array(column).reshape(-1, 3) for column in (self._numbers, self._times))
        return numbers, times


class RequestLog:
    """Requests that one rank sent, or a master's answers and pieces, by the rank's own clock (s)."""

    def __init__(self, request_bytes: int, reply_bytes: int) -> None:
        self.request_bytes, self.reply_bytes = request_bytes, reply_bytes
        self._sent = array("d")
        self._received, self._answered, self._begun = (_Moments() for _ in range(3))

    def sent(self) -> None:
        """Record that a request has been sent."""
        self._sent.append(time.perf_counter())

    def received(self, rank: int) -> None:
        """Record that the master has received a request."""
        self._received.add(time.perf_counter(), rank)

    def answered(self, rank: int) -> None:
        """Record that a reply has been sent."""
        self._answered.add(time.perf_counter(), rank)

    def begins(self, moment: float, size: int) -> None:
        """Record that the master begins a piece of its own chunk."""
        self._begun.add(moment, size)

    def moments(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return the times at which requests were sent and received, replies sent, and pieces begun."""
        columns = (self._sent, *(each.times for each in (self._received, self._answered, self._begun)))
        sent, received, answered, begun = map(np.array, columns)
        return sent, received, answered, begun

    def numbers(self) -> tuple[Ints, Ints, Ints]:
        """Return the ranks of requests, the ranks of replies, and the iterations of pieces."""
        logs = (self._received, self._answered, self._begun)
        who, whom, sizes = (np.array(log.numbers, np.int64) for log in logs)
        return who, whom, sizes


class _Moments:
    """Times, each with a number."""

    def __init__(self) -> None:
        self.times, self.numbers = array("d"), array("q")

    def add(self, moment: float, number: int) -> None:
        """Append one."""
        self.times.append(moment)
        self.numbers.append(number)


@dataclass(frozen=True)
class Requests(RankRequests):
    """Requests to the master of a loop under CCA; s by rank 0's clock from the loop's first request."""

    # Begun by the master between sent and answered: at most break_after, unless MPI gave it the request late.
    # From having it on it begins none.
    master_iterations: Ints


def iterations_begun(sent: Floats, answered: Floats, begun: Floats, sizes: Ints) -> Ints:
    """Sum the iterations of the pieces that the master began between each request and its answer."""
    total = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    before = total[np.searchsorted(begun, sent, "right")]
    result: Ints = total[np.searchsorted(begun, answered, "left")] - before
    return np.maximum(result, 0)


@dataclass(frozen=True)
class LoopTotals:
    """The whole loop, in the terms of the simulator; known to rank 0."""

    technique: str
    """Technique that was run."""
    model: str
    """Execution model that was run."""
    n: int
    """Iterations."""
    steps: int
    """Chunks executed."""
    executed: int
    """Iterations executed: n, unless ranks left the loop early."""
    t_loop: float
    """Parallel loop time in s: from the first request to the end of the last chunk."""
    cov: float
    """Coefficient of variation of the ranks' finish times (Eleliemy 2021, Eq. 2.15); 0 if all are 0."""
    imbalance: float
    """(1 − mean / max)·100 of them, in percent (Eq. 2.16)."""
    chunks: Ints
    """int64[P]: chunks of each rank."""
    busy: Floats
    """float64[P], in s, as the following: as in :class:`LoopReport`, of each rank."""
    overhead: Floats
    finish: Floats
    told: Floats


@dataclass(frozen=True)
class LoopReport:
    """Execution of a loop on one rank; times in s.

    Attributes
    ----------
    rank, ranks
        This rank, and how many there are.
    chunks, executed
        Chunks and iterations that it executed.
    busy
        Time executing chunks.
    overhead
        Time between asking for a chunk and starting it, or the notice that there is none; a master's time
        serving others amid its own chunk, or as its only work.
    finish
        When it ended its last chunk, counted from the loop's first request on any rank; 0 if it had none.
    told
        When it learned that there is no more work.
    loop
        The whole loop; None but on rank 0.
    """

    rank: int
    ranks: int
    chunks: int
    executed: int
    busy: float
    overhead: float
    finish: float
    told: float
    loop: LoopTotals | None

    def __str__(self) -> str:
        if self.loop is None:
            return (
                f"rank {self.rank} of {self.ranks}: {self.chunks} chunks, {self.executed} iterations, busy "
                f"{self.busy:.6g} s, overhead {self.overhead:.3g} s, finish {self.finish:.6g} s"
            )
        loop = self.loop
        return (
            f"{loop.technique} {loop.model}, {loop.n} iterations on {self.ranks} ranks: "
            f"T_loop {loop.t_loop:.6g} s, {loop.steps} chunks, c.o.v. {loop.cov:.3g}, imbalance "
            f"{loop.imbalance:.2f} %"
        )


@dataclass(frozen=True)
class Gathered:
    """Report of this rank, and facts of all ranks."""

    report: LoopReport
    origin: float  # rank 0's reading of its clock at the loop's first request
    executed: Floats  # iterations of every rank
    busy: Floats  # s, of every rank


def gather(
    context: Context, patience: Patience, clock: Clock, rank_times: RankTimes, options: LoopOptions
) -> Gathered:
    """Make every rank's report, with times from the loop's first request; all ranks must call this."""
    comm = context.layout.comm
    mine = rank_times.totals()
    times = slice(COLUMNS.index("begin"), None)
    mine[times] = clock.aligned(mine[times])
    everyone = allgather(comm, patience, mine)
    origin = float(everyone[:, COLUMNS.index("begin")].min())
    everyone[:, times] -= origin
    columns = dict(zip(COLUMNS, everyone.T, strict=True))
    columns["finish"] = np.where(columns["chunks"] > 0, columns["finish"], 0.0)
    own = {name: column[comm.rank].item() for name, column in columns.items() if name != "begin"}
    own |= {name: int(own[name]) for name in ("chunks", "executed")}
    totals = _totals(columns, options) if comm.rank == 0 else None
    report = LoopReport(rank=comm.rank, ranks=comm.size, **own, loop=totals)
    return Gathered(report, origin, columns["executed"], columns["busy"])


def _totals(columns: dict[str, Floats], options: LoopOptions) -> LoopTotals:
    finish = columns["finish"]
    mean = float(finish.mean())
    return LoopTotals(
        technique=options.technique,
        model=options.model,
        n=options.n,
        steps=int(columns["chunks"].sum()),
        executed=int(columns["executed"].sum()),
        t_loop=float(finish.max()),
        cov=float(finish.std()) / mean if mean else 0.0,
        imbalance=percent_imbalance(finish),
        chunks=columns["chunks"].astype(np.int64),
        **{name: columns[name] for name in ("busy", "overhead", "finish", "told")},
    )
