"""Time the writing of OTF2 traces: events a second through the compiled writer, and from records to files.

Usage: python tools/bench/otf2_writer.py [EVENTS] [DIRECTORY]

EVENTS (default 10000000) is about how many events each trace has, DIRECTORY where the traces go for the
time of the run (default: a temporary one). The table gives, for each trace,

locations   rows of the trace; each has two files
events      events in the trace
writer      10^6 events a second of CPU in the compiled pass that writes the nodes' locations
all         10^6 events a second of CPU from records to closed files, with sorting and definitions
B/event     bytes of all files over events
seconds     of CPU from records to closed files
memory      growth of the process's peak memory, in MB

On a file system that is slow with small files the number of locations is what takes the time; a
DIRECTORY in memory, such as /dev/shm, shows the writer alone.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mlsim.record import Chunks, Jobs, Loops, Messages, Nodes, Occupancy, PEs, Records, empty
from mlsim.record.otf2 import Level, TraceInfo, TraceOptions, event_pass, write_otf2

CORES = 16


def machine(nodes: int) -> Nodes:
    names = [f"n{node}" for node in range(nodes)]
    return Nodes(names, ["nodes"] * nodes, np.full(nodes, CORES), np.ones(nodes))


def full_machine(nodes: int, jobs: int) -> Records:
    """Fill the machine with one-node jobs, round after round, which start and end at odd times."""
    row = np.arange(jobs)
    start = (row // nodes) * 1000.0 + row % nodes * 0.1234567
    end = start + 900.1234
    held = Occupancy(
        row, row % nodes, np.ones(jobs, np.int64), np.full(jobs, CORES), start, end, np.zeros(jobs, np.bool_)
    )
    ones = np.ones(jobs, np.int64)
    table = Jobs(
        row,
        start - 10.0 * (start >= 10.0),
        start,
        end,
        end - start,
        end - start,
        end - start,
        ones * CORES,
        ones * CORES,
        ones * CORES,
        np.zeros(jobs, np.int8),
        np.zeros(jobs, np.bool_),
        row % 50,
        ones,
        row % 7,
        ones,
        ones,
    )
    rest = (empty(Loops), empty(Chunks), empty(PEs), empty(Messages))
    return Records(machine(nodes), table, held, *rest)


def with_chunks(records: Records, per_pe: int) -> Records:
    """Add loops: every PE executes ``per_pe`` chunks with a pause before each."""
    jobs = len(records.jobs.job_id)
    size = jobs * CORES * per_pe
    job = np.repeat(np.arange(jobs), CORES * per_pe)
    step = np.tile(np.arange(CORES * per_pe), jobs)
    pe = (step % CORES).astype(np.int32)
    pace = 900.0 / (per_pe + 1)
    begin = records.jobs.start_time[job] + (step // CORES) * pace + pe * 0.001
    chunks = Chunks(job, pe, step, step * 100, np.full(size, 100), begin, begin + 0.01, begin + 0.9 * pace)
    pes = len(job) // per_pe
    pe_job = np.repeat(np.arange(jobs), CORES)
    told = records.jobs.end_time[pe_job] - 1.0
    last = PEs(pe_job, np.tile(np.arange(CORES, dtype=np.int32), jobs), told, told, np.ones(pes))
    return replace(records, chunks=chunks, pes=last, loops=replace(empty(Loops), job=np.arange(jobs)))


def with_requests(records: Records) -> Records:
    """Add what rows of PEs tell of their requests."""
    pes = records.pes
    return replace(
        records, pes=replace(pes, latency=np.full(len(pes.pe), 1e-6), last_request=pes.told - 1e-3)
    )


def timed(function: Callable[..., Any], spent: list[float]) -> Callable[..., Any]:
    """Wrap a function so that the CPU time spent in it is added to a list."""

    def call(*arguments: Any) -> Any:
        began = time.process_time()
        result = function(*arguments)
        spent.append(time.process_time() - began)
        return result

    return call


def measure(name: str, directory: Path, records: Records, level: Level, *, exclusive: bool) -> None:
    """Write one trace and print a row of the table."""
    spent: list[float] = []
    compiled = event_pass.write_rows
    event_pass.write_rows = timed(compiled, spent)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    info: TraceInfo = write_otf2(
        directory,
        records,
        TraceOptions(
            level, scenario_name="bench", technique="GSS", workload_name="bench", exclusive_nodes=exclusive
        ),
    )
    total = time.process_time() - began
    event_pass.write_rows = compiled
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) / 1024
    print(
        f"{name:<28}{info.locations:>10}{info.events:>11}{info.events / sum(spent) / 1e6:>9.1f}"
        f"{info.events / total / 1e6:>7.1f}{info.bytes / info.events:>9.1f}{total:>9.2f}{grown:>8.0f}"
    )


def main() -> None:
    events = int(float(sys.argv[1])) if len(sys.argv) > 1 else 10_000_000
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as where:
        root = Path(where)
        small = with_chunks(full_machine(4, 8), 3)
        small = with_requests(small)
        levels: tuple[Level, ...] = ("jobs", "nodes", "chunks", "messages")
        for level in levels:  # compiles the kernels, or loads them
            names = {"scenario_name": "s", "technique": "GSS", "workload_name": "w"}
            write_otf2(root / f"small-{level}", small, TraceOptions(level, exclusive_nodes=False, **names))
        print(
            f"{'trace':<28}{'locations':>10}{'events':>11}{'writer':>9}{'all':>7}{'B/event':>9}{'seconds':>9}{'memory':>8}"
        )
        plain = full_machine(256, events // (2 * CORES))
        measure("enters and leaves", root / "plain", plain, "jobs", exclusive=False)
        loops = with_chunks(full_machine(256, events // (CORES * 100)), 48)
        measure("chunks, 48 a PE", root / "chunks", loops, "chunks", exclusive=False)
        asked = with_requests(loops)
        measure("the same, with messages", root / "messages", asked, "messages", exclusive=False)
        measure("the same, jobs and idle", root / "nodes", loops, "nodes", exclusive=False)
        many = full_machine(5000, 20000)
        measure("80,000 cores", root / "cores", many, "jobs", exclusive=False)
        jobs = full_machine(5000, events // 20)
        measure("many jobs, a row a node", root / "jobs", jobs, "jobs", exclusive=True)


if __name__ == "__main__":
    main()
