"""A real loop as the records and the directory of a run."""

from itertools import groupby
from pathlib import Path
from typing import Any

import mpi4py
import numpy as np
from mpi4py import MPI

from mlsim._runtime.arrays import Floats, Ints
from mlsim.application.loop_outcome import ChunkRows, LoopOutcome, LoopRecorder
from mlsim.experiment.loops import REFERENCE_SPEED
from mlsim.experiment.result import Result
from mlsim.experiment.result_directories import complete_or_gone
from mlsim.experiment.run_directory import versions, write_files, write_json
from mlsim.mpi.loop_context import Clock, Layout, node_name
from mlsim.mpi.loop_options import EXECUTION_KEYS, LoopOptions, typical_break_after
from mlsim.mpi.loop_report import Gathered, LoopTotals, RankTimes, RequestLog, Requests, iterations_begun
from mlsim.record import ChunkStore, Messages, Nodes, Occupancy, Records, empty
from mlsim.record.record_tables import Ranks
from mlsim.record.timelines import one_job
from mlsim.scenario import Scenario, from_mapping


def gather_records(layout: Layout, clock: Clock, rank_times: RankTimes, gathered: Gathered) -> Records | None:
    """Gather the chunks of all ranks on rank 0, None on others; all ranks must call this."""
    comm = layout.comm
    names = comm.gather(node_name())
    rows = gather_rows(layout, clock, rank_times, gathered)
    if rows is None or names is None:
        return None
    totals = gathered.report.loop
    assert totals is not None, "rank 0 knows the whole loop"
    order = layout.ranks_of_pes
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
    return _chunk_rows([blocks[rank] for rank in layout.ranks_of_pes])


def gather_requests(
    layout: Layout, clock: Clock, log: RequestLog | None, gathered: Gathered
) -> Requests | None:
    """Gather the requests to the master of CCA and their answers on rank 0; all ranks must call this."""
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
    pe_of = np.argsort(layout.ranks_of_pes)
    pieces = iterations_begun(asked, answered, begun, sizes)
    return Requests(pe_of[whom], asked, had, answered, log.request_bytes, log.reply_bytes, pieces)


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
    """Return one row per node."""
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


def write_run(
    directory: Path, records: Records, requests: Requests | None, ranks: Ints, options: LoopOptions, name: str
) -> None:
    """Write tables, summary, pictures and an OTF2 trace, beside an existing directory.

    ``ranks``: rank of each PE. Raises OutputError if the directory exists, or not all can be written, with
    what was kept, and where.
    """
    from mlsim.analysis import loop_facts, summarize
    from mlsim.analysis.plots import chunk_curve, chunk_sizes, pe_timeline, write_picture

    scenario = scenario_of(records, options, name)
    summary = summarize(records, scenario=name, seed=options.seed, technique=options.technique)
    summary["loop"] = loop_facts(records, options.technique, options.model)
    summary["mpi"] = {"library": MPI.Get_library_version().split("\n")[0].strip("\0 "), "real": True}
    if requests is not None:
        waits, iterations = requests.answered - requests.sent, requests.master_iterations
        summary["mpi"]["requests"] = {
            "count": len(waits),
            "most_master_iterations": int(iterations.max(initial=0)),
            "longest_wait": float(waits.max(initial=0.0)),
        }
    with complete_or_gone(directory, done=True) as place:
        if requests is not None:
            _write_requests(place.partial / "requests.parquet", requests)
        write_files(place, place.partial, Result(scenario, summary, records), ranks=Ranks(ranks, requests))
        if len(records.chunks.job):
            title = f"{name}: {options.technique} {options.model}"
            with place.extra(place.partial / "pes.png") as path:
                write_picture(pe_timeline(records, title), path)
            with place.extra(place.partial / "chunk-sizes.png") as path:
                write_picture(chunk_sizes([chunk_curve(records.chunks, title)], title), path)
        write_json(place.partial / "versions.json", {**versions(), "mpi4py": mpi4py.__version__})


def _write_requests(path: Path, requests: Requests) -> None:
    import polars as pl

    times = {f"{name}_time": getattr(requests, name) for name in ("sent", "received", "answered")}
    columns = {"pe": requests.pe, **times, "master_iterations": requests.master_iterations}
    pl.DataFrame(columns).write_parquet(path, compression="zstd")


def scenario_of(records: Records, options: LoopOptions, name: str) -> Scenario:
    """Describe a real loop as a scenario, its iterations costing their measured mean each."""
    mean = float(records.loops.busy[0]) / max(options.n, 1)
    unread = {"lock"} if options.has_master else {"lock", "master", "service_order", "request_ahead"}
    execution = {key: getattr(options, key) for key in EXECUTION_KEYS if key not in unread}
    if options.has_master:
        execution["break_after"] = options.break_after or typical_break_after(mean)
    parameters = {key: value for key, value in options.parameters.items() if value is not None}
    if options.weights is not None:
        parameters["weights"] = list(map(float, options.weights))
    return from_mapping(
        {
            "name": name,
            "seed": options.seed,
            "platform": {"nodes": _groups(records), "reference_speed": REFERENCE_SPEED},
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
            "output": {"trace": "chunks" if options.request_ahead else "messages"},
        },
        name,
    )


def _groups(records: Records) -> list[dict[str, Any]]:
    """Return the nodes as node groups of equal numbers of ranks."""
    cores = np.asarray(records.nodes.cores).tolist()
    return [
        {"name": f"group{row}-", "count": len(list(same)), "cores": size, "speed": REFERENCE_SPEED}
        for row, (size, same) in enumerate(groupby(cores))
    ]
