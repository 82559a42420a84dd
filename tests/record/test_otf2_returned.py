"""A node that a job gave up and got back, worked out by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mlsim.errors import MlsimError
from mlsim.record import Chunks, MessageKind, Messages, PEs, Records
from mlsim.record.otf2 import Level, TraceOptions, write_otf2
from tests.record.traces import Span, Trace, read_trace
from tests.reference.runs import Job, Stay, loops_of, records_of

JOBS = [Job(0, 0, 10, processors=4, cores=4), Job(0, 0, 3), Job(0, 4, 6, processors=2, cores=2)]
# Job 1 has cores 0 and 1 of node 0, and cores 1 and 2 of node 1, for job 2 has core 0. When node 1 comes
# back, core 0 is free, and job 3, which had cores 0 and 1, has ended.
STAYS = [
    Stay(1, 1, 1, 1, 0, 3),
    Stay(0, 0, 1, 2, 0, 10),
    Stay(0, 1, 1, 2, 0, 4, True),
    Stay(2, 1, 1, 2, 4, 6),
    Stay(0, 1, 1, 2, 6, 10),
]
# PE, start, end: PE 3 has no chunk before its node goes.
CHUNKS = [(0, 0, 9), (1, 0, 8), (2, 0, 3), (2, 7, 8), (3, 6.5, 9)]


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def chunks_of(rows: list[tuple[int, float, float]]) -> Chunks:
    pe, start, end = (np.array(column) for column in zip(*rows, strict=True))
    number = np.arange(len(rows))
    times = start.astype(np.float64), start.astype(np.float64), end.astype(np.float64)
    return Chunks(number * 0, pe.astype(np.int32), number, number, number + 1, *times)


def run(chunks: list[tuple[int, float, float]] = CHUNKS, told: tuple[float, ...] = (9, 8, 8.5, 9)) -> Records:
    pes = PEs(ints(0, 0, 0, 0), np.arange(4, dtype=np.int32), np.array(told), np.array(told), np.array(told))
    returned = Messages(
        np.array([MessageKind.NODE_IDLE, MessageKind.NODE_RETURNED], np.int8),
        ints(0, 0),
        ints(1, 1),
        np.array([3.5, 6.0]),
        np.array([4.0, 6.5]),
        ints(1, 1),
        ints(-1, -1),
        ints(0, 0),
        np.zeros(2),
    )
    loops = loops_of([{"job": 0, "pes": 4}])
    return records_of(JOBS, STAYS, [2, 3], loops=loops, chunks=chunks_of(chunks), pes=pes, messages=returned)


def trace_of(
    directory: Path,
    records: Records,
    level: Level,
    *,
    exclusive: bool = False,
    pes_per_node: int | None = None,
) -> Trace:
    names = {"scenario_name": "demo", "technique": "GSS", "workload_name": "demo.swf"}
    write_otf2(
        directory, records, TraceOptions(level, exclusive_nodes=exclusive, pes_per_node=pes_per_node, **names)
    )
    return read_trace(directory)


def seconds(spans: list[Span]) -> set[tuple[int, float, float]]:
    """Return the row, from 1, of each span, and its times."""
    return {(span.location - 1, span.begin / 1e9, span.end / 1e9) for span in spans}


def test_chunks_follow_their_pe_to_its_new_core(tmp_path: Path) -> None:
    """Locations: the dispatcher, two cores of node 0, three of node 1."""
    trace = trace_of(tmp_path, run(), "chunks")
    assert seconds(trace.nested("chunk")) == {(1, 0, 9), (2, 0, 8), (4, 0, 3), (3, 7, 8), (4, 6.5, 9)}
    assert all(span.outer == "1" for span in trace.nested("chunk"))


def test_pes_are_idle_from_their_last_chunk_until_their_node_goes(tmp_path: Path) -> None:
    idle = seconds(trace_of(tmp_path, run(), "chunks").nested("idle"))
    assert idle == {(1, 9, 10), (2, 8, 10), (4, 3, 4), (5, 0, 4), (3, 8.5, 10), (4, 9, 10)}


def test_without_chunks_they_are_idle_from_when_their_node_said_so(tmp_path: Path) -> None:
    idle = seconds(trace_of(tmp_path, run(), "nodes").nested("idle"))
    assert idle == {(1, 9, 10), (2, 8, 10), (4, 3.5, 4), (5, 3.5, 4), (3, 8.5, 10), (4, 9, 10)}


def test_pes_that_never_asked_again_are_idle_from_when_their_node_came_back(tmp_path: Path) -> None:
    idle = seconds(trace_of(tmp_path, run(CHUNKS[:3], told=(9, 8, 3.25, 2.0)), "chunks").nested("idle"))
    assert idle == {(1, 9, 10), (2, 8, 10), (4, 3, 4), (5, 0, 4), (3, 6, 10), (4, 6, 10)}


def test_some_pes_of_a_node_may_follow(tmp_path: Path) -> None:
    """One PE a node: PE 1 is on node 1."""
    chunks = [(0, 0.0, 9.0), (1, 0.0, 3.0), (1, 7.0, 8.0)]
    records = run(chunks)
    records = records_of(
        JOBS, STAYS, [2, 3], loops=records.loops, chunks=records.chunks, messages=records.messages
    )
    trace = trace_of(tmp_path, records, "chunks", pes_per_node=1)
    assert seconds(trace.nested("chunk")) == {(1, 0, 9), (4, 0, 3), (3, 7, 8)}


@pytest.mark.parametrize("at", [4.5, 3.5, 5.5])
def test_a_chunk_while_the_node_was_away_is_an_error(tmp_path: Path, at: float) -> None:
    with pytest.raises(MlsimError, match="the PE's core was not the job's then"):
        trace_of(tmp_path, run([*CHUNKS[:3], (2, at, 6.25)]), "chunks")


def test_a_chunk_may_begin_before_its_stay_by_a_rounding_error(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, run([*CHUNKS[:3], (2, 6 - 1e-8, 7)]), "chunks")
    assert (3, 6, 7) in seconds(trace.nested("chunk"))
