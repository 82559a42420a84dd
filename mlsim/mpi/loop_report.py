"""The report, the records and the run directory of a real loop, from the times and requests of all ranks."""

import logging
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Any

import mpi4py
import numpy as np

from mlsim._runtime.arrays import Floats, Ints
from mlsim.application.loop_outcome import ChunkRows, LoopOutcome, LoopRecorder
from mlsim.application.selection.selector import percent_imbalance
from mlsim.mpi.loop_context import allgather, library_version, node_name
from mlsim.mpi.loop_options import EXECUTION_KEYS, LoopOptions, typical_break_after
from mlsim.mpi.real_model import COLUMNS, RankTimes, RequestLog, Setting
from mlsim.record import ChunkStore, Messages, Nodes, Occupancy, Records, empty
from mlsim.record.derived_times import one_job
from mlsim.record.record_tables import RankRequests, Ranks
from mlsim.scenario import Scenario, from_mapping
from mlsim.scenario.words import TraceLevel


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

    def facts(self) -> dict[str, Any]:
        """Return the totals as values that JSON can hold."""
        own = vars(self).items()
        return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in own}


@dataclass(frozen=True)
class LoopReport:
    """Execution of a loop on one rank; times in s."""

    rank: int
    ranks: int
    chunks: int  # that this rank executed
    executed: int  # iterations
    busy: float  # time executing chunks
    overhead: float
    """Time between asking for a chunk and starting it, or the notice that there is none; a master's time
    serving others amid its own chunk, or as its only work.
    """
    finish: float  # end of its last chunk, from the loop's first request on any rank; 0 if it had none
    told: float  # when it learned that there is no more work
    loop: LoopTotals | None  # the whole loop; None but on rank 0

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
    setting: Setting
    rank_times: RankTimes
    origin: float  # rank 0's reading of its clock at the loop's first request
    executed: Floats  # iterations of every rank
    busy: Floats  # s, of every rank

    def aligned(self, readings: Floats) -> Floats:
        """Return the times of readings of this rank's clock, in s from the loop's first request."""
        return self.setting.clock.aligned(readings) - self.origin


def gather(setting: Setting, rank_times: RankTimes) -> Gathered:
    """Make every rank's report, with times from the loop's first request; all ranks must call this."""
    comm = setting.layout.comm
    mine = rank_times.totals()
    times = slice(COLUMNS.index("begin"), None)
    mine[times] = setting.clock.aligned(mine[times])
    everyone = allgather(comm, setting.patience, mine)
    origin = float(everyone[:, COLUMNS.index("begin")].min())
    everyone[:, times] -= origin
    columns = dict(zip(COLUMNS, everyone.T, strict=True))
    columns["finish"] = np.where(columns["chunks"] > 0, columns["finish"], 0.0)
    own = {name: column[comm.rank].item() for name, column in columns.items() if name != "begin"}
    own |= {name: int(own[name]) for name in ("chunks", "executed")}
    totals = _totals(columns, setting.options) if comm.rank == 0 else None
    report = LoopReport(rank=comm.rank, ranks=comm.size, **own, loop=totals)
    return Gathered(report, setting, rank_times, origin, columns["executed"], columns["busy"])


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


def gather_records(gathered: Gathered) -> Records | None:
    """Gather the chunks of all ranks on rank 0, None on others; all ranks must call this."""
    layout = gathered.setting.layout
    comm = layout.comm
    names = comm.gather(node_name())
    rows = gather_rows(gathered)
    if rows is None or names is None:
        return None
    totals = gathered.report.loop
    assert totals is not None, "rank 0 knows the whole loop"
    outcome = _outcome(totals, layout.ranks_of_pes, rows)
    store = ChunkStore()
    chunks = store.open()
    chunks.begin_step(0.0, 0, 0)
    chunks.take(rows.pe, rows.step, rows.first, rows.size, rows.requested, rows.start, rows.end)
    recorder = LoopRecorder(True, store)
    recorder.take(0, 0.0, outcome, chunks)
    hosts = [names[rank] for rank in layout.leaders]
    numbered = [
        host if hosts.count(host) == 1 else f"{host}/{hosts[:row].count(host)}"
        for row, host in enumerate(hosts)
    ]
    end, nodes = float(outcome.notified_at.max()), len(hosts)
    return Records(
        nodes=Nodes(numbered, ["mpi"] * nodes, layout.counts, np.ones(nodes)),
        jobs=one_job(1, end, comm.size, comm.size),
        occupancy=Occupancy(
            job=np.zeros(nodes, np.int64),
            node=np.arange(nodes),
            count=np.ones(nodes, np.int64),
            cores=layout.counts,
            start=np.zeros(nodes),
            end=np.full(nodes, end),
            released=np.zeros(nodes, np.bool_),
        ),
        loops=recorder.loops(),
        chunks=recorder.chunks(),
        pes=recorder.pes(),
        messages=empty(Messages),
    )


def gather_rows(gathered: Gathered) -> ChunkRows | None:
    """Gather the chunks of all PEs, by (start, PE), on rank 0; None on others. All ranks must call this."""
    numbers, times = gathered.rank_times.rows()
    layout = gathered.setting.layout
    everyone = layout.comm.gather((numbers, gathered.aligned(times)))
    if everyone is None:
        return None
    blocks = [everyone[rank] for rank in layout.ranks_of_pes]
    pe = np.repeat(np.arange(len(blocks), dtype=np.int32), [len(numbers) for numbers, _ in blocks])
    numbers, times = map(np.concatenate, zip(*blocks, strict=True))
    order = np.lexsort((pe, times[:, 1]))
    # Contiguous, as columns of simulated loops: the kernels that sort them are built for such.
    first, size, step = np.ascontiguousarray(numbers[order].T)
    requested, start, end = np.ascontiguousarray(times[order].T)
    return ChunkRows(pe[order], step, first, size, requested, start, end)


def gather_requests(gathered: Gathered, log: RequestLog | None) -> Requests | None:
    """Gather the requests to the master of CCA and their answers on rank 0; all ranks must call this."""
    if log is None:
        return None
    layout = gathered.setting.layout
    everyone = layout.comm.gather(gathered.aligned(log.sent.columns()[0]))
    if everyone is None:
        return None
    of_master = (moments.columns() for moments in (log.received, log.answered, log.begun))
    (received, who), (answered, whom), (begun, sizes) = (
        (gathered.aligned(times), numbers) for times, numbers in of_master
    )
    asked, had = np.zeros(len(whom)), np.zeros(len(whom))
    for rank, times in enumerate(everyone):
        asked[whom == rank] = times
        had[whom == rank] = received[who == rank]
    # A worker may lose its core between sending and noting it: what the master has, has been sent.
    asked = np.minimum(asked, had)
    pe_of = np.argsort(layout.ranks_of_pes)
    pieces = iterations_begun(asked, answered, begun, sizes)
    return Requests(pe_of[whom], asked, had, answered, log.request_bytes, log.reply_bytes, pieces)


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


def write_run(
    directory: Path, records: Records, requests: Requests | None, ranks: Ints, options: LoopOptions, name: str
) -> None:
    """Write tables, summary, pictures and, with the package otf2, a trace, beside an existing directory.

    ``ranks``: rank of each PE. Raises OutputError if the directory exists, or not all can be written, with
    what was kept, and where.
    """
    import polars as pl

    from mlsim.analysis import loop_facts, plots, summarize
    from mlsim.experiment import Result, loops
    from mlsim.experiment.result_directories import complete_or_gone
    from mlsim.experiment.run_directory import versions, write_files, write_json

    scenario = scenario_of(records, options, name, loops.REFERENCE_SPEED)
    if scenario.output.trace is TraceLevel.NONE:
        text = "%s: no trace, as there is no package otf2 (pip install 'mlsim[otf2]'); all else is written"
        logging.getLogger("mlsim").warning(text, directory)
    summary = summarize(records, scenario=name, seed=options.seed, technique=options.technique)
    summary["loop"] = loop_facts(records, options.technique, options.model)
    summary["mpi"] = {"library": library_version(), "real": True}
    if requests is not None:
        waits, iterations = requests.answered - requests.sent, requests.master_iterations
        summary["mpi"]["requests"] = {
            "count": len(waits),
            "most_master_iterations": int(iterations.max(initial=0)),
            "longest_wait": float(waits.max(initial=0.0)),
        }
    with complete_or_gone(directory, done=True) as place:
        if requests is not None:
            times = {f"{name}_time": getattr(requests, name) for name in ("sent", "received", "answered")}
            columns = {"pe": requests.pe, **times, "master_iterations": requests.master_iterations}
            pl.DataFrame(columns).write_parquet(place.partial / "requests.parquet", compression="zstd")
        write_files(place, place.partial, Result(scenario, summary, records), ranks=Ranks(ranks, requests))
        if len(records.chunks.job):
            title = f"{name}: {options.technique} {options.model}"
            with place.extra(place.partial / "pes.png") as path:
                plots.write_picture(plots.pe_timeline(records, title), path)
            with place.extra(place.partial / "chunk-sizes.png") as path:
                curve = plots.chunk_curve(records.chunks, title)
                plots.write_picture(plots.chunk_sizes([curve], title), path)
        write_json(place.partial / "versions.json", {**versions(), "mpi4py": mpi4py.__version__})


def scenario_of(records: Records, options: LoopOptions, name: str, speed: float) -> Scenario:
    """Describe a real loop as a scenario, its iterations costing their measured mean each."""
    mean = float(records.loops.busy[0]) / max(options.n, 1)
    level = "chunks" if options.request_ahead else "messages"
    unread = {"lock"} if options.has_master else {"lock", "master", "service_order", "request_ahead"}
    execution = {key: getattr(options, key) for key in EXECUTION_KEYS if key not in unread}
    if options.has_master:
        execution["break_after"] = options.break_after or typical_break_after(mean)
    parameters = {key: value for key, value in options.parameters.items() if value is not None}
    if options.weights is not None:
        parameters["weights"] = list(map(float, options.weights))
    cores = groupby(np.asarray(records.nodes.cores).tolist())
    nodes = [
        {"name": f"group{row}-", "count": len(list(same)), "cores": size, "speed": speed}
        for row, (size, same) in enumerate(cores)
    ]
    return from_mapping(
        {
            "name": name,
            "seed": options.seed,
            "platform": {"nodes": nodes, "reference_speed": speed},
            "workload": {"path": "mpi", "mapping": "core"},
            "application": {
                "model": "loop",
                "technique": options.technique,
                "min_chunk": options.min_chunk,
                "iterations": {"count": max(options.n, 1)},
                "costs": {"profile": "constant", "mean": mean},
                "execution": execution,
                "parameters": parameters,
            },
            "output": {"trace": level if find_spec("otf2") else "none"},
        },
        name,
    )
