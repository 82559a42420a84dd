"""A real loop as the records of a run with one job, like those of a simulated one.

PEs are numbered by node: PE 0 is rank 0, then come the other ranks of its node, then those of the node with
the next lowest rank. Times are seconds from the loop's first request, on rank 0's clock.
"""

from __future__ import annotations

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim.application.outcome import ChunkRows, LoopOutcome
from mlsim.application.recorder import LoopRecorder
from mlsim.mpi.loop.rank_times import RankTimes
from mlsim.mpi.loop.requests import RequestLog, Requests, iterations_begun
from mlsim.mpi.results.report import Gathered, LoopTotals
from mlsim.mpi.transport.clock import Clock
from mlsim.mpi.transport.layout import Layout, node_name
from mlsim.record import ChunkStore, Messages, Nodes, Occupancy, Records, empty
from mlsim.record.one_job import one_job

__all__ = ["gather_records", "gather_requests", "gather_rows", "ranks_of_pes"]


def gather_records(layout: Layout, clock: Clock, rank_times: RankTimes, gathered: Gathered) -> Records | None:
    """Gather the chunks of all ranks on rank 0; all ranks must call this.

    Returns
    -------
    Records or None
        The run, on rank 0; None on others.
    """
    comm = layout.comm
    names = comm.gather(node_name())
    rows = gather_rows(layout, clock, rank_times, gathered)
    if rows is None or names is None:
        return None
    totals = gathered.report.loop
    assert totals is not None, "rank 0 knows the whole loop"
    order = ranks_of_pes(layout)
    outcome = _outcome(totals, order, rows)
    store = ChunkStore()
    chunks = store.open()
    chunks.begin_step(0.0, 0, 0)
    chunks.take(rows.pe, rows.step, rows.first, rows.size, rows.requested, rows.start, rows.end)
    recorder = LoopRecorder(True, store)
    recorder.take(0, 0.0, outcome, chunks)
    end = float(outcome.notified_at.max())
    return Records(
        nodes=_nodes(layout, names),
        jobs=one_job(1, end, comm.size, comm.size),
        occupancy=_occupancy(layout.counts, end),
        loops=recorder.loops(),
        chunks=recorder.chunks(),
        pes=recorder.pes(),
        messages=empty(Messages),
    )


def gather_rows(layout: Layout, clock: Clock, rank_times: RankTimes, gathered: Gathered) -> ChunkRows | None:
    """Gather the chunks of all PEs on rank 0; None on others. All ranks must call this."""
    numbers, times = rank_times.rows()
    times = clock.aligned(times) - gathered.origin
    blocks = layout.comm.gather((np.array(numbers), times))
    if blocks is None:
        return None
    return _chunk_rows([blocks[rank] for rank in ranks_of_pes(layout)])


def gather_requests(
    layout: Layout, clock: Clock, log: RequestLog | None, gathered: Gathered
) -> Requests | None:
    """Gather the requests to the master of CCA on rank 0; all ranks must call this.

    The k-th answer to a rank is that to its k-th request: a rank has one request at a time.

    Returns
    -------
    Requests or None
        On rank 0, if anything was noted.
    """
    if log is None:
        return None
    comm = layout.comm
    sent, received, answered, begun = (clock.aligned(times) - gathered.origin for times in log.moments())
    everyone = comm.gather(sent)
    if everyone is None:
        return None
    who, whom, sizes = log.numbers()
    asked, had = np.zeros(len(whom)), np.zeros(len(whom))
    for rank, times in enumerate(everyone):
        asked[whom == rank] = times
        had[whom == rank] = received[who == rank]
    # A worker may lose its core between sending and noting it: what the master has, has been sent.
    asked = np.minimum(asked, had)
    pe_of = np.empty(comm.size, np.int64)
    pe_of[ranks_of_pes(layout)] = np.arange(comm.size)
    pieces = iterations_begun(asked, answered, begun, sizes)
    return Requests(pe_of[whom], asked, had, answered, pieces, log.request_bytes, log.reply_bytes)


def ranks_of_pes(layout: Layout) -> Ints:
    """Return the rank of each PE."""
    return np.lexsort((np.arange(layout.comm.size), layout.nodes)).astype(np.int64)


def _chunk_rows(blocks: list[tuple[Ints, Floats]]) -> ChunkRows:
    """Merge the PEs' chunks, in order of (start, PE)."""
    pe = np.repeat(np.arange(len(blocks), dtype=np.int32), [len(numbers) for numbers, _ in blocks])
    numbers = np.concatenate([numbers for numbers, _ in blocks])
    times = np.concatenate([times for _, times in blocks])
    order = np.lexsort((pe, times[:, 1]))
    first, size, step = numbers[order].T
    requested, start, end = times[order].T
    return ChunkRows(pe[order], step, first, size, requested, start, end)


def _outcome(totals: LoopTotals, order: Ints, rows: ChunkRows) -> LoopOutcome:
    """Return the outcome as the simulator does; time that is neither busy nor overhead is idle."""
    p = len(order)
    busy, overhead, told = totals.busy[order], totals.overhead[order], totals.told[order]
    return LoopOutcome(
        iterations=totals.n,
        steps=totals.steps,
        t_loop=totals.t_loop,
        finish=totals.finish[order],
        notified_at=told,
        busy=busy,
        overhead=overhead,
        idle=np.maximum(told - busy - overhead, 0.0),
        last_start=np.zeros(p),
        chunks=totals.chunks[order],
        last_first=np.zeros(p, np.int64),
        last_size=np.zeros(p, np.int64),
        rows=rows,
    )


def _nodes(layout: Layout, names: list[str]) -> Nodes:
    hosts = [names[rank] for rank in layout.leaders]
    numbered = [
        host if hosts.count(host) == 1 else f"{host}/{hosts[:row].count(host)}"
        for row, host in enumerate(hosts)
    ]
    return Nodes(numbered, ["mpi"] * len(hosts), layout.counts, np.ones(len(hosts)))


def _occupancy(counts: Ints, end: float) -> Occupancy:
    """Return one row a node."""
    nodes = len(counts)
    return Occupancy(
        job=np.zeros(nodes, np.int64),
        node=np.arange(nodes),
        count=np.ones(nodes, np.int64),
        cores=counts,
        start=np.zeros(nodes),
        end=np.full(nodes, end),
        released=np.zeros(nodes, np.bool_),
    )
