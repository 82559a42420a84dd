"""Report of a real loop, from all ranks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mlsim._runtime.arrays import Floats, Ints
from mlsim.mpi.loop_context import COLUMNS, Context, RankTimes, allgather
from mlsim.mpi.loop_options import LoopOptions
from mlsim.mpi.rank_layout import Clock
from mlsim.mpi.rank_waiting import Patience


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
    """float64[P], in s: as in :class:`LoopReport`, of each rank."""
    overhead: Floats
    """float64[P], in s: likewise."""
    finish: Floats
    """float64[P], in s: likewise."""
    told: Floats
    """float64[P], in s: likewise."""


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
    """Report of this rank, and facts of all ranks.

    ``origin`` is rank 0's reading of its clock at the loop's first request; ``executed`` and ``busy``,
    float64[P], are iterations and seconds of every rank.
    """

    report: LoopReport
    origin: float
    executed: Floats
    busy: Floats


def gather(
    context: Context, patience: Patience, clock: Clock, rank_times: RankTimes, options: LoopOptions
) -> Gathered:
    """Make every rank's report; all ranks must call this.

    The times of all ranks are aligned, and counted from the loop's first request.
    """
    comm = context.layout.comm
    mine = rank_times.totals()
    times = slice(COLUMNS.index("begin"), None)
    mine[times] = clock.aligned(mine[times])
    everyone = allgather(comm, patience, mine)
    origin = float(everyone[:, COLUMNS.index("begin")].min())
    everyone[:, times] -= origin
    columns = dict(zip(COLUMNS, everyone.T, strict=True))
    columns["finish"] = np.where(columns["chunks"] > 0, columns["finish"], 0.0)
    own = {name: column[comm.rank] for name, column in columns.items()}
    report = LoopReport(
        rank=comm.rank,
        ranks=comm.size,
        chunks=int(own["chunks"]),
        executed=int(own["executed"]),
        busy=float(own["busy"]),
        overhead=float(own["overhead"]),
        finish=float(own["finish"]),
        told=float(own["told"]),
        loop=_totals(columns, options) if comm.rank == 0 else None,
    )
    return Gathered(report, origin, columns["executed"], columns["busy"])


def _totals(columns: dict[str, Floats], options: LoopOptions) -> LoopTotals:
    finish = columns["finish"]
    longest, mean = float(finish.max()), float(finish.mean())
    return LoopTotals(
        technique=options.technique,
        model=options.model,
        n=options.n,
        steps=int(columns["chunks"].sum()),
        executed=int(columns["executed"].sum()),
        t_loop=longest,
        cov=float(finish.std()) / mean if mean else 0.0,
        imbalance=(1.0 - mean / longest) * 100.0 if longest else 0.0,
        chunks=columns["chunks"].astype(np.int64),
        busy=columns["busy"],
        overhead=columns["overhead"],
        finish=finish,
        told=columns["told"],
    )
